//! What deletes do to items, also to hidden ones.

use crate::executor::Executor;
use crate::sight::Sight;
use crate::uniques::Uniques;
use guira_contract::{Amendment, Decision, Expiry, ItemState, ItemView, Key, Provision, Session};
use guira_sync::clock::Seconds;

impl<S: Session> Executor<S> {
    /// Deletes an item if it has this cas unique, or whatever it has if none is given.
    pub(crate) fn delete_item(&mut self, key: Key<'_>, wanted: Option<u64>) -> Deleted {
        let (deletion, uniques) = (self.deletion(), self.uniques);
        let mut outcome = Deleted::Absent;
        let decide = |item: Option<&dyn ItemView>| {
            let (decision, came_of_it) = deletion.decide(item, wanted, uniques);
            outcome = came_of_it;
            decision
        };
        let done = self.update(Sight::Hidden, key, Default::default(), Provision::None, decide);
        if done.is_err() {
            // There is no memory to keep it as stale, or to void its token.
            self.remove(key);
        }
        outcome
    }

    pub(crate) fn deletion(&mut self) -> Deletion {
        let keeps = self.leases.stale_seconds > 0 && self.uniques == Uniques::Kept;
        let stale_until =
            keeps.then(|| Expiry::At(Seconds(self.now.0.saturating_add(self.leases.stale_seconds))));
        Deletion { stale_until, fresh: self.session.next_cas() }
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
    stale_until: Option<Expiry>,
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
        match item {
            None => (Decision::Keep, Deleted::Absent),
            Some(item) if wanted.is_some() && uniques.shown(item.cas()) != wanted => {
                (Decision::Keep, Deleted::Exists)
            }
            Some(item) if item.state().has(ItemState::HIDDEN) => {
                // Who names its unique sees it.
                let came_of_it = if wanted.is_some() { Deleted::Done } else { Deleted::Absent };
                (self.void(item.state()), came_of_it)
            }
            Some(item) => {
                let kept = self.stale_until.map(|until| {
                    Decision::Amend(Amendment {
                        cas: Some(self.fresh),
                        expiry: Some(sooner(item.meta().expiry, until)),
                        set: ItemState::STALE.with(ItemState::HIDDEN),
                        clear: ItemState::TOKEN_SENT,
                        ..Amendment::default()
                    })
                });
                (kept.unwrap_or(Decision::Remove), Deleted::Done)
            }
        }
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

fn sooner(one: Expiry, other: Expiry) -> Expiry {
    match (one, other) {
        (Expiry::At(one), Expiry::At(other)) => Expiry::At(one.min(other)),
        (Expiry::Never, at) | (at, Expiry::Never) => at,
    }
}
