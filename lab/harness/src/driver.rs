//! An engine driven inside the process as a worker of the server drives it: a batch of keys is hashed, prefetched and executed, then comes a
//! quiescent point and, now and then, maintenance.

use std::fmt;
use std::marker::PhantomData;

use guira_contract::{
    Decision, Expiry, ItemSpec, ItemState, ItemView, Key, KeyHash, Meta, NewItem, Pace, Provision, Read,
    Recency, Session, Sink, StoreError, Value, ValuePin, Want,
};
use guira_sync::clock::Seconds;

/// How often a driver maintains its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Quiescent points from one maintenance to the next.
    pub every: usize,
    pub steps: usize,
}

/// What is known of a key before its request is executed: its hash, and where its item may be if that was prefetched.
#[derive(Debug)]
pub struct Lookup<S: Session> {
    hash: KeyHash,
    guess: Option<S::Guess>,
}

impl<S: Session> Clone for Lookup<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Session> Copy for Lookup<S> {}

impl<S: Session> Default for Lookup<S> {
    fn default() -> Self {
        Self { hash: KeyHash(0), guess: None }
    }
}

/// One thread at work on an engine. Values are at most `VALUE` bytes long.
pub struct Driver<S: Session, const VALUE: usize> {
    session: S,
    maintenance: Maintenance,
    quiesced: usize,
    copied: Copied<S::Pin, VALUE>,
}

impl<S: Session, const VALUE: usize> fmt::Debug for Driver<S, VALUE> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Driver").field("maintenance", &self.maintenance).finish_non_exhaustive()
    }
}

impl<S: Session, const VALUE: usize> Driver<S, VALUE> {
    /// A thread that drives `session`.
    pub fn new(session: S, maintenance: Maintenance) -> Self {
        let copied = Copied { value: [0; VALUE], length: 0, pin: PhantomData };
        Self { session, maintenance, quiesced: 0, copied }
    }

    /// The session, for what only one experiment does with it.
    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    /// Hashes the key of one request and prefetches nothing.
    #[inline]
    pub fn look_up(&self, key: &[u8]) -> Lookup<S> {
        Lookup { hash: self.session.hash(key), guess: None }
    }

    /// Hashes the keys of a batch, and prefetches their buckets and then their items.
    #[inline]
    pub fn look_ahead<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, lookups: &mut [Lookup<S>]) {
        let session = &self.session;
        for (lookup, key) in lookups.iter_mut().zip(keys) {
            lookup.hash = session.hash(key);
            session.prefetch_buckets(lookup.hash);
        }
        lookups.iter_mut().for_each(|lookup| lookup.guess = Some(session.prefetch_item(lookup.hash)));
        for _ in 0..S::PREFETCH_STEPS {
            for lookup in lookups.iter_mut() {
                lookup.guess = lookup.guess.map(|guess| session.prefetch_next(guess));
            }
        }
    }

    /// Reads a key and copies its value, as a reply does. Returns the value.
    #[inline]
    pub fn get(&mut self, key: &[u8], lookup: Lookup<S>, now: Seconds) -> Option<&[u8]> {
        let key = Key { bytes: key, hash: lookup.hash };
        let guess = lookup.guess.unwrap_or_else(|| self.session.prefetch_item(key.hash));
        match self.session.read(key, guess, now, &mut self.copied) {
            Read::Hit => Some(&self.copied.value[..self.copied.length]),
            Read::Miss(_) => None,
        }
    }

    /// Stores a key.
    ///
    /// # Errors
    /// When the engine refuses.
    #[inline]
    pub fn set(
        &mut self,
        key: &[u8],
        lookup: Lookup<S>,
        value: &[u8],
        expiry: Expiry,
        now: Seconds,
    ) -> Result<(), StoreError> {
        self.set_with(key, lookup, value, expiry, now, || {})
    }

    /// Stores a key, and calls `deciding` in the middle of that.
    ///
    /// # Errors
    /// When the engine refuses.
    #[inline(always)]
    pub fn set_with(
        &mut self,
        key: &[u8],
        lookup: Lookup<S>,
        value: &[u8],
        expiry: Expiry,
        now: Seconds,
        mut deciding: impl FnMut(),
    ) -> Result<(), StoreError> {
        let new = NewItem { flags: 0, expiry, cas: None, state: ItemState::NONE, value: Value::Bytes(value) };
        let provision = Provision::Item(ItemSpec::of(&new, value.len()));
        let key = Key { bytes: key, hash: lookup.hash };
        self.session.update(key, lookup.guess.unwrap_or_default(), now, provision, |_| {
            deciding();
            Decision::Put(new)
        })
    }

    /// Ends a batch. Returns whether it maintained the engine.
    #[inline]
    pub fn end_batch(&mut self, now: Seconds) -> bool {
        self.session.quiesce();
        self.quiesced += 1;
        let is_due = self.quiesced.is_multiple_of(self.maintenance.every);
        if is_due {
            self.session.maintain(now, Pace::Busy, self.maintenance.steps);
        }
        is_due
    }
}

/// Copies the value, as a reply does.
struct Copied<P, const VALUE: usize> {
    value: [u8; VALUE],
    length: usize,
    pin: PhantomData<P>,
}

impl<P: ValuePin, const VALUE: usize> Sink for Copied<P, VALUE> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        self.length = item.value_len().min(VALUE);
        if self.length == VALUE {
            // A length that the compiler knows.
            item.copy_value(0, &mut self.value);
        } else {
            item.copy_value(0, &mut self.value[..self.length]);
        }
    }

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        Recency::Bump
    }

    // Only values far longer than these are pinned.
    fn pinned(&mut self, _meta: &Meta, _pin: P) {}
}
