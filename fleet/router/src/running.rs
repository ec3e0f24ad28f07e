//! Starting and stopping a router.

use crate::config::{LoadError, Loader, SharedPlan, Source};
use crate::flow::Flow;
use crate::kept;
use crate::reload::{self, Reloader, Reloading, Wish};
use crate::service::RouterService;
use crate::shared::Shared;
use crate::udp;
use guira_routing::config::ConfigError;
use guira_routing::{Settings, Walks};
use guira_serving::{
    Acceptor, Beyond, ConnBudget, ConnLimits, Connections, Crew, Host, HostOptions, Listen, Placement, Port,
    PortError, Speaks, Worker, WorkerError, unix_now,
};
use guira_transport::{
    Address, ListenOptions, Listener, Mailbox, TlsAcceptor, TlsClientOptions, TlsError, TlsName, TlsOptions,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What a router is started with.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    pub listen: Vec<Listen>,
    /// Where gets in datagrams are taken.
    pub udp: Vec<SocketAddr>,
    /// Without it, clients do not speak TLS.
    pub client_tls: Option<TlsOptions>,
    pub server_tls: ServerTls,
    pub workers: usize,
    pub source: Source,
    pub settings: Settings,
    pub identity: Identity,
    pub health: Health,
    pub limits: Limits,
    pub reloading: Reloading,
    /// The folder of the last good configuration.
    pub dump_root: Option<PathBuf>,
    /// As `stats` shows it.
    pub command_line: String,
    /// All options in effect, by name, as clients may ask for them.
    pub shown: Vec<(String, String)>,
}

/// TLS to servers.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub options: TlsClientOptions,
    /// What all servers are called; without it, each by its host.
    pub identity: Option<TlsName>,
}

/// What a router is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub service: String,
    pub router: String,
}

/// When servers count as down, and how they are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Off if there is none.
    pub timeouts_until_tko: Option<u32>,
    /// How many servers may be down for their timeouts at once; any number if 0.
    pub soft_tkos_max: u32,
    pub probe_initial: Duration,
    pub probe_max: Duration,
    /// A connection that is not used for so long is closed; never if it is zero.
    pub inactive_after: Duration,
}

/// How much may be under way; without limit where it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: u64,
    /// Requests of one client.
    pub client_requests: u32,
    /// Requests that one server was sent by a worker, and that wait to be sent to it.
    pub server_inflight: u32,
    pub server_pending: u32,
    /// Requests of a worker.
    pub worker_inflight: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("cannot listen on udp {address}")]
    Udp { address: SocketAddr, source: io::Error },
    #[error("no TLS for clients")]
    Tls(#[from] TlsError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// A running router.
#[derive(Debug)]
pub struct Running {
    crew: Crew,
    addresses: Vec<Address>,
    udp_addresses: Vec<SocketAddr>,
    warnings: Vec<ConfigError>,
    host: Arc<Host>,
    wishes: Arc<Mailbox<Wish>>,
    reloader: Option<JoinHandle<io::Result<()>>>,
}

const MIB: usize = 1 << 20;

/// Starts a router. It listens on `inherited` sockets too.
///
/// # Errors
/// What is wrong with the configuration, or what the system says.
pub fn start(options: &RouterOptions, inherited: Vec<Listener>) -> Result<Running, StartError> {
    let mut loader = Loader::new(options);
    let identity = &options.identity;
    let kept = options.dump_root.as_deref().map(|root| kept::path(root, &identity.service, &identity.router));
    let plan = Arc::new(reload::first(&mut loader, kept.as_ref())?);
    let host = Arc::new(host(options)?);
    let shared = Arc::new(Shared::new(options, host.clone(), plan.clone()));
    let ports = ports(options, inherited, host.tls.as_ref())?;
    let addresses = ports.iter().map(|port| (*port.address).clone()).collect();
    let (datagrams, udp_addresses) = datagrams(options)?;
    let mut acceptor = Some(Acceptor::new(ports, host.mailboxes.clone()));
    let mut crew = Crew::called("router", host.clone());
    let mut workers = Vec::new();
    for (index, sockets) in datagrams.into_iter().enumerate() {
        let plans = Arc::new(Mailbox::new()?);
        workers.push(plans.clone());
        let (host, acceptor, plan, shared) = (host.clone(), acceptor.take(), plan.clone(), shared.clone());
        crew.start(index, Placement::Anywhere, move || {
            Worker::new(index, service(index, &plan, plans, sockets, shared)?, host, acceptor)
        })?;
    }
    crew.wait_until_ready()?;
    let wishes = Arc::new(Mailbox::new()?);
    let reloading = options.reloading;
    let reloader = Reloader { loader, wishes: wishes.clone(), workers, shared, reloading, kept };
    let thread = std::thread::Builder::new().name("router-config".to_owned());
    let reloader = Some(thread.spawn(|| reloader.run_until_told())?);
    crew.begin();
    let warnings = plan.warnings.clone();
    Ok(Running { crew, addresses, udp_addresses, host, warnings, wishes, reloader })
}

/// Inherited sockets are plain.
fn ports(
    options: &RouterOptions,
    inherited: Vec<Listener>,
    tls: Option<&TlsAcceptor>,
) -> Result<Vec<Port>, PortError> {
    let how = ListenOptions { backlog: 1024, unix_mode: 0o700 };
    let mut ports = Port::open_all(inherited, &mut Vec::new(), &[], how, Speaks::Any, None)?;
    ports.extend(Port::open_all(Vec::new(), &mut Vec::new(), &options.listen, how, Speaks::Any, tls)?);
    Ok(ports)
}

/// The UDP sockets of each worker, and their addresses.
fn datagrams(options: &RouterOptions) -> Result<(Vec<Vec<UdpSocket>>, Vec<SocketAddr>), StartError> {
    let opened = udp::open(&options.udp, options.workers);
    let sockets = opened.map_err(|(address, source)| StartError::Udp { address, source })?;
    let addresses = sockets.iter().take(1).flatten().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
    Ok((sockets, addresses))
}

fn host(options: &RouterOptions) -> Result<Host, StartError> {
    let tls = options.client_tls.clone().map(|tls| TlsAcceptor::new(tls, unix_now())).transpose()?;
    let limits = ConnLimits { idle: 256 * MIB, traffic: 1024 * MIB, pinned: 0 };
    Ok(Host::new(HostOptions {
        workers: options.workers,
        connections: Connections::new(options.limits.connections, Beyond::Refused),
        budget: Arc::new(ConnBudget::new(limits, options.workers)),
        idle: None,
        users: None,
        tls,
        observer: Arc::new(()),
    })?)
}

fn service(
    index: usize,
    plan: &SharedPlan,
    plans: Arc<Mailbox<SharedPlan>>,
    sockets: Vec<UdpSocket>,
    shared: Arc<Shared>,
) -> io::Result<RouterService> {
    let tree = plan.tree(shared.settings()).map_err(io::Error::other)?;
    let mut flow = Flow::new(shared.counters(index), shared.health());
    flow.add_servers(&plan.servers);
    Ok(RouterService::new(Walks::new(Rc::new(tree), index as u64), flow, plans, sockets, shared))
}

impl Running {
    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where it takes datagrams.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp_addresses
    }

    /// What is doubtful in the configuration that it has started with.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }

    /// Reads the configuration again, soon, and certificates.
    pub fn reload(&self) {
        self.host.reload();
        self.wishes.send(Wish::LoadNow);
    }

    /// Stops, after requests that are under way were answered.
    ///
    /// # Errors
    /// If a worker has failed.
    pub fn stop(mut self, patience: Duration) -> Result<(), WorkerError> {
        self.wishes.send(Wish::End);
        let reloader = self.reloader.take().map(JoinHandle::join);
        self.crew.end(patience)?;
        match reloader {
            Some(Ok(ended)) => ended.map_err(WorkerError::Failed),
            Some(Err(_)) => Err(WorkerError::Panicked),
            None => Ok(()),
        }
    }
}
