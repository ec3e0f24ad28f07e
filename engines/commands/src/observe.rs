//! Telling somebody of what commands do, as long as somebody listens: of all events of a kind, or of those whose keys are in a sample. To
//! nobody, a command costs a look at a byte and one at a number.

use crate::Executor;
use crate::store::Stored;
use guira_contract::{Expiry, Key, KeyHash, Meta, MissKind, Session, StoreError};
use guira_protocol::Verb;
use std::fmt::Debug;

/// Kinds of events, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub u8);

impl Kinds {
    /// None.
    pub const NONE: Self = Kinds(0);
    /// Keys that are asked for.
    pub const GETS: Self = Kinds(1);
    /// Items that are stored, or not.
    pub const STORES: Self = Kinds(2);
    /// Keys that are deleted.
    pub const DELETES: Self = Kinds(4);

    /// Whether any of `kinds` is among these.
    #[inline(always)]
    pub fn any(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// These and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Kinds(self.0 | other.0)
    }
}

/// What became of a key that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// It was found.
    Found,
    /// It was not, and so it was created.
    Created,
    /// It was not.
    Missed(MissKind),
}

/// By which command a key was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedBy {
    /// delete
    Delete,
    /// md
    Meta,
}

/// What became of an item that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEnd {
    /// It is stored.
    Stored,
    /// The command's condition did not hold.
    NotStored,
    /// The cas unique was another.
    Exists,
    /// There was nothing to compare with.
    NotFound,
    /// It was too large.
    TooLarge,
    /// There was no memory.
    NoMemory,
}

/// What an item was stored for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBy {
    /// A command that stores.
    Store,
    /// A command that has something else in mind: ma with N, md with x.
    Other,
}

/// Something that a command did. Class and size are those of a moment close by.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A key was asked for.
    Get {
        /// The key.
        key: &'e [u8],
        /// What came of it.
        got: Got,
        /// The item, if it is there.
        item: Option<Meta>,
    },
    /// A key was looked up, so that what is there could be changed, or told of.
    Lookup {
        /// The key.
        key: &'e [u8],
        /// What came of it.
        got: Got,
        /// The item, if it is there.
        item: Option<Meta>,
    },
    /// An item was to be stored.
    Store {
        /// The key.
        key: &'e [u8],
        /// What for.
        by: StoredBy,
        /// How.
        verb: Verb,
        /// What came of it.
        end: StoreEnd,
        /// For how many seconds; 0 for ever.
        ttl: u32,
        /// Its slab class, if it is there.
        class: u8,
        /// Length of the value that is there now, or else of the one that was sent; in bytes.
        value_len: usize,
        /// Bytes of memory that the item occupies, if it is there.
        size: usize,
    },
    /// A key was to be deleted.
    Delete {
        /// The key.
        key: &'e [u8],
        /// How.
        by: DeletedBy,
        /// The item, if it was there and is gone.
        item: Option<Meta>,
    },
}

/// Who is told of events.
pub trait Observer: Debug + Send {
    /// This has happened, to a key with this hash.
    fn see(&self, event: Event<'_>, hash: KeyHash);
}

impl<S: Session> Executor<S> {
    /// From now on events of these kinds are told.
    pub fn tell_of(&mut self, kinds: Kinds) {
        self.kinds = kinds;
    }

    /// From now on events of keys with hashes below `threshold` are told too, whatever their kind.
    pub fn tell_sample(&mut self, threshold: u64) {
        self.sampled_below = threshold;
    }

    /// Whether an event is to be told.
    #[inline(always)]
    fn tells(&self, kinds: Kinds, key: Key<'_>) -> bool {
        // Not ||: one branch, which is not taken.
        self.kinds.any(kinds) | (key.hash.0 < self.sampled_below)
    }

    /// A key was asked for.
    #[inline(always)]
    pub(crate) fn saw_get(&mut self, key: Key<'_>, got: Got) {
        if self.tells(Kinds::GETS, key) {
            self.tell_get(key, got);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_get(&mut self, key: Key<'_>, got: Got) {
        let item = if got == Got::Found { self.meta_of(key) } else { None };
        self.observer.see(Event::Get { key: key.bytes, got, item }, key.hash);
    }

    /// A key is looked up, by a command that does not ask for the item's value.
    #[inline(always)]
    pub(crate) fn saw_lookup(&mut self, key: Key<'_>) {
        if self.kinds.any(Kinds::GETS) {
            self.tell_lookup(key);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_lookup(&mut self, key: Key<'_>) {
        let (got, item) = self.look_up(key);
        self.observer.see(Event::Lookup { key: key.bytes, got, item }, key.hash);
    }

    /// An item was to be stored.
    #[inline(always)]
    pub(crate) fn saw_store(
        &mut self,
        key: Key<'_>,
        verb: Verb,
        expiry: Expiry,
        value_len: usize,
        result: Result<Stored, StoreError>,
    ) {
        if self.tells(Kinds::STORES, key) {
            self.tell_store(key, verb, expiry, value_len, result);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_store(
        &mut self,
        key: Key<'_>,
        verb: Verb,
        expiry: Expiry,
        value_len: usize,
        result: Result<Stored, StoreError>,
    ) {
        let end = match result {
            Ok(Stored::Yes(_)) => StoreEnd::Stored,
            Ok(Stored::Unmet) => StoreEnd::NotStored,
            Ok(Stored::Exists) => StoreEnd::Exists,
            Ok(Stored::NotFound) => StoreEnd::NotFound,
            // As it is answered.
            Err(StoreError::TooLarge) if matches!(verb, Verb::Append | Verb::Prepend) => StoreEnd::NotStored,
            Err(refusal) => refused_end(refusal),
        };
        let meta = self.meta_of(key);
        let (class, size) = meta.map_or((0, 0), |meta| (meta.class, meta.size));
        // What was stored may be more than what was sent, and may have kept its time.
        let stored = meta.filter(|_| end == StoreEnd::Stored);
        let (expiry, value_len) = stored.map_or((expiry, value_len), |meta| (meta.expiry, meta.value_len));
        let ttl = self.left(expiry);
        let by = StoredBy::Store;
        let event = Event::Store { key: key.bytes, by, verb, end, ttl, class, value_len, size };
        self.observer.see(event, key.hash);
    }

    /// An item was refused before any of it was stored.
    #[cold]
    pub(crate) fn saw_refusal(&mut self, key: &[u8], verb: Verb, refusal: StoreError) {
        if self.kinds.any(Kinds::STORES) {
            let (by, end) = (StoredBy::Store, refused_end(refusal));
            let event = Event::Store { key, by, verb, end, ttl: 0, class: 0, value_len: 0, size: 0 };
            self.observer.see(event, self.session.hash(key));
        }
    }

    /// An item was stored by a command that has something else in mind. memcached looks the key up once more for it.
    #[inline(always)]
    pub(crate) fn saw_other_store(&mut self, key: Key<'_>, verb: Verb, before: Option<Meta>, expiry: Expiry) {
        if self.tells(Kinds::GETS.with(Kinds::STORES), key) {
            self.tell_other_store(key, verb, before, expiry);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_other_store(&mut self, key: Key<'_>, verb: Verb, before: Option<Meta>, expiry: Expiry) {
        if self.kinds.any(Kinds::GETS) {
            let got = before.map_or(Got::Missed(MissKind::Absent), |_| Got::Found);
            self.observer.see(Event::Lookup { key: key.bytes, got, item: before }, key.hash);
        }
        if self.tells(Kinds::STORES, key) {
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

    /// The item that is going to be deleted, if deletions are observed.
    #[inline(always)]
    pub(crate) fn before_delete(&mut self, key: Key<'_>) -> Option<Meta> {
        if !self.tells(Kinds::GETS.with(Kinds::DELETES), key) {
            return None;
        }
        self.saw_lookup(key);
        self.meta_of(key)
    }

    /// A key was to be deleted; it is gone if `item` is the one that was there.
    #[inline(always)]
    pub(crate) fn saw_delete(&mut self, key: Key<'_>, by: DeletedBy, item: Option<Meta>) {
        if self.tells(Kinds::DELETES, key) {
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
