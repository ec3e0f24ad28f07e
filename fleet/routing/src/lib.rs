//! Decides which servers a request is sent to, and builds the answer from their replies: mcrouter's
//! configuration language, its hashes, and its tree of route handles. It has no I/O, no threads and
//! no clock.
//!
//! ```text
//! text ── config: preprocessor ──► Json ── build ──► Tree of handles ── hash ──► destinations
//!                                                      ▲ │
//!                        request, answer ── Walks ─────┘ └──► Sink: to a server, to the client
//! ```

#![forbid(unsafe_code)]

mod build;
pub mod config;
mod counted_pools;
mod counts;
mod departures;
mod destinations;
mod explain;
mod exptime;
mod failure_domains;
mod handle;
pub mod hash;
mod ids;
mod leases;
mod outcome;
mod prefix;
mod request;
mod settings;
mod step;
mod tree;
mod walk;
mod warm_ups;

pub use build::{Built, BuiltPool, build};
pub use counted_pools::{Arrival, ArrivalWanted, CountedPool, CountedPools};
pub use counts::{RouteCount, RouteCounts};
pub use departures::Departures;
pub use destinations::{Claim, DestinationSpec, Destinations};
pub use explain::Line;
pub use exptime::exptime_of;
pub use ids::{DestinationId, LogName};
pub use leases::LeaseTokens;
pub use outcome::{Answer, Item, Outcome};
pub use prefix::Unknown;
pub use request::{Dialect, Group, Op, Request};
pub use settings::{BigFlag, BigValues, DefaultQos, Logging, Settings, Timeouts};
pub use step::Facts;
pub use tree::Tree;
pub use walk::{Origin, Sink, Walks};
pub use warm_ups::{Report, WarmUpCount, WarmUps};

/// The longest key, in bytes.
pub const KEY_MAX: usize = 250;
