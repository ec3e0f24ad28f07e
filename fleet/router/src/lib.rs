//! The router: clients on one side, servers on the other, and a tree of routes (fleet/routing) between them.
//!
//! ```text
//! client ── RouterService::run ── Walks ── Flow ─┬─ Destination ──────────► server
//!    ▲                                           │
//!    └──── Calls: slots of the outbox ◄──────────┴─ reply ◄─────────────── server
//! ```
//!
//! The requests of all clients in one round of the worker are gathered for each server and sent with one call. Gets that
//! follow each other are sent as one get of several keys.

#![forbid(unsafe_code)]

mod admin;
mod arrivals;
mod calls;
mod client;
mod client_limit;
mod config;
mod config_state;
mod counters;
mod explain;
mod failures;
mod flow;
mod kept;
mod limits;
mod metrics;
mod no_pin;
mod options;
mod packet_reply;
#[cfg(any(test, guira_simulated))]
pub mod plain_options;
mod pools;
mod reload;
mod render;
mod round_clock;
mod route_names;
mod running;
mod schedule;
mod service;
mod shared;
mod sources_info;
mod spool;
mod stats;
mod stats_files;
mod status;
mod throttle;
mod ticket;
mod tls_to_servers;
mod udp;
mod upstream;
mod variations;
mod waits;
mod web;

/// Checks the laws of replies for `input`: requests on its first line, and what a server replies.
/// For tests.
///
/// # Panics
/// When a law does not hold.
#[cfg(feature = "laws")]
pub fn obey_laws_of_replies(input: &[u8]) {
    upstream::laws::obey(input);
}

pub use config::{LoadError, Source, check};
pub use explain::{ExplainError, Explanation, explain};
pub use failures::{Detail, Failed, Failures, Syntax};
pub use guira_upstream::{HealthOptions, Keepalive};
pub use metrics::{FAMILIES, metric_tables};
pub use options::{
    Dump, Flushes, Identity, Limits, Operations, Reloading, RouterOptions, ServerTls, StatsFilesOptions,
    Watches,
};
pub use running::{Running, StartError, start};
pub use spool::{
    FileEnd, FileFate, FileReport, Left, LeftReason, LogOptions, LogSync, LogVersion, Remarks, ReplayError,
    ReplayManner, ReplayOptions, ReplayReport, ReplayTakes, replay,
};
pub use variations::{ShardSplits, Variations};
