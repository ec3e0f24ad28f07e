//! The slab engines: an index over items in slab classes, and a policy that says which item goes when memory is
//! needed. With the cuckoo index and CLOCK this is MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), Guira's default.
//!
//! # Concurrency
//! Reads take no lock. A reader notes the version counters of its key's two buckets, looks at what lies there, copies
//! the value out, and starts anew if a counter has moved ([`index`]). It stores nothing but a recency bit that changes and, in the item's
//! header, the time of the access, by compare-and-swap. Writers hold the counters of their key's buckets, so that all operations on one key are in one
//! order. Memory is found before a counter is taken.
//!
//! What an optimistic reader may still hold when a writer is done with it falls into three kinds. A *chunk* may be filled
//! again at once: the reader's validation fails. A *page* that changes its class, and the memory of an *old table*,
//! wait for a quiescent point of all sessions, since a reader's late note of its access could land in
//! somebody's data. A *long value* that is being sent is pinned ([`pins`]).
//!
//! # Eviction
//! Each class has a CLOCK hand ([`policy::clock`]). A session that needs chunks turns it and takes several victims at
//! once, so that their cache misses overlap ([`reclaim`]). Which class gives memory to which is decided by the age of the page under each hand, counted in
//! bytes stored since the hand came by: pages go from the class whose hand is slowest to one whose hand turns
//! faster, which approximates one hand over all of memory ([`balance`]).
//!
//! # Size
//! Memory can be made larger and smaller while it is in use, up to what was reserved at the start ([`resize`]).
//!
//! # Restart
//! The Region can last in a file, and an engine go on with what another has left there ([`restart`]).
//!
//! # Expiration
//! An item that has expired, or was flushed, is removed by whoever meets it, and by a crawler over the pages ([`maintain`]).

#![cfg_attr(test, allow(clippy::duplicate_mod, reason = "the tests of the engine run on every index"))]

mod balance;
mod circle;
mod core;
mod donors;
mod hold;
pub mod index;
mod keep;
mod maintain;
mod notes;
mod options;
mod order;
mod pending;
mod pin;
mod pins;
mod plan;
pub mod policy;
mod queue;
mod reclaim;
mod rescue;
mod resize;
mod restart;
mod salvage;
mod session;
mod stats;
mod turn;
mod update;
mod walk;

pub use crate::core::SlabEngine;
pub use guira_items::{
    ClassOptions, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, EngineOptions, Eviction, Hashing, MAX_MEMORY,
    OpenError, Residence,
};
pub use guira_memory::{HugePages, NoPlace, RegionPlace};
pub use index::{Chained, Cuckoo, Scheme, SearchLimits};
pub use options::SlabOptions;
pub use pending::SlabPending;
pub use pin::SlabPin;
pub use policy::table::Policy;
pub use session::SlabSession;
pub use walk::SlabWalk;

/// MemC3's index.
pub type CuckooEngine = SlabEngine<Cuckoo>;

/// memcached's index.
pub type ChainedEngine = SlabEngine<Chained>;

#[cfg(test)]
#[path = "tests/on_cuckoo.rs"]
mod on_cuckoo;

#[cfg(test)]
#[path = "tests/on_chained.rs"]
mod on_chained;
