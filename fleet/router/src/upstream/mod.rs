//! Servers, as one worker sees them.

mod destination;
mod health;
mod link;
mod reply;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard};
pub(crate) use health::Standing;
pub(crate) use link::Secure;

use guira_transport::Address;
use std::sync::Arc;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    /// Without it, TLS is not spoken.
    pub(crate) secure: Option<Secure>,
    pub(crate) timeout_ms: u32,
    pub(crate) connect_timeout_ms: u32,
    pub(crate) standing: Arc<Standing>,
}
