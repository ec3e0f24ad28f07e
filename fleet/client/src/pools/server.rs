//! A server as all threads of a client share it, and the lookup of its addresses.

use super::plan::{Common, Gets};
use guira_routing::DestinationSpec;
use guira_routing::config::Address as Named;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::channel::{Sender, channel};
use guira_sync::clock::Stopwatch;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::Address;
use guira_transport::net::ToSocketAddrs;
use guira_upstream::{Addresses, Health, ProbeSchedule, Secure};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most concurrent lookups.
const LOOKUPS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: Arc<str>,
    address: Named,
    pub(super) addresses: Arc<Addresses>,
    pub(super) secure: Option<Secure>,
    pub(super) health: Arc<Health>,
    /// Present while the server is out of service.
    /// LOCK: pool_probes. Leaf.
    probes: Arc<Mutex<Option<ProbeSchedule>>>,
    /// The cause of the last failure, for the texts of errors.
    /// LOCK: pool_failure. Leaf.
    failure: Arc<Mutex<Option<Arc<str>>>>,
    pub(super) timeout_ms: u64,
    pub(super) connect_timeout_ms: u64,
    /// The value of the service field in packets.
    pub(super) service: u8,
    gets: Gets,
    is_looked_up: Arc<AtomicBool>,
}

impl Server {
    /// A server whose name, if it has one, is not resolved yet.
    pub(super) fn new(spec: &DestinationSpec, secure: Option<Secure>, common: &Common) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 4).max(1);
        let is_local = matches!(spec.address, Named::Unix(_));
        let server = Server {
            name: spec.address.to_string().into(),
            address: spec.address.clone(),
            addresses: Arc::new(Addresses::new([])),
            gets: if secure.is_some() || is_local { Gets::Tcp } else { common.gets },
            secure,
            health: Arc::new(Health::new(Arc::clone(&common.slow))),
            probes: Arc::default(),
            failure: Arc::default(),
            timeout_ms: millis(spec.timeout),
            connect_timeout_ms: millis(spec.connect_timeout),
            service: spec.service,
            is_looked_up: Arc::default(),
        };
        if !server.has_name() {
            // The address is numeric or a path.
            let _ = server.look_up();
        }
        server
    }

    pub(super) fn is(&self, other: &Server) -> bool {
        Arc::ptr_eq(&self.health, &other.health)
    }

    pub(super) fn probes(&self) -> MutexGuard<'_, Option<ProbeSchedule>> {
        self.probes.lock()
    }

    /// The cause of the last failure.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.failure.lock().clone()
    }

    pub(super) fn note_failure(&self, cause: impl Into<Arc<str>>) {
        *self.failure.lock() = Some(cause.into());
    }

    pub(super) fn note_timeout(&self, patience_ms: u64) {
        self.note_failure(format!("timeout after {patience_ms} ms"));
    }

    /// Whether gets are sent by UDP.
    pub(super) fn takes_datagrams(&self) -> bool {
        self.gets == Gets::Udp
    }

    pub(super) fn is_known(&self) -> bool {
        !self.addresses.list().is_empty()
    }

    /// Whether the host is a name that has to be resolved.
    fn has_name(&self) -> bool {
        matches!(&self.address, Named::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
    }

    /// Resolves the name, which may block for long.
    fn look_up(&self) -> io::Result<()> {
        let found = match &self.address {
            Named::Unix(path) => vec![Address::Unix(PathBuf::from(&**path))],
            Named::Tcp { host, port } => {
                (&**host, *port).to_socket_addrs()?.map(Address::Tcp).collect::<Vec<_>>()
            }
        };
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        self.addresses.replace(found);
        Ok(())
    }

    /// Resolves the name again, on a thread of its own.
    pub(super) fn look_up_again(&self) {
        if !self.has_name() || self.is_looked_up.swap(true, Ordering::Relaxed) {
            return;
        }
        let server = self.clone();
        let spawned = thread(move || {
            // A failed lookup leaves the known addresses.
            let _ = server.look_up();
            server.is_looked_up.store(false, Ordering::Relaxed);
        });
        if spawned.is_err() {
            self.is_looked_up.store(false, Ordering::Relaxed);
        }
    }
}

/// The name of a server, and the reason that it has no address.
pub(super) type Unknown = (String, String);

/// Resolves the names of servers within `patience`: later results are used when they arrive.
/// Returns a server without an address.
pub(super) fn look_up(servers: &[Server], patience: Duration) -> Option<Unknown> {
    let names: Vec<Server> = servers.iter().filter(|server| server.has_name()).cloned().collect();
    let count = names.len();
    // LOCK: names_to_look_up. Leaf.
    let names = Arc::new(Mutex::new(names));
    let (sender, receiver) = channel();
    let mut reason = "the DNS lookup of the name is still in progress".to_owned();
    for _ in 0..count.min(LOOKUPS_MAX) {
        let (names, sender) = (Arc::clone(&names), sender.clone());
        // Fewer threads look up the same names.
        if let Err(error) = thread(move || look_all_up(&names, &sender)) {
            reason = error.to_string();
        }
    }
    drop(sender);
    let (since, mut problem) = (Stopwatch::start(), None);
    for _ in 0..count {
        match receiver.recv_timeout(patience.saturating_sub(since.elapsed())) {
            Ok(result) => problem = result.or(problem),
            Err(_) => break,
        }
    }
    let is_unknown = |server: &&Server| !server.is_known();
    problem.or_else(|| servers.iter().find(is_unknown).map(|server| (server.name.to_string(), reason)))
}

fn look_all_up(names: &Mutex<Vec<Server>>, results: &Sender<Option<Unknown>>) {
    loop {
        let next = names.lock().pop();
        let Some(server) = next else { return };
        let problem = server.look_up().err().map(|error| (server.name.to_string(), error.to_string()));
        // The receiver may have stopped waiting.
        let _ = results.send(problem);
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    guira_sync::thread::Builder::new().name("guira-names".to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Builder, Plan};
    use super::*;

    #[test]
    fn a_server_without_an_address_is_returned_with_or_without_time_for_its_lookup() {
        // A name without addresses: RFC 6761.
        let plan = Plan::new(&Builder::servers(&["localhost:7", "nobody.invalid:7", "127.0.0.1:7"])).unwrap();
        let known = |servers: &[Server]| servers.iter().map(Server::is_known).collect::<Vec<_>>();
        assert_eq!(known(plan.servers()), [true, false, true]);
        let named = |patience| look_up(plan.servers(), patience).map(|(server, _)| server);
        assert_eq!(named(Duration::from_secs(600)).as_deref(), Some("nobody.invalid:7"));
        assert_eq!(named(Duration::ZERO).as_deref(), Some("nobody.invalid:7"));
        assert!(look_up(&plan.servers()[2..], Duration::ZERO).is_none());
        assert!(Plan::new(&Builder::servers(&["nobody.invalid:7"])).is_err());
    }
}
