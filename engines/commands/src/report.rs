//! Reports events to the observer: all events of some kinds, or all events of keys in a sample. Without an observer, a
//! command tests one byte and one number.

use crate::executor::Executor;
use crate::observe::{DeletedBy, Event, Got, Kinds, StoreEnd, StoredBy};
use crate::request::Stored;
use guira_contract::{Expiry, Key, Meta, MissKind, Session, StoreError};
use guira_protocol::Verb;

impl<S: Session> Executor<S> {
    /// Reports events of these kinds from now on.
    pub fn observe_kinds(&mut self, kinds: Kinds) {
        self.kinds = kinds;
    }

    /// Also reports all events of keys with hashes below `threshold` from now on.
    pub fn observe_sample(&mut self, threshold: u64) {
        self.sampled_below = threshold;
    }

    /// Whether an event is reported.
    #[inline(always)]
    fn observes(&self, kinds: Kinds, key: Key<'_>) -> bool {
        // Not `||`: one branch, which is nearly never taken.
        self.kinds.any(kinds) | (key.hash.0 < self.sampled_below)
    }

    #[inline(always)]
    pub(crate) fn saw_get(&mut self, key: Key<'_>, got: Got) {
        if self.observes(Kinds::GETS, key) {
            self.report_get(key, got);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_get(&mut self, key: Key<'_>, got: Got) {
        let item = if got == Got::Found { self.meta_of(key) } else { None };
        self.observer.see(Event::Get { key: key.bytes, got, item }, key.hash);
    }

    /// Reports a lookup that does not return the value.
    #[inline(always)]
    pub(crate) fn saw_lookup(&mut self, key: Key<'_>) {
        if self.kinds.any(Kinds::GETS) {
            self.report_lookup(key);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_lookup(&mut self, key: Key<'_>) {
        let (got, item) = self.look_up(key);
        self.observer.see(Event::Lookup { key: key.bytes, got, item }, key.hash);
    }

    #[inline(always)]
    pub(crate) fn saw_store(
        &mut self,
        key: Key<'_>,
        verb: Verb,
        expiry: Expiry,
        value_len: usize,
        result: Result<Stored, StoreError>,
    ) {
        if self.observes(Kinds::STORES, key) {
            self.report_store(key, verb, expiry, value_len, result);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_store(
        &mut self,
        key: Key<'_>,
        verb: Verb,
        expiry: Expiry,
        value_len: usize,
        result: Result<Stored, StoreError>,
    ) {
        let end = match result {
            Ok(Stored::Yes(_) | Stored::Stale(_)) => StoreEnd::Stored,
            Ok(Stored::Unmet) => StoreEnd::NotStored,
            Ok(Stored::Exists) => StoreEnd::Exists,
            Ok(Stored::NotFound) => StoreEnd::NotFound,
            // The outcome as the reply gives it.
            Err(StoreError::TooLarge) if matches!(verb, Verb::Append | Verb::Prepend) => StoreEnd::NotStored,
            Err(refusal) => refused_end(refusal),
        };
        let meta = self.meta_of(key);
        let (class, size) = meta.map_or((0, 0), |meta| (meta.class, meta.size));
        // The stored value may be longer than the one sent, and may have kept its expiry.
        let stored = meta.filter(|_| end == StoreEnd::Stored);
        let (expiry, value_len) = stored.map_or((expiry, value_len), |meta| (meta.expiry, meta.value_len));
        let ttl = self.left(expiry);
        let by = StoredBy::Store;
        let event = Event::Store { key: key.bytes, by, verb, end, ttl, class, value_len, size };
        self.observer.see(event, key.hash);
    }

    /// Reports a store that was refused before it began.
    #[cold]
    pub(crate) fn saw_refusal(&mut self, key: &[u8], verb: Verb, refusal: StoreError) {
        if self.kinds.any(Kinds::STORES) {
            let (by, end) = (StoredBy::Store, refused_end(refusal));
            let event = Event::Store { key, by, verb, end, ttl: 0, class: 0, value_len: 0, size: 0 };
            self.observer.see(event, self.session.hash(key));
        }
    }

    /// Reports a store by another command. memcached looks the key up again for it.
    #[inline(always)]
    pub(crate) fn saw_other_store(&mut self, key: Key<'_>, verb: Verb, before: Option<Meta>, expiry: Expiry) {
        if self.observes(Kinds::GETS.with(Kinds::STORES), key) {
            self.report_other_store(key, verb, before, expiry);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_other_store(&mut self, key: Key<'_>, verb: Verb, before: Option<Meta>, expiry: Expiry) {
        if self.kinds.any(Kinds::GETS) {
            let got = before.map_or(Got::Missed(MissKind::Absent), |_| Got::Found);
            self.observer.see(Event::Lookup { key: key.bytes, got, item: before }, key.hash);
        }
        if self.observes(Kinds::STORES, key) {
            let meta = self.meta_of(key);
            let (class, value_len, size) =
                meta.map_or((0, 0, 0), |meta| (meta.class, meta.value_len, meta.size));
            let (by, end, ttl) = (StoredBy::Other, StoreEnd::Stored, self.left(expiry));
            let event = Event::Store { key: key.bytes, by, verb, end, ttl, class, value_len, size };
            self.observer.see(event, key.hash);
        }
    }

    /// Seconds left, 0 for ever.
    fn left(&self, expiry: Expiry) -> u32 {
        match expiry {
            Expiry::Never => 0,
            Expiry::At(at) => at.0.saturating_sub(self.now.0),
        }
    }

    /// The item that is about to be deleted, if deletes are observed.
    #[inline(always)]
    pub(crate) fn before_delete(&mut self, key: Key<'_>) -> Option<Meta> {
        if !self.observes(Kinds::GETS.with(Kinds::DELETES), key) {
            return None;
        }
        self.saw_lookup(key);
        self.meta_of(key)
    }

    /// Reports a delete; `item` is the deleted one, if any.
    #[inline(always)]
    pub(crate) fn saw_delete(&mut self, key: Key<'_>, by: DeletedBy, item: Option<Meta>) {
        if self.observes(Kinds::DELETES, key) {
            self.observer.see(Event::Delete { key: key.bytes, by, item }, key.hash);
        }
    }
}

fn refused_end(refusal: StoreError) -> StoreEnd {
    match refusal {
        StoreError::TooLarge => StoreEnd::TooLarge,
        StoreError::NoMemory => StoreEnd::NoMemory,
    }
}
