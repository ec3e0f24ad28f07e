//! Servers, as one worker sees them.

mod answers;
mod destination;
mod health;
mod intake;
mod link;
mod meter;
mod reply;
mod undelivered;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard, Lost};
pub(crate) use health::{Standing, Tko};
pub(crate) use intake::Intake;
pub(crate) use link::Secure;
#[cfg(test)]
pub(crate) use meter::State;
pub(crate) use meter::{Meter, Meters, OUTCOMES, STATES, ServerCount};
pub(crate) use undelivered::Undelivered;
pub(crate) use wire::is_too_long;

use guira_sync::atomic::AtomicU32;
use guira_transport::Address;
use std::sync::Arc;
use std::time::Duration;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    /// Without it, TLS is not spoken.
    pub(crate) secure: Option<Secure>,
    pub(crate) timeout_ms: u32,
    pub(crate) connect_timeout_ms: u32,
    pub(crate) standing: Arc<Standing>,
    /// What each worker has counted.
    meters: Arc<[Arc<Meter>]>,
}

impl Server {
    /// With the timeouts of its requests and of connecting, for a router of which `slow` servers are out for their timeouts.
    pub(crate) fn new(
        address: Address,
        secure: Option<Secure>,
        [timeout, connect_timeout]: [Duration; 2],
        workers: usize,
        slow: &Arc<AtomicU32>,
    ) -> Self {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Server {
            address,
            secure,
            timeout_ms: millis(timeout),
            connect_timeout_ms: millis(connect_timeout),
            standing: Arc::new(Standing::new(slow.clone())),
            meters: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// What all workers have counted.
    pub(crate) fn meters(&self) -> Meters<'_> {
        Meters(&self.meters)
    }

    fn meter(&self, worker: usize) -> Arc<Meter> {
        self.meters[worker].clone()
    }
}

#[cfg(test)]
mod tests;
