//! Resolves the names of servers in DNS on a thread of its own, and again when their records
//! expire.
//!
//! ```text
//! Names ── commands ──► thread ─┬─ Book: known records, and when each name is due (no I/O)
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
