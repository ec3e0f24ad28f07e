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
        let (deletion, uniques) = (self.deletion(hold_off), self.uniques);
        let mut outcome = Deleted::Absent;
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| {
            let (decision, came_of_it) = deletion.decide(item, wanted, uniques);
            outcome = came_of_it;
            decision
        };
        let done = self.update(Sight::All, key, Default::default(), Provision::None, decide);
        self.delete_at_least(key, &deletion, done)?;
        Ok(outcome)
    }

    /// After a deletion: removes the item if there was no memory for what it leaves behind.
    ///
    /// # Errors
    /// If that is a tombstone. A stale value that is not kept, or a hidden one that goes with its token, concerns no client.
    pub(crate) fn delete_at_least(
        &mut self,
        key: Key<'_>,
        deletion: &Deletion,
        done: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if done.is_err() {
            self.remove(key);
        }
        if deletion.held_until.is_some() { done } else { Ok(()) }
    }

    pub(crate) fn deletion(&mut self, hold_off: u32) -> Deletion {
        let until = |seconds: u32| (seconds > 0).then(|| Seconds(self.now.0.saturating_add(seconds)));
        let stale_until = until(self.leases.stale_seconds).filter(|_| self.uniques == Uniques::Kept);
        Deletion { stale_until, held_until: until(hold_off), fresh: self.session.next_cas() }
    }
}

/// What a delete came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    Done,
    /// There was nothing, or nothing that this client sees.
    Absent,
    /// The item has another cas unique.
    Exists,
}

/// What a delete does to an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// Until when the value may be served as stale, if it may.
    stale_until: Option<Seconds>,
    /// Until when nothing may be added under the key.
    held_until: Option<Seconds>,
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
        if wanted.is_some() && uniques.shown(item.cas()) != wanted {
            return (Decision::Keep, Deleted::Exists);
        }
        let is_hidden = item.state().has(ItemState::HIDDEN);
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
        let (expiry, state, value) = (Expiry::At(until), ItemState::HIDDEN, Value::Bytes(b""));
        Decision::Put(NewItem { flags: 0, expiry, cas: None, state, value })
    }

    fn keep_stale(&self, item: &dyn ItemView) -> Option<Decision<'static>> {
        self.stale_until.map(|until| {
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
