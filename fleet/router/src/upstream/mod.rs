//! Servers as the workers of a router use them.
//!
//! A [`Destination`] composes what one worker has of one server: a `Link` does the I/O, a
//! `Pipeline` has the requests in flight, a `HealthMonitor` takes the server out of service, and a
//! `Lessor` handles leases.

mod connections;
mod destination;
mod health_monitor;
#[cfg(any(test, feature = "laws"))]
pub(crate) mod laws;
mod lessor;
mod meta_leases;
mod meter;
mod pipeline;
mod servers;
mod shortage;
mod tally;
mod undelivered;

pub(crate) use connections::{Connections, DestinationOptions};
pub(crate) use destination::{Destination, Expired};
#[cfg(test)]
pub(crate) use meter::State;
pub(crate) use meter::{Counted, Meter, Meters, OUTCOMES, STATES, ServerCount, averaged};
pub(crate) use pipeline::{FailedRequest, Parsed};
pub(crate) use servers::Servers;
pub(crate) use shortage::ShortageLog;
pub(crate) use undelivered::Undelivered;

use guira_routing::Outcome;
use guira_routing::config::Leases;
use guira_sync::atomic::AtomicU32;
use guira_upstream::{Addresses, Health, Keepalive, Secure};
use std::sync::Arc;
use std::time::Duration;

/// A server as all workers share it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) addresses: Arc<Addresses>,
    /// `None`: without TLS.
    pub(crate) secure: Option<Secure>,
    pub(crate) timeout_ms: u32,
    pub(crate) connect_timeout_ms: u32,
    /// The value of the service field in packets.
    pub(crate) service: u8,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) leases: Leases,
    pub(crate) health: Arc<Health>,
    meters: Arc<[Arc<Meter>]>,
}

impl Server {
    /// `soft_tkos` counts the servers of the router that are out of service for timeouts.
    pub(crate) fn new(
        addresses: Addresses,
        secure: Option<Secure>,
        [timeout, connect_timeout]: [Duration; 2],
        workers: usize,
        soft_tkos: &Arc<AtomicU32>,
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
            health: Arc::new(Health::new(soft_tkos.clone())),
            meters: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// Sets the service field of packets to the server.
    pub(crate) fn marked(self, service: u8) -> Self {
        Server { service, ..self }
    }

    pub(crate) fn kept_alive(self, keepalive: Option<Keepalive>) -> Self {
        Server { keepalive, ..self }
    }

    pub(crate) fn leasing(self, leases: Leases) -> Self {
        Server { leases, ..self }
    }

    /// mcrouter's name for the server at this address.
    pub(crate) fn access_point(&self, address: &str) -> String {
        let security = if self.secure.is_some() { "ssl" } else { "plain" };
        format!("{address}:ascii:{security}:notcompressed")
    }

    pub(crate) fn meters(&self) -> Meters<'_> {
        Meters(&self.meters)
    }

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
