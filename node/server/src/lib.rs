//! The server: an engine behind sockets.
//!
//! ```text
//! guira-serving: Worker (one a thread) ── Connection ── Outbox
//!                   │                         │
//!                   NodeService               ProtocolState
//!                   │
//!                   Interpreter (guira-protocol) ── Executor ── engine session
//! ```
//!
//! Each worker owns an event loop, an engine session and the connections it was given; nothing of these is shared. The first worker also accepts
//! connections and deals them out in turn.

#![forbid(unsafe_code)]

mod about_server;
mod admin;
mod batch;
mod binary;
mod direct;

mod background;
mod forward;
mod interpreter;
mod memory_split;
mod node;
mod notes;
mod options;
mod ports;
mod secrets;
mod shared;
mod size;
mod text;
mod udp;
mod watch;
mod worker;

pub use direct::{DirectError, Interface};
pub use guira_commands::Uniques;
pub use guira_contract::{Opening, Switch};
pub use guira_roster::{Eviction, HugePages, NoPlace, RegionPlace, Residence};
pub use guira_serving::{
    Beyond, Listen, ListenTextError, ListenTraits, Placement, Security, Speaks, Tag, UsersError,
};
pub use guira_transport::{
    Address, CipherList, Inherited, MinVersion, Resumption, TlsOptionError, TlsOptions, VerifyMode,
    inherited_sockets, read_file,
};
pub use memory_split::least_memory;
pub use node::{Ending, Running, ServerStatus, StartError, StopError, check, start};
pub use options::{ConnectionLimits, Options, Permissions, Storage, UdpPorts};
pub use secrets::{Secrets, SecretsError};
pub use size::{Size, SizeError};
pub use watch::LogBuffers;

/// What `version` answers: the version of memcached whose protocol is spoken, and our own.
pub const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));

/// The version of memcached whose protocols are spoken.
pub const VERSION_SPOKEN: &str = "1.6.45";
