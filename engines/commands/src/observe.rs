//! Telling somebody of what commands do, as long as somebody listens. To nobody, a command costs a look at a byte.

use crate::Executor;
use crate::store::Stored;
use guira_contract::{Expiry, Key, Meta, MissKind, Refusal, Session};
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
    /// A key was looked up, so that an item could be stored under it.
    StoreLookup {
        /// The key.
        key: &'e [u8],
        /// The item that was there.
        item: Option<Meta>,
    },
    /// An item was to be stored.
    Store {
        /// The key.
        key: &'e [u8],
        /// How.
        verb: Verb,
        /// What came of it.
        end: StoreEnd,
        /// For how many seconds; 0 for ever.
        ttl: u32,
        /// Its slab class, if it is there.
        class: u8,
        /// Length of the value that was sent, in bytes.
        value_len: usize,
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
    /// This has happened.
    fn see(&self, event: Event<'_>);
}

impl<S: Session> Executor<S> {
    /// From now on events of these kinds are told.
    pub fn tell_of(&mut self, kinds: Kinds) {
        self.kinds = kinds;
    }

    /// A key was asked for.
    #[inline(always)]
    pub(crate) fn saw_get(&mut self, key: Key<'_>, got: Got) {
        if self.kinds.any(Kinds::GETS) {
            self.tell_get(key, got);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_get(&mut self, key: Key<'_>, got: Got) {
        let item = if got == Got::Found { self.meta_of(key) } else { None };
        self.observer.see(Event::Get { key: key.bytes, got, item });
    }

    /// An item is going to be stored.
    #[inline(always)]
    pub(crate) fn before_store(&mut self, key: Key<'_>) {
        if self.kinds.any(Kinds::GETS) {
            let item = self.meta_of(key);
            self.observer.see(Event::StoreLookup { key: key.bytes, item });
        }
    }

    /// An item was to be stored.
    #[inline(always)]
    pub(crate) fn saw_store(
        &mut self,
        key: Key<'_>,
        verb: Verb,
        expiry: Expiry,
        value_len: usize,
        result: Result<Stored, Refusal>,
    ) {
        if self.kinds.any(Kinds::STORES) {
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
        result: Result<Stored, Refusal>,
    ) {
        let end = match result {
            Ok(Stored::Yes(_)) => StoreEnd::Stored,
            Ok(Stored::Unmet) => StoreEnd::NotStored,
            Ok(Stored::Exists) => StoreEnd::Exists,
            Ok(Stored::NotFound) => StoreEnd::NotFound,
            Err(Refusal::TooLarge) => StoreEnd::TooLarge,
            Err(Refusal::NoMemory) => StoreEnd::NoMemory,
        };
        let ttl = match expiry {
            Expiry::Never => 0,
            Expiry::At(at) => at.0.saturating_sub(self.now.0),
        };
        let class = self.meta_of(key).map_or(0, |meta| meta.class);
        self.observer.see(Event::Store { key: key.bytes, verb, end, ttl, class, value_len });
    }

    /// The item that is going to be deleted, if somebody wants to know.
    #[inline(always)]
    pub(crate) fn before_delete(&mut self, key: Key<'_>) -> Option<Meta> {
        if self.kinds.any(Kinds::DELETES) { self.meta_of(key) } else { None }
    }

    /// A key was to be deleted; it is gone if `item` is the one that was there.
    #[inline(always)]
    pub(crate) fn saw_delete(&mut self, key: Key<'_>, by: DeletedBy, item: Option<Meta>) {
        if self.kinds.any(Kinds::DELETES) {
            self.observer.see(Event::Delete { key: key.bytes, by, item });
        }
    }
}
