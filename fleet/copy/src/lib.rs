//! Fills cache servers with the items of another one: `guira copy`.
//!
//! ```text
//! source ── list of keys ──► Keys ── batches of mg ──► items ── batches of ms ME ──► pools of servers
//! ```
//!
//! The source is memcached 1.6 or a node. An item that the destination already has stays: a copy only adds. The
//! whole list of keys is read first, since a node closes a connection that pauses in the middle of a list.

#![forbid(unsafe_code)]

mod adder;
mod error;
mod job;
mod keys;
mod lifetime;
mod pace;
mod report;
mod source;

pub use error::CopyError;
pub use job::{Job, Observer, copy};
pub use lifetime::Lifetime;
pub use report::{Counts, Reason, Report};
