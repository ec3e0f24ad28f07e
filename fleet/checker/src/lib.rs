//! Checks caches against the database (Scaling Memcache, section 7.3 and figure 11; as Meta's Polaris does).
//!
//! ```text
//! invalidator ── hints ── Judge ──┬─ Cluster ── caches of a cluster
//! keys, one a line ──┘    │       ├─ Cluster ── caches of another
//!                      Report     └─ Queries ── the database
//! ```
//!
//! A hint says that a key was changed. At several delays after it, the checker reads the key from
//! every cluster; a value that differs from the database is an inconsistency. Nothing is written,
//! except to give back a right to fill.
//!
//! [`probe`] measures the latency of invalidation without a database.

#![forbid(unsafe_code)]

mod cluster;
mod config;
mod counters;
mod database;
mod error;
mod hints;
mod judge;
mod keys;
mod look;
mod metrics;
mod pattern;
pub mod probe;
mod reply;
mod report;
mod running;
mod shared;
mod sight;
mod web;

pub use config::{Config, ConfigError};
pub use error::StartError;
pub use metrics::families;
pub use report::{AtDelay, Counted, Example, Origin, Report, Tally};
pub use running::{Running, start};
pub use sight::{Content, Sight};
