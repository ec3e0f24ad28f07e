//! Names of servers in DNS, looked up on a thread of their own, and again when their time is over.
//!
//! ```text
//! Names ── commands ──► thread ─┬─ Book: what is known, and when it is looked up again (no I/O)
//!    ▲                          └─ Resolver: /etc/hosts, and hickory over UDP and TCP
//!    └──── News ◄───────────────┘
//! Membership: the servers that an SRV record names, in stable slots (no I/O)
//! ```
//!
//! This is the only module that has an asynchronous runtime: hickory needs tokio, which runs on that one thread.

mod book;
mod counts;
mod membership;
mod resolver;
mod thread;

pub use counts::{NameCount, NameCounts, NameGauge};
pub(crate) use membership::{Membership, Target};
pub use membership::{SRV_HOLD_DOWN, SRV_HOLD_DOWN_MS};
pub use thread::{Names, NamesOptions, News};
