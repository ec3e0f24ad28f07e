//! The slab engines: an index over items in slab classes, and a policy that says which item goes when memory is
//! needed. With the cuckoo index and CLOCK this is MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), Guira's default.
//!
//! # Parts
//! | part | what it knows |
//! |---|---|
//! | [`items`] | where items lie, whether they are alive, what their keys hash to |
//! | [`index`] | which item a key leads to |
//! | [`pool`] | pages and chunks, the budget that pays for them, how old classes are, pages that drain |
//! | [`evictor`] | which item goes next by the policy, and which class gives a page |
//! | [`pins`] | long values that are being sent stay where they are |
//! | [`committer`] | who commits memory before it is needed |
//! | [`crawler`], [`walks`], [`sizing`] | where the background removal of dead items, and a walk over all items, stand; how large memory is to be |
//!
//! [`core`] composes them. What takes several of them is an operation of a session, a file each in [`session`], which
//! work on its state and call each other in one direction: removal, evict, drain, growth, refill, update.
//!
//! # Concurrency
//! Reads take no lock. A reader notes the version counters of its key's two buckets, looks at what lies there, copies
//! the value out, and starts anew if a counter has moved ([`index`]). It stores nothing but a recency bit that changes
//! and, in the item's header, the time of the access, by compare-and-swap. Writers hold the counters of their key's
//! buckets, so that all operations on one key are in one order. Memory is found before a counter is taken.
//!
//! What an optimistic reader may still hold when a writer is done with it falls into three kinds. A *chunk* may be filled
//! again at once: the reader's validation fails. A *page* that changes its class, and the memory of an *old table*,
//! wait for a quiescent point of all sessions, since a reader's late note of its access could land in another item. A
//! *long value* that is being sent is pinned ([`pins`]).
//!
//! # Eviction
//! Each class has an order, by default CLOCK's hand ([`policy::clock`]). A session that needs chunks takes several victims
//! at once, so that their cache misses overlap. Which class gives memory to which is decided by the age of the page under
//! each hand, counted in bytes stored since the hand came by: pages go from the class whose hand is slowest to one whose
//! hand turns faster, which approximates one hand over all of memory ([`pool::balance`]).
//!
//! # Size and restart
//! Memory can be made larger and smaller while it is in use, up to what was reserved at the start ([`resize`]). The Region
//! can last in a file, and an engine go on with what another has left there ([`restart`]).

#![cfg_attr(test, allow(clippy::duplicate_mod, reason = "the tests of the engine run on every index"))]

mod committer;
mod core;
mod crawler;
mod engine;
mod evictor;
mod flush;
pub mod index;
mod items;
mod options;
mod pins;
mod plan;
pub mod policy;
mod pool;
mod reassign;
mod resize;
mod restart;
mod salvage;
mod session;
mod sizing;
mod stats;
mod walks;

pub use engine::SlabEngine;
pub use guira_items::{
    ClassOptions, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, EngineOptions, Eviction, Hashing, MAX_MEMORY,
    OpenError, Residence,
};
pub use guira_memory::{HugePages, NoPlace, RegionPlace};
pub use index::{Chained, Cuckoo, Scheme, SearchLimits};
pub use options::SlabOptions;
pub use pins::pin::SlabPin;
pub use policy::table::{Policy, PolicyControl};
pub use session::SlabSession;
pub use session::pending::SlabPending;
pub use session::walk::SlabWalk;

/// MemC3's index.
pub type CuckooEngine = SlabEngine<Cuckoo>;

pub type ChainedEngine = SlabEngine<Chained>;

#[cfg(test)]
#[path = "tests/on_cuckoo.rs"]
mod on_cuckoo;

#[cfg(test)]
#[path = "tests/on_chained.rs"]
mod on_chained;
