//! Reports events to the observer: all events of some kinds, or all events of keys in a sample. Without an observer, a
//! command tests one byte and one number.

use crate::executor::Executor;
use crate::observe::{DeletedBy, Event, Got, Kinds, StoreEnd, StoredBy, Used};
use crate::request::Stored;
use guira_contract::{Expiry, Key, Meta, MissKind, Session, StoreError, Want};
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

    /// Also reports each request for a key, until [`Self::stop_observing_uses`].
    pub fn observe_uses(&mut self) {
        self.kinds = self.kinds.with(Kinds::USES);
    }

    pub fn stop_observing_uses(&mut self) {
        self.kinds = self.kinds.without(Kinds::USES);
    }

    #[inline(always)]
    fn observes(&self, kinds: Kinds, key: Key<'_>) -> bool {
        // Not `||`: one branch, which is nearly never taken.
        self.kinds.any(kinds) | (key.hash.0 < self.sampled_below)
    }

    /// Reports a read, which sends the value if it finds one.
    #[inline(always)]
    pub(crate) fn saw_get(&mut self, key: Key<'_>, got: Got) {
        self.saw_get_of(key, got, || Want::Value);
    }

    /// Reports a read that sends what it wants.
    #[inline(always)]
    pub(crate) fn saw_get_of(&mut self, key: Key<'_>, got: Got, wants: impl FnOnce() -> Want) {
        if self.observes(Kinds::GETS.with(Kinds::USES), key) {
            self.report_get(key, got, wants());
        }
    }

    #[cold]
    #[inline(never)]
    fn report_get(&mut self, key: Key<'_>, got: Got, wants: Want) {
        let item = if got == Got::Found { self.meta_of(key) } else { None };
        if self.observes(Kinds::GETS, key) {
            self.observer.see(Event::Get { key: key.bytes, got, item }, key.hash);
        }
        let used = match got {
            Got::Found | Got::Created => {
                let value = item.filter(|_| wants == Want::Value);
                Used::Read(value.map_or(0, |item| item.value_len))
            }
            Got::Missed(_) => Used::Missed,
        };
        self.report_use(key, used);
    }

    #[cold]
    #[inline(never)]
    fn report_use(&mut self, key: Key<'_>, used: Used) {
        if self.kinds.any(Kinds::USES) {
            self.observer.see(Event::Use { key: key.bytes, used }, key.hash);
        }
    }

    /// Reports a request that is no read, and the lookup that it begins with.
    #[inline(always)]
    pub(crate) fn saw_request(&mut self, key: Key<'_>) {
        if self.kinds.any(Kinds::GETS.with(Kinds::USES)) {
            self.saw_lookup(key);
            self.report_use(key, Used::Otherwise);
        }
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
        if self.kinds.any(Kinds::USES) {
            let key = self.key(key);
            self.report_use(key, Used::Otherwise);
        }
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

    /// Reports a request to delete. The item that is about to be deleted, if deletes are observed.
    #[inline(always)]
    pub(crate) fn before_delete(&mut self, key: Key<'_>) -> Option<Meta> {
        if !self.observes(Kinds::GETS.with(Kinds::DELETES).with(Kinds::USES), key) {
            return None;
        }
        self.saw_request(key);
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
