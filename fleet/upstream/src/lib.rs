//! The client side of the memcached protocol, for routers and for clients that route by themselves:
//! encoding of requests, parsing of replies, the health of servers, and connections to them.

#![forbid(unsafe_code)]

pub mod answers;
mod dialer;
mod health;
mod in_flight;
mod intake;
mod keepalive;
mod link;
pub mod wire;

pub use dialer::{AddressChange, Addresses, Dialer, is_busy};
pub use health::{Cleared, Health, HealthOptions, ProbeSchedule, Prober, Tko};
pub use in_flight::{Arrival, InFlight};
pub use intake::Intake;
pub use keepalive::Keepalive;
pub use link::{Attempt, Link, LinkOptions, Secure, Stage};

use guira_routing::hash::spooky;

pub fn host_id() -> u32 {
    spooky::hash32(guira_sync::host::name().as_bytes(), 0)
}

/// The longest value that is stored in or accepted from a server.
pub const VALUE_MAX: u32 = 64 << 20;
