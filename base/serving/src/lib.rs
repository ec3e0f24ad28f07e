//! What a server of connections needs whatever it serves: listeners and their acceptor, the registry of connections, what each may have done before others
//! have their turn, and what all of them together may hold in memory.
//!
//! A cache node is built on it (node/server); nothing here knows of items or of a protocol.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

mod acceptor;
mod conn_budget;
mod connections;
mod listen;
mod queue;
mod rate_limited;
mod registry;
mod slice;

pub use acceptor::{Acceptor, AcceptorHost, Access, Arrival, Port};
pub use conn_budget::{ConnBudget, ConnId, ConnLimits, ConnMemory, Grant};
pub use connections::{Beyond, Connections};
pub use listen::{Listen, ListenTextError, ListenTraits, Security, Speaks, Tag};
pub use queue::{Queue, Rank};
pub use rate_limited::RateLimited;
pub use registry::{ConnectionFacts, Doing, Registry};
pub use slice::Slice;
