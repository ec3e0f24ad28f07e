//! Servers, as one worker sees them.

mod answers;
mod destination;
mod health;
mod intake;
mod reply;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard};
pub(crate) use health::Standing;
pub(crate) use intake::Intake;
pub(crate) use wire::has_flag;

use guira_transport::Address;
use std::sync::Arc;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) timeout_ms: u32,
    pub(crate) connect_timeout_ms: u32,
    pub(crate) standing: Arc<Standing>,
}

#[cfg(test)]
mod tests;
