//! Servers as who asks them sees them: what requests of a routing tree are as text and what replies mean, whether a server is there, and the way to
//! it. A router's workers and a client that routes by itself are made of the same.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

pub mod answers;
mod health;
mod intake;
mod link;
pub mod reply;
mod way;
pub mod wire;

pub use guira_protocol::client::{are_equal, has_flag, words};
pub use health::{Ended, Health, Prober, Probes, Standing, Tko};
pub use intake::Intake;
pub use link::{Link, Secure};
pub use reply::Value;
pub use way::{Addresses, Way, Whereabouts, is_busy};

use guira_routing::hash::spooky;

/// A number that tells hosts apart.
pub fn host_id() -> u32 {
    spooky::hash32(rustix::system::uname().nodename().to_bytes(), 0)
}

/// The longest value that is stored, and that is taken from a server.
pub const VALUE_MAX: u32 = 64 << 20;
