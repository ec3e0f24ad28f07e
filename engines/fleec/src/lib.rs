//! FLeeC: an engine in which no operation waits for another (Costa, Preguiça and Lourenço, "FLeeC: a fast lock-free application cache").
//!
//! Table and eviction are one structure: each bucket has a CLOCK value, and the hand goes around the buckets.

pub mod bucket_clock;
mod core;
mod flush;
mod gate;
mod link;
mod list;
mod maintain;
mod nodes;
mod options;
mod order;
mod pending;
mod pin;
mod plan;
mod reclaim;
mod recover;
mod rescue;
mod restart;
mod session;
mod stats;
mod table;
mod update;
mod walk;

pub use crate::core::FleecEngine;
pub use options::{BucketClock, Buckets, FleecOptions};
pub use pending::FleecPending;
pub use pin::FleecPin;
pub use session::FleecSession;
pub use walk::FleecWalk;

#[cfg(all(test, guira_loom))]
mod loom_tests;
#[cfg(all(test, not(guira_loom)))]
mod tests;
