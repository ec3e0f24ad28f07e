//! Servers, as one worker sees them.

mod destination;
mod health;
mod meter;
mod reply;
mod wire;

pub(crate) use destination::{Destination, GivenUp, Heard};
pub(crate) use health::{Standing, Tko};
#[cfg(test)]
pub(crate) use meter::State;
pub(crate) use meter::{Meter, Meters, OUTCOMES, STATES, ServerCount};

use guira_transport::Address;
use std::sync::Arc;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) timeout_ms: u32,
    pub(crate) standing: Arc<Standing>,
    /// What each worker has counted.
    meters: Arc<[Arc<Meter>]>,
}

impl Server {
    pub(crate) fn new(address: Address, timeout_ms: u32, workers: usize) -> Self {
        let meters = (0..workers).map(|_| Arc::default()).collect();
        Server { address, timeout_ms, standing: Arc::default(), meters }
    }

    /// What all workers have counted.
    pub(crate) fn meters(&self) -> Meters<'_> {
        Meters(&self.meters)
    }

    fn meter(&self, worker: usize) -> Arc<Meter> {
        self.meters[worker].clone()
    }
}
