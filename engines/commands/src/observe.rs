//! Events of commands, and their observer.

use guira_contract::{KeyHash, Meta, MissKind};
use guira_protocol::Verb;
use std::fmt;

/// A set of kinds of events; one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub u8);

impl Kinds {
    pub const NONE: Self = Kinds(0);
    pub const GETS: Self = Kinds(1);
    pub const STORES: Self = Kinds(2);
    pub const DELETES: Self = Kinds(4);
    /// Each request, once, whatever it does.
    pub const USES: Self = Kinds(8);

    #[inline(always)]
    pub fn any(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Kinds(self.0 | other.0)
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Kinds(self.0 & !other.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    Found,
    Created,
    Missed(MissKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedBy {
    Delete,
    Meta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEnd {
    Stored,
    NotStored,
    /// The cas unique did not match.
    Exists,
    /// There was no item to compare with.
    NotFound,
    TooLarge,
    NoMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBy {
    Store,
    /// Another command that stores: ma with N, md with x.
    Other,
}

/// What came of a request, as far as it matters for what a key costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// A read that found its item, and the bytes of the value that were sent.
    Read(usize),
    /// A read that did not.
    Missed,
    Otherwise,
}

/// An event. Class and size are read shortly before or after it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    Get {
        key: &'e [u8],
        got: Got,
        /// The item, if there is one.
        item: Option<Meta>,
    },
    /// A key was looked up for an update, or for its metadata.
    Lookup {
        key: &'e [u8],
        got: Got,
        /// The item, if there is one.
        item: Option<Meta>,
    },
    Store {
        key: &'e [u8],
        by: StoredBy,
        verb: Verb,
        end: StoreEnd,
        /// Time to live in seconds; 0 for ever.
        ttl: u32,
        /// The slab class of the stored item.
        class: u8,
        /// Length of the stored value, or else of the one that was sent, in bytes.
        value_len: usize,
        /// Memory of the stored item, in bytes.
        size: usize,
    },
    Delete {
        key: &'e [u8],
        by: DeletedBy,
        /// The item, if there was one and it was deleted.
        item: Option<Meta>,
    },
    Use {
        key: &'e [u8],
        used: Used,
    },
}

/// Receives the events of one executor.
pub trait Observer: Send {
    /// Receives an event of a key with this hash.
    fn see(&self, event: Event<'_>, hash: KeyHash);
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
