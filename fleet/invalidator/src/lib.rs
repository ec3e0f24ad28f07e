//! Deletes from caches what a database has changed (Scaling Memcache, section 4.1: mcsqueal).
//!
//! ```text
//! database ── Log ── Extractor ── Batcher ──┬─ Lane, Delivery ── router of a cluster
//!    ▲        (committed changes)    │      └─ Lane, Delivery ── router of another
//!    │                               ▼              │
//!    └── position in a file ◄── Ledger ◄────────────┘ acknowledged
//! ```
//!
//! A position is saved once every target has acknowledged all deletes before it, or has them in its
//! spool. So each delete arrives at least once, whenever the process ends. Without spools the log
//! of the database is the queue, and an unreachable target slows the reader down.

#![forbid(unsafe_code)]

mod batch;
mod batcher;
mod config;
mod counters;
mod deliver;
mod error;
mod keys;
mod ledger;
mod metrics;
mod position;
mod replay;
mod running;
mod shared;
mod source;
mod threads;
mod web;

pub use config::{Config, ConfigError};
pub use deliver::SpoolError;
pub use error::{Fault, StartError};
pub use metrics::families;
pub use position::PositionError;
pub use replay::{Part, ReplayError, Replayed, replay};
pub use running::{Command, Running, start};
