//! A running server, and how it stops.

use super::prepare::{StartOptions, Starting};
use crate::admin::Admin;
use crate::errors::{StartError, StopError};
use crate::options::Options;
use crate::parts::Parts;
use crate::ports::Ports;
use crate::takeover::Door;
use guira_contract::{CloseError, Opening};
use guira_memory::lasting::HandedRegion;
use guira_roster::RegionPlace;
use guira_serving::{Crew, Host, WorkerError};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Stopwatch;
use guira_transport::Address;
use guira_web::Token;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The timeout of open requests of the admin listener when the server stops.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

pub struct Running {
    pub(super) bound: Bound,
    pub(crate) parts: Parts,
    pub(crate) status: ServerStatus,
    pub(crate) crew: Crew,
    /// The admin listener: its address and the thread that serves it.
    pub(crate) admin: Option<(Address, Crew)>,
    pub(super) token: Option<Arc<Token>>,
    /// The division of memory: purposes and bytes.
    pub(super) memory: Vec<(&'static str, usize)>,
    /// The region of the server, and its state at the start.
    pub(crate) found: Option<(RegionPlace, Opening)>,
    pub(crate) held: Box<dyn Held>,
    /// The socket at which a successor requests a takeover.
    pub(crate) door: Option<Door>,
    /// The options to start the server again if a successor fails.
    pub(crate) again: StartOptions,
}

/// The addresses of a server, with the ports that the system chose.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) streams: Vec<Address>,
    pub(super) udp: Vec<SocketAddr>,
    /// For MICA's datagrams to the first worker. The other workers have the ports after it.
    pub(super) mica: Vec<SocketAddr>,
    /// The socket at which clients on this host get the rings for MICA's datagrams.
    pub(super) local: Option<PathBuf>,
}

impl Bound {
    pub(super) fn of(ports: &Ports, options: &Options) -> Self {
        Bound {
            streams: ports.addresses(),
            udp: ports.udp_addresses(),
            mica: ports.mica_addresses(options),
            local: options.local.clone(),
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("bound", &self.bound).finish_non_exhaustive()
    }
}

/// A handle to a running server, for any thread.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub(super) host: Arc<Host>,
    /// Weak: the last handle closes the engine, and that must not be this one.
    pub(crate) admin: Weak<Admin>,
}

impl ServerStatus {
    /// The number of items, as in `stats`: expired items that were not found yet are included. 0
    /// once the server has stopped.
    pub fn items(&self) -> u64 {
        self.admin.upgrade().map_or(0, |admin| admin.item_count())
    }

    pub fn connections(&self) -> u64 {
        self.host.connections.current.load(Ordering::Relaxed)
    }
}

/// Whether the items outlive the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The next start restores them, if the server has a region.
    Kept,
    Discarded,
}

impl From<WorkerError> for StopError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Failed(error) => StopError::Worker(error),
            WorkerError::Panicked => StopError::Panicked,
        }
    }
}

impl Running {
    /// Sets the region of the server, and its state at the start.
    pub(super) fn with_region(self, found: Option<(RegionPlace, Opening)>) -> Self {
        Running { found, ..self }
    }

    /// The addresses of its listeners, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.bound.streams
    }

    /// The addresses of its UDP sockets, with the ports that the system chose.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.bound.udp
    }

    /// The addresses at which its first worker receives MICA's datagrams. The other workers have
    /// the ports after it.
    pub fn mica_addresses(&self) -> &[SocketAddr] {
        &self.bound.mica
    }

    /// The socket at which clients on this host get the rings for MICA's datagrams.
    pub fn local(&self) -> Option<&Path> {
        self.bound.local.as_deref()
    }

    pub fn status(&self) -> &ServerStatus {
        &self.status
    }

    /// The address of the admin listener.
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|(address, _)| address)
    }

    /// Reads users, certificates and the admin listener's token again.
    pub fn reload(&self) {
        self.parts.host.reload();
        if let Some(token) = &self.token {
            token.reload();
        }
    }

    /// The region of the server, and its state at the start.
    pub fn region(&self) -> Option<(&RegionPlace, &Opening)> {
        self.found.as_ref().map(|(place, opening)| (place, opening))
    }

    /// The division of memory: purposes and bytes.
    pub fn memory(&self) -> &[(&'static str, usize)] {
        &self.memory
    }

    /// Stops the server. It accepts no more connections, closes idle ones at once, and the others when they are idle
    /// or after `drain-timeout`.
    ///
    /// # Errors
    /// If a worker had failed before, or the items could not be kept.
    pub fn stop(self, ending: Ending) -> Result<(), StopError> {
        let started = Stopwatch::start();
        let drain = Duration::from_secs(self.parts.options.drain_timeout.into());
        let ended = self.crew.end(drain).map_err(StopError::from);
        // Last: until then it reports that the server stops. It only reads the region.
        let admin_ended =
            self.admin.map_or(Ok(()), |(_, crew)| crew.end(ADMIN_DRAIN).map_err(StopError::from));
        if let Err(StopError::Panicked) = ended {
            // The worker may have panicked in the middle of a change: the region may be
            // inconsistent.
            return ended;
        }
        if self.found.is_some() && ending == Ending::Kept {
            // Background tasks notice that the server stops, and return their sessions.
            let patience = (drain + BACKGROUND_WAIT).saturating_sub(started.elapsed());
            self.parts.background.wait(patience);
            self.held.close(&self.parts)?;
            tracing::info!("closed the region");
        }
        ended.and(admin_ended)
    }
}

/// How long a server that stops waits for background tasks after its connections are closed.
pub(crate) const BACKGROUND_WAIT: Duration = Duration::from_secs(5);

/// The engine of a server, of any type, apart from its use.
pub(crate) trait Held: Send {
    /// Closes the engine after its last use.
    fn close(self: Box<Self>, parts: &Parts) -> Result<(), CloseError>;
    /// Closes the engine for a successor. If that fails, the engine comes back unchanged.
    fn hand_over(self: Box<Self>, parts: &Parts) -> Result<HandedRegion, (Box<dyn Held>, CloseError)>;
    /// Serves the engine again after the server of `parts` has stopped. `found` is its region, and
    /// the state of the region at the start. If that fails, the engine is closed.
    fn serve(
        self: Box<Self>,
        starting: Starting<'_>,
        found: Option<(RegionPlace, Opening)>,
        parts: &Parts,
    ) -> Result<Running, StartError>;
}

/// Closes the engine of a server that cannot resume, so that the next start restores its items.
pub(crate) fn close_unserved(held: Box<dyn Held>, parts: &Parts, place: &RegionPlace) {
    parts.background.wait(BACKGROUND_WAIT);
    log_closed(place, held.close(parts));
}

/// Logs the fate of the items in the region of a server that cannot resume.
pub(crate) fn log_closed(place: &RegionPlace, closed: Result<(), impl std::fmt::Display>) {
    match closed {
        Ok(()) => {
            // Operator: Nothing: the server that could not start has lost no items.
            tracing::warn!("closed region {place}; the next start restores its items");
        }
        // Operator: The cache starts empty: expect load on the database.
        Err(error) => tracing::error!("lost the items in region {place}: {error}"),
    }
}
