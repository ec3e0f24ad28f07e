//! The server: an engine behind sockets.
//!
//! ```text
//! guira-serving: Worker (one a thread) ── Connection ── Outbox
//!                   │                         │
//!                   NodeService               ProtocolState
//!                   │
//!                   Interpreter ── Runner ── Executor ── engine session
//! ```
//!
//! Each worker owns an event loop, an engine session and the connections it was given; nothing of these is shared. The first worker also accepts
//! connections and deals them out in turn.

#![forbid(unsafe_code)]

mod admin;
mod auto;
mod cluster;
mod counters;
mod direct;
mod errors;

mod background;
mod forward;
mod latency;
mod memory_split;
mod options;
mod parts;
mod ports;
mod profile;
mod requests;
mod sampler;
mod saved_counters;
mod secrets;
mod size;
mod start;
mod statistics;
mod takeover;
mod top_keys;
mod udp;
mod upkeep;
mod watch;
mod web;
mod worker;

pub use admin::{DERIVED, metric_tables};
pub use direct::{DirectError, Interface};
pub use errors::{StartError, StopError};
pub use guira_contract::Opening;
pub use guira_disk::read_file;
pub use guira_roster::RegionPlace;
pub use guira_serving::{Listen, ListenTextError, ListenTraits, UsersError};
pub use guira_sync::metrics::{Kind, Metric, Unit};
pub use guira_transport::{Address, Inherited, inherited_sockets};
pub use guira_web::{Family, MetricTable, TokenError};
pub use memory_split::{items_memory, least_ceiling, memory_for_items};
pub use options::{
    AdminAddress, Delimiter, FileMode, Form, GivenOptions, OPTIONS, OptionRow, Options, OptionsError,
};
pub use profile::{Profile, ProfileError};
pub use secrets::{Secrets, SecretsError};
pub use size::{Size, SizeError};
pub use start::{Ending, OpenEngine, Running, ServerStatus, Starting, check, release_start, start_after};
pub use takeover::{Door, HandOverError, Predecessor, Successor, TakeoverError};

/// What `version` answers: the version of memcached whose protocol is spoken, and our own.
pub const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));

/// The version of memcached whose protocols are spoken.
pub const VERSION_SPOKEN: &str = "1.6.45";

/// The tests start servers with the default engine: for all engines the server would be compiled for each of them.
#[cfg(test)]
fn open_default(
    _choice: &guira_roster::Choice,
    setup: &guira_roster::Setup,
    starting: Starting<'_>,
) -> Result<Result<Running, StartError>, guira_roster::OpenError> {
    guira_roster::Choice::open_default(setup, starting)
}
