//! What a server of connections needs whatever it serves: listeners and their acceptor, workers with their event loops, connections and their outboxes,
//! what each connection may have done before others have their turn, and what all of them together may hold in memory.
//!
//! ```text
//! Host (shared) ── Acceptor ── Worker (one a thread) ── Clients ── Connection ── Outbox
//!                                 │                                    │
//!                                 Service ─────────────────────────────┘ State
//! ```
//!
//! A [`RequestHandler`] handles the requests of connections, and as a [`Service`] it does the rest of a worker's rounds: a cache
//! node (node/server), a router, an admin listener, or the floor that caches are measured against (lab/load).

#![forbid(unsafe_code)]

mod acceptor;
mod clients;
mod cluster;
mod conn_budget;
mod connection;
mod connections;
mod crew;
mod fields;
mod frames;
mod group;
mod handover;
mod host;
mod lifecycle;
mod listen;
mod local_addresses;
mod login;
mod outbox;
mod port;
mod queue;
mod rate_limited;
mod registry;
mod request_handler;
mod service;
mod share;
mod slice;
mod tokens;
mod traffic;
mod unsent;
mod users;
mod worker;

pub use acceptor::{Acceptor, Access, Arrival};
pub use clients::{ALONE_MAX, Clients};
pub use cluster::{Cluster, ClusterNode, ClusterNodeError};
pub use conn_budget::{ConnBudget, ConnId, ConnLimits, ConnMemory, Grant};
pub use connections::{AtLimit, Connections};
pub use crew::{Crew, Placement, WorkerError};
pub use fields::{Field, FieldError, FieldWriter, Fields};
pub use frames::{FRAME_BYTES, FRAMED_MAX, Framed, frames};
pub use group::{GROUP_MAX, Member};
pub use host::{
    CONNECTION_BYTES, Causes, CloseReason, ConnectionObserver, Host, HostOptions, TLS_BYTES, unix_now,
};
pub use listen::{Listen, ListenTextError, ListenTraits, Security, Speaks, Tag};
pub use local_addresses::local_addresses;
pub use login::{AfterLogin, Door, Login, is_sasl};
pub use outbox::{OUTBOX_FULL, Outbox, ReplyEnd, Sent, SlotId};
pub use port::{Port, PortError};
pub use queue::{Queue, Rank};
pub use rate_limited::RateLimited;
pub use registry::{ConnectionFacts, Doing, Registry};
pub use request_handler::{Conversation, Due, MoreRequested, ReplyTo, RequestHandler, Stopped, Unread};
pub use service::{Next, Round, Service, Woken};
pub use slice::{Cut, Slice};
pub use tokens::service_token;
pub use traffic::{TrafficCount, TrafficCounters};
pub use users::{Users, UsersError, is_same_secret};
pub use worker::{INPUT_BYTES, Worker};
