//! What should be stored.

use super::worker::name;
use crate::Lossiness;
use crate::{Expiry, ItemState, Meta};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

/// The facts that only stores and amendments change.
const FACTS: u8 = ItemState::STALE.0 | ItemState::TOKEN_SENT.0 | ItemState::HIDDEN.0;

/// An item as it was stored.
#[derive(Clone, Debug)]
pub(super) struct Modelled {
    pub(super) value: Vec<u8>,
    pub(super) flags: u32,
    pub(super) expiry: Expiry,
    pub(super) cas: Option<u64>,
    pub(super) facts: ItemState,
}

impl Modelled {
    /// What of an item's metadata is not as it was stored.
    pub(super) fn differs(&self, meta: &Meta) -> Option<String> {
        let found = (meta.value_len, meta.flags, meta.expiry, meta.cas, meta.state.0 & FACTS);
        let stored = (self.value.len(), self.flags, self.expiry, self.cas, self.facts.0);
        (found != stored).then(|| {
            format!("length, flags, expiry, cas unique and facts are {found:?}, and {stored:?} was stored")
        })
    }
}

/// What was done, as the engine should have counted it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) stored: u64,
    /// Live items that others were stored over.
    pub(super) replaced: u64,
    pub(super) removed: u64,
    /// Live items that were not there any more.
    pub(super) lost: u64,
    /// Calls that found no memory.
    pub(super) refused: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.stored += other.stored;
        self.replaced += other.replaced;
        self.removed += other.removed;
        self.lost += other.lost;
        self.refused += other.refused;
    }

    /// How many items there would be if none had been evicted and none had died.
    pub(super) fn left(&self) -> u64 {
        self.stored - self.replaced - self.removed
    }
}

#[derive(Debug)]
pub(super) struct Model {
    items: HashMap<u32, Modelled>,
    losses: Lossiness,
    /// When everything is to disappear.
    flush_due: Option<Seconds>,
    pub(super) tally: Tally,
}

impl Model {
    pub(super) fn new(losses: Lossiness) -> Self {
        Model { items: HashMap::new(), losses, flush_due: None, tally: Tally::default() }
    }

    /// What is under a key at `now`.
    pub(super) fn live(&self, key: u32, now: Seconds) -> Option<&Modelled> {
        self.items.get(&key).filter(|item| !item.expiry.passed(now))
    }

    /// The same, to be changed.
    pub(super) fn live_mut(&mut self, key: u32, now: Seconds) -> Option<&mut Modelled> {
        self.items.get_mut(&key).filter(|item| !item.expiry.passed(now))
    }

    /// All keys under which something is at `now`.
    pub(super) fn keys(&self, now: Seconds) -> Vec<u32> {
        let live = self.items.iter().filter(|(_, item)| !item.expiry.passed(now));
        let mut keys: Vec<u32> = live.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn insert(&mut self, key: u32, item: Modelled) {
        self.items.insert(key, item);
    }

    pub(super) fn remove(&mut self, key: u32) {
        self.items.remove(&key);
    }

    /// What is there is not to be seen from `at` on; what another flush would have taken later stays.
    pub(super) fn flush(&mut self, now: Seconds, at: Seconds) {
        self.flush_due = Some(at);
        self.passes(now);
    }

    /// What is there under keys that begin with `prefix` is not to be seen any more.
    pub(super) fn flush_prefix(&mut self, now: Seconds, prefix: &[u8]) {
        self.passes(now);
        self.items.retain(|key, _| !name(*key).starts_with(prefix));
    }

    /// It is `now`.
    pub(super) fn passes(&mut self, now: Seconds) {
        if self.flush_due.is_some_and(|due| due <= now) {
            self.flush_due = None;
            self.items.clear();
        }
        self.items.retain(|_, item| !item.expiry.passed(now));
    }

    /// A live item is not there. In a cache it must not come back.
    ///
    /// # Errors
    /// In a store.
    pub(super) fn lose(&mut self, key: u32) -> Result<(), String> {
        if self.losses == Lossiness::Store {
            return Err("it is missing".to_owned());
        }
        self.items.remove(&key);
        self.tally.lost += 1;
        Ok(())
    }
}
