//! Starting and stopping a router.

use crate::flow::Flow;
use crate::service::RouterService;
use crate::upstream::{Destination, Health, HealthOptions};
use guira_routing::config::{ConfigError, Json};
use guira_routing::{Destinations, Settings, Tree, Walks, build};
use guira_serving::{
    Acceptor, Beyond, ConnBudget, ConnLimits, Connections, Crew, Host, HostOptions, Placement, Port, Speaks,
    Worker, WorkerError,
};
use guira_transport::{Address, ListenError, ListenOptions, Listener};
use std::io;
use std::net::ToSocketAddrs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What a router is started with.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    pub listen: Vec<Address>,
    pub workers: usize,
    pub settings: Settings,
    pub health: HealthOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("server {address}: {reason}")]
    Server { address: String, reason: String },
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// A running router.
#[derive(Debug)]
pub struct Running {
    crew: Crew,
    addresses: Vec<Address>,
}

const MIB: usize = 1 << 20;

/// Starts a router with this configuration.
///
/// # Errors
/// What is wrong with the configuration, or what the system says.
pub fn start(options: &RouterOptions, config: &Json) -> Result<Running, StartError> {
    // Once to see whether it is right; each worker has a tree of its own.
    let mut destinations = Destinations::default();
    build(config, &NoSources, &options.settings, &mut destinations)?;
    let servers = destinations
        .specs()
        .iter()
        .map(|spec| {
            let timeout_ms = spec.timeout.as_millis() as u32;
            Ok((look_up(&spec.address.to_string())?, timeout_ms, Arc::<Health>::default()))
        })
        .collect::<Result<Vec<_>, StartError>>()?;
    let limits = ConnLimits { idle: 256 * MIB, traffic: 1024 * MIB, pinned: 0 };
    let host = Arc::new(Host::new(HostOptions {
        workers: options.workers,
        connections: Connections::new(65_536, Beyond::Refused),
        budget: Arc::new(ConnBudget::new(limits, options.workers)),
        idle: None,
        users: None,
        tls: None,
        observer: Arc::new(()),
    })?);
    let mut ports = Vec::new();
    let mut addresses = Vec::new();
    for address in &options.listen {
        let listener = Listener::bind(address, ListenOptions { backlog: 1024, unix_mode: 0o700 })?;
        addresses.push(listener.address().clone());
        let address = Arc::new(listener.address().clone());
        ports.push(Port { listener, address, speaks: Speaks::Any, tls: None });
    }
    let mut acceptor = Some(Acceptor::new(ports, host.mailboxes.clone()));
    let mut crew = Crew::called("router", host.clone());
    for index in 0..options.workers {
        let (host, acceptor, servers) = (host.clone(), acceptor.take(), servers.clone());
        let (config, settings, health_options) = (config.clone(), options.settings.clone(), options.health);
        crew.start(index, Placement::Anywhere, move || {
            let tree = worker_tree(&config, &settings)?;
            let destinations = servers
                .into_iter()
                .map(|(address, timeout_ms, health)| Destination::new(address, timeout_ms, health, health_options))
                .collect();
            let service = RouterService::new(Walks::new(Rc::new(tree), index as u64), Flow::new(destinations));
            Worker::new(index, service, host, acceptor)
        })?;
    }
    crew.wait_until_ready()?;
    crew.begin();
    Ok(Running { crew, addresses })
}

struct NoSources;

impl guira_routing::config::Sources for NoSources {
    fn read(&self, _name: &str) -> Result<String, String> {
        Err("none".into())
    }
}

fn worker_tree(config: &Json, settings: &Settings) -> io::Result<Tree> {
    let mut destinations = Destinations::default();
    build(config, &NoSources, settings, &mut destinations).map(|built| built.tree).map_err(io::Error::other)
}

fn look_up(address: &str) -> Result<Address, StartError> {
    if let Ok(address) = address.parse() {
        return Ok(address);
    }
    let wrong = |reason: String| StartError::Server { address: address.to_owned(), reason };
    let mut found = address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().map(Address::Tcp).ok_or_else(|| wrong("has no address".to_owned()))
}

impl Running {
    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Stops, after requests that are under way were answered.
    ///
    /// # Errors
    /// If a worker has failed.
    pub fn stop(self, patience: Duration) -> Result<(), WorkerError> {
        self.crew.end(patience)
    }
}
