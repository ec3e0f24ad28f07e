//! Servers, as one worker sees them.

mod destination;
mod reply;
mod wire;

pub(crate) use destination::{Destination, Heard};
