//! The server: an engine behind sockets.
//!
//! ```text
//! Server ── Worker (one a thread) ── Connection ── Dialogue ── Executor ── engine session
//!              │                         │             │
//!              poll, mailbox             Outbox        guira-protocol
//! ```
//!
//! Each worker owns an event loop, an engine session and the connections it was given; nothing of these is shared. The first worker also accepts
//! connections and deals them out in turn.

#![forbid(unsafe_code)]

mod admin;
mod binary;
mod connection;
mod dialogue;
mod node;
mod options;
mod outbox;
mod settings;
mod shared;
mod size;
mod worker;

pub use node::{Running, StartError, start};
pub use options::{ConfigError, Options, PartialOptions};
pub use size::{Size, SizeError};

/// What `version` answers: the version of memcached whose protocol is spoken, and our own.
pub const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));
