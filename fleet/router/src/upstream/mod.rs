//! Servers, as one worker sees them.

mod destination;
mod health;
mod reply;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard};
pub(crate) use health::Health;
pub use health::HealthOptions;
