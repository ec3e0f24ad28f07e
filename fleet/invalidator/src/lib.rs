//! Deletes from caches what a database has changed (Scaling Memcache, section 4.1: mcsqueal).
//!
//! ```text
//! database ── Log ── Extractor ── Batcher ──┬─ Delivery ── router of a cluster
//!    ▲        (what was committed)   │      └─ Delivery ── router of another
//!    │                               ▼              │
//!    └── position in a file ◄── Ledger ◄────────────┘ acknowledged
//! ```
//!
//! A position is saved once every target has acknowledged all deletes before it, so that each delete arrives at least once, whenever the process ends. The log of the
//! database is the queue: nothing else is kept, and a target that is away slows the reader down.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

mod batch;
mod config;
mod counters;
mod deliver;
mod keys;
mod ledger;
mod metrics;
mod position;
mod running;
mod source;
mod stop;
mod web;

pub use config::{Config, ConfigError};
pub use metrics::families;
pub use position::PositionError;
pub use running::{Fault, Running, StartError, start};
