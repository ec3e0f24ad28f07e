//! Servers, as one worker sees them.

mod destination;
mod health;
mod reply;
mod undelivered;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard, Lost};
pub(crate) use health::Standing;
pub(crate) use undelivered::Undelivered;

use guira_transport::Address;
use std::sync::Arc;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) timeout_ms: u32,
    pub(crate) standing: Arc<Standing>,
}
