//! What deletes do to items, also to hidden ones.

use crate::executor::Executor;
use crate::sight::{Sight, Vacancy};
use crate::uniques::Uniques;
use guira_contract::{
    Amendment, Decision, Expiry, ItemState, ItemView, Key, NewItem, Provision, Session, StoreError, Value,
};
use guira_sync::clock::Seconds;

impl<S: Session> Executor<S> {
    /// Deletes an item if it has this cas unique, or whatever it has if none is given; nothing may be added under the key for `hold_off` seconds.
    ///
    /// # Errors
    /// If there is no memory to hold the key off; the item is gone all the same.
    pub(crate) fn delete_item(
        &mut self,
        key: Key<'_>,
        wanted: Option<u64>,
        hold_off: u32,
    ) -> Result<Deleted, StoreError> {
        let deletion = self.deletion(hold_off);
        let (outcome, done) = self.try_delete(key, wanted, &deletion, Remains::Left);
        if done.is_ok() {
            return Ok(outcome);
        }
        let outcome = self.delete_at_least(key, wanted, &deletion);
        if deletion.held_until.is_some() { done.map(|()| outcome) } else { Ok(outcome) }
    }

    fn try_delete(
        &mut self,
        key: Key<'_>,
        wanted: Option<u64>,
        deletion: &Deletion,
        remains: Remains,
    ) -> (Deleted, Result<(), StoreError>) {
        let uniques = self.uniques;
        let mut outcome = Deleted::Absent;
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| {
            let held = item.is_some_and(|item| item.state().is_tombstone());
            let (decision, came_of_it) = deletion.decide(item, wanted, uniques);
            outcome = came_of_it;
            match (remains, decision) {
                (Remains::None, Decision::Amend(_) | Decision::Put(_)) if !held => Decision::Remove,
                (Remains::None, Decision::Amend(_) | Decision::Put(_)) => Decision::Keep,
                (_, decision) => decision,
            }
        };
        let done = self.update(Sight::All, key, Default::default(), Provision::None, decide);
        (outcome, done)
    }

    /// Deletes an item when there was no memory for what a deletion leaves behind: a stale value, a tombstone, or a hidden item without its token.
    pub(crate) fn delete_at_least(
        &mut self,
        key: Key<'_>,
        wanted: Option<u64>,
        deletion: &Deletion,
    ) -> Deleted {
        // A removal needs no memory.
        self.try_delete(key, wanted, deletion, Remains::None).0
    }

    pub(crate) fn deletion(&mut self, hold_off: u32) -> Deletion {
        let until = |seconds: u32| (seconds > 0).then(|| Seconds(self.now.0.saturating_add(seconds)));
        let stale_until = until(self.leases.stale_seconds).filter(|_| self.uniques == Uniques::Kept);
        Deletion { stale_until, held_until: until(hold_off), fresh: self.session.next_cas() }
    }
}

/// What a deletion may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remains {
    Left,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    Done,
    /// There was nothing, or nothing that this client sees.
    Absent,
    /// The item has another cas unique.
    Exists,
}

impl Deleted {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Deleted::Done => "HD",
            Deleted::Absent => "NF",
            Deleted::Exists => "EX",
        }
    }
}

/// What a delete does to an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// Until when the value may be served as stale, if it may.
    stale_until: Option<Seconds>,
    /// Until when nothing may be added under the key.
    pub(crate) held_until: Option<Seconds>,
    /// A cas unique that no client knows: the token that was given is void.
    pub(crate) fresh: u64,
}

impl Deletion {
    pub(crate) fn decide(
        &self,
        item: Option<&dyn ItemView>,
        wanted: Option<u64>,
        uniques: Uniques,
    ) -> (Decision<'static>, Deleted) {
        let held = item.filter(|item| item.state().is_tombstone());
        let Some(item) = item.filter(|_| held.is_none()) else {
            return (self.hold_off(held), Deleted::Absent);
        };
        let is_hidden = item.state().has(ItemState::HIDDEN);
        if wanted.is_some() && uniques.shown(item.cas()) != wanted {
            return if is_hidden {
                // What this client does not see is absent, and it is held off as an absent one is.
                (self.hold_off(None), Deleted::Absent)
            } else {
                (Decision::Keep, Deleted::Exists)
            };
        }
        // Who names its unique sees it.
        let outcome = if is_hidden && wanted.is_none() { Deleted::Absent } else { Deleted::Done };
        let decision = if self.held_until.is_some() {
            self.hold_off(None)
        } else if is_hidden {
            self.void(item.state())
        } else {
            self.keep_stale(item).unwrap_or(Decision::Remove)
        };
        (decision, outcome)
    }

    /// Leaves a tombstone if the key is to be held off, unless one is there that lasts as long.
    fn hold_off(&self, held: Option<&dyn ItemView>) -> Decision<'static> {
        let lasts = |until| held.is_some_and(|held| !held.meta().expiry.passed(until));
        let Some(until) = self.held_until.filter(|until| !lasts(*until)) else {
            return Decision::Keep;
        };
        let expiry = Expiry::At(until);
        if held.is_some() {
            // In place, so that it is not lost if there is no memory.
            return Decision::Amend(Amendment { expiry: Some(expiry), ..Amendment::default() });
        }
        let (state, value) = (ItemState::HIDDEN, Value::Bytes(b""));
        Decision::Put(NewItem { flags: 0, expiry, cas: None, state, value })
    }

    fn keep_stale(&self, item: &dyn ItemView) -> Option<Decision<'static>> {
        // What mg has created with N is no value.
        let is_empty = item.value_len() == 0 && item.state().has(ItemState::TOKEN_SENT);
        self.stale_until.filter(|_| !is_empty).map(|until| {
            Decision::Amend(Amendment {
                cas: Some(self.fresh),
                expiry: Some(sooner(item.meta().expiry, until)),
                set: ItemState::STALE.with(ItemState::HIDDEN),
                clear: ItemState::TOKEN_SENT,
                ..Amendment::default()
            })
        })
    }

    /// Voids the token of a hidden item in this state.
    fn void(&self, state: ItemState) -> Decision<'static> {
        if !state.has(ItemState::STALE) {
            return Decision::Remove;
        }
        Decision::Amend(Amendment {
            cas: Some(self.fresh),
            clear: ItemState::TOKEN_SENT,
            ..Amendment::default()
        })
    }
}

fn sooner(one: Expiry, other: Seconds) -> Expiry {
    match one {
        Expiry::At(one) => Expiry::At(one.min(other)),
        Expiry::Never => Expiry::At(other),
    }
}
