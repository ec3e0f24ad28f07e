//! Servers, as one worker sees them.

mod connections;
mod destination;
mod health_monitor;
#[cfg(any(test, feature = "laws"))]
pub(crate) mod laws;
mod leases;
mod meter;
mod servers;
mod undelivered;

pub(crate) use connections::Connections;
pub(crate) use destination::{Destination, GivenUp, Heard, Lost};
#[cfg(test)]
pub(crate) use meter::State;
pub(crate) use meter::{Counted, Meter, Meters, OUTCOMES, STATES, ServerCount};
pub(crate) use servers::Servers;
pub(crate) use undelivered::Undelivered;

use guira_routing::Outcome;
use guira_routing::config::Leases;
use guira_sync::atomic::AtomicU32;
use guira_upstream::{Addresses, Health, Keepalive, Secure};
use std::sync::Arc;
use std::time::Duration;

/// A server, as all workers know it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) addresses: Arc<Addresses>,
    /// Without it, TLS is not spoken.
    pub(crate) secure: Option<Secure>,
    pub(crate) timeout_ms: u32,
    pub(crate) connect_timeout_ms: u32,
    /// What packets to it have in the field of their service.
    pub(crate) service: u8,
    pub(crate) keepalive: Option<Keepalive>,
    /// How it is asked for leases.
    pub(crate) leases: Leases,
    pub(crate) health: Arc<Health>,
    /// What each worker has counted.
    meters: Arc<[Arc<Meter>]>,
}

impl Server {
    /// With the timeouts of its requests and of connecting, for a router of which `slow` servers are out for their timeouts.
    pub(crate) fn new(
        addresses: Addresses,
        secure: Option<Secure>,
        [timeout, connect_timeout]: [Duration; 2],
        workers: usize,
        slow: &Arc<AtomicU32>,
    ) -> Self {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Server {
            addresses: Arc::new(addresses),
            secure,
            timeout_ms: millis(timeout),
            connect_timeout_ms: millis(connect_timeout),
            service: 0,
            keepalive: None,
            leases: Leases::Native,
            health: Arc::new(Health::new(slow.clone())),
            meters: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// The same, with this in the field of the service of packets to it.
    pub(crate) fn marked(self, service: u8) -> Self {
        Server { service, ..self }
    }

    /// The same, with keepalive of its connections.
    pub(crate) fn kept_alive(self, keepalive: Option<Keepalive>) -> Self {
        Server { keepalive, ..self }
    }

    /// The same, asked for leases in this way.
    pub(crate) fn leasing(self, leases: Leases) -> Self {
        Server { leases, ..self }
    }

    /// mcrouter's name of the server with this address.
    pub(crate) fn access_point(&self, address: &str) -> String {
        let security = if self.secure.is_some() { "ssl" } else { "plain" };
        format!("{address}:ascii:{security}:notcompressed")
    }

    /// What all workers have counted.
    pub(crate) fn meters(&self) -> Meters<'_> {
        Meters(&self.meters)
    }

    /// Requests to the server that have failed.
    pub(crate) fn errors(&self) -> u64 {
        let failures = Outcome::ALL.iter().filter(|outcome| outcome.is_error());
        failures.map(|outcome| self.meters().outcome(*outcome)).sum()
    }

    fn meter(&self, worker: usize) -> Arc<Meter> {
        self.meters[worker].clone()
    }
}

#[cfg(test)]
mod tests;
