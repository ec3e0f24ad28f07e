//! FLeeC: an engine in which no operation waits for another (Costa, Preguiça and Lourenço, "FLeeC: a fast lock-free application cache").
//!
//! Table and eviction are one structure: each bucket has a CLOCK value, and the hand goes around the buckets.
//!
//! `core` puts the parts together: `index`, `pool`, `retired`, `crawler`, `sizing`. Operations work on them from the outside: `evictor` frees
//! items, `donors` moves pages, `allocator` finds chunks, `update` changes items, `dead` removes dead ones. A session is a front to these.

mod allocator;
mod core;
mod crawler;
mod dead;
mod donors;
mod editor;
mod engine;
mod evictor;
mod flush;
mod index;
mod local;
mod maintain;
mod options;
mod pending;
mod pin;
mod plan;
mod pool;
mod recover;
mod rescue;
mod restart;
mod retired;
mod session;
mod sizing;
mod stats;
mod update;
mod walk;

pub use engine::FleecEngine;
pub use index::bucket_clock;
pub use options::{BucketClock, Buckets, FleecOptions};
pub use pending::FleecPending;
pub use pin::FleecPin;
pub use session::FleecSession;
pub use walk::FleecWalk;

#[cfg(all(test, not(guira_loom)))]
mod tests;
