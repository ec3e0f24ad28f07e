//! Starts and stops a router.

use crate::config::{LoadError, Loader, SharedPlan};
use crate::flow::Flow;
use crate::kept::Kept;
use crate::options::RouterOptions;
use crate::reload::{self, Command, Reloader};
use crate::service::{Mailboxes, RouterService};
use crate::shared::Shared;
use crate::spool::{DeleteLog, LogAccess, Logging};
use crate::stats_files::{self, StatsFiles};
use crate::udp;
use crate::web;
use guira_routing::Walks;
use guira_routing::config::ConfigError;
use guira_sandbox::SandboxError;
use guira_serving::{
    Acceptor, AtLimit, ConnBudget, Connections, Crew, Host, HostOptions, Listen, Placement, Port, PortError,
    Speaks, Worker, WorkerError, unix_now,
};
use guira_sync::thread::JoinHandle;
use guira_transport::net::UdpSocket;
use guira_transport::{Address, ListenOptions, Listener, Mailbox, TlsAcceptor, TlsError};
use guira_web::{Token, TokenError};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("cannot open the admin listener")]
    Admin(#[source] PortError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot listen on udp {address}")]
    Udp { address: SocketAddr, source: io::Error },
    #[error("cannot set up TLS for clients")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    SystemCalls(#[from] SandboxError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

#[derive(Debug)]
pub struct Running {
    crew: Crew,
    addresses: Vec<Address>,
    udp_addresses: Vec<SocketAddr>,
    warnings: Vec<ConfigError>,
    host: Arc<Host>,
    commands: Arc<Mailbox<Command>>,
    reloader: Option<JoinHandle<io::Result<()>>>,
    admin: Option<(Address, Crew)>,
    token: Option<Arc<Token>>,
    logging: Option<Logging>,
}

/// The permissions of UNIX sockets.
const UNIX_MODE: u32 = 0o700;
/// The timeout of the admin listener's replies at the stop.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

/// Starts a router. It also listens on `inherited` sockets.
///
/// # Errors
/// If the configuration is invalid, or a system call fails.
pub fn start(options: &RouterOptions, inherited: Vec<Listener>) -> Result<Running, StartError> {
    let options = &RouterOptions { settings: stats_files::settings(options), ..options.clone() };
    let commands = Arc::new(Mailbox::new()?);
    let (for_names, for_pools) = (commands.clone(), commands.clone());
    let mut loader = Loader::notifying(
        options,
        move |news| for_names.send(Command::Learn(news)),
        move || for_pools.send(Command::LoadPools),
    );
    let identity = &options.identity;
    let kept = options.dump.as_ref().map(|dump| Kept::new(dump, identity));
    let (plan, fault) = reload::first(&mut loader, kept.as_ref())?;
    let plan = Arc::new(plan);
    let host = Arc::new(host(options, plan.in_use().len())?);
    let ports = ports(options, inherited, host.tls.as_ref())?;
    let addresses: Vec<Address> = ports.iter().map(|port| (*port.address).clone()).collect();
    let shared = Arc::new(Shared::new(options, host.clone(), plan.clone(), &loader, &plain(&ports)));
    fault.iter().for_each(|fault| shared.config.note_saved(fault));
    let (datagrams, udp_addresses) = datagrams(options)?;
    let mut acceptor = Some(Acceptor::new(ports, host.mailboxes.clone()));
    let log = options.deletes.as_ref();
    let mut logging = log.map(|log| Logging::start(log, options, &shared.counts.log)).transpose()?;
    let mut crew = Crew::called("router", host.clone());
    let mut workers = Vec::new();
    for (index, sockets) in datagrams.into_iter().enumerate() {
        let changes = Arc::new(Mailbox::new()?);
        workers.push(changes.clone());
        let mailboxes = Mailboxes { changes, commands: commands.clone() };
        let (host, acceptor, plan, shared) = (host.clone(), acceptor.take(), plan.clone(), shared.clone());
        let access = logging.as_ref().map(Logging::access);
        crew.start(index, Placement::Anywhere, move || {
            let service = service(index, &plan, (mailboxes, sockets), shared, access)?;
            Worker::new(index, service, host, acceptor)
        })?;
    }
    crew.wait_until_ready()?;
    if let (Some(logging), Some(log)) = (&mut logging, log) {
        logging.start_replay(log, &shared)?;
    }
    let reloading = options.reloading;
    let token = options.admin_token_file.as_deref().map(Token::load).transpose()?.map(Arc::new);
    let admin = options.admin.as_ref().map(|place| serve_admin(place, &shared, token.clone())).transpose()?;
    let stats_files = options.stats_files.as_ref().map(|files| StatsFiles::new(files, identity));
    let reloader =
        Reloader { loader, commands: commands.clone(), workers, shared, reloading, kept, stats_files };
    let thread = guira_sync::thread::Builder::new().name("router-config".to_owned());
    let reloader = Some(thread.spawn(|| reloader.run_until_end())?);
    options.system_calls.restrict()?;
    crew.begin();
    if let Some((_, admin)) = &admin {
        admin.begin();
    }
    let warnings = plan.warnings.clone();
    Ok(Running { crew, addresses, udp_addresses, host, warnings, commands, reloader, admin, token, logging })
}

/// The listeners without TLS; all of them if each has TLS.
fn plain(ports: &[Port]) -> Vec<Address> {
    let of = |ports: Vec<&Port>| ports.iter().map(|port| (*port.address).clone()).collect::<Vec<_>>();
    let plain = of(ports.iter().filter(|port| port.tls.is_none()).collect());
    if plain.is_empty() { of(ports.iter().collect()) } else { plain }
}

fn serve_admin(
    place: &Listen,
    shared: &Arc<Shared>,
    token: Option<Arc<Token>>,
) -> Result<(Address, Crew), StartError> {
    let port = guira_web::open(place).map_err(StartError::Admin)?;
    let address = port.listener.address().clone();
    Ok((address, web::start(port, shared.clone(), token)?))
}

fn ports(
    options: &RouterOptions,
    inherited: Vec<Listener>,
    tls: Option<&TlsAcceptor>,
) -> Result<Vec<Port>, PortError> {
    let how = ListenOptions { backlog: options.backlog, unix_mode: UNIX_MODE };
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

pub(crate) fn host(options: &RouterOptions, servers: usize) -> Result<Host, StartError> {
    let tls = options.client_tls.clone().map(|tls| TlsAcceptor::new(tls, unix_now())).transpose()?;
    let limit = options.client_limit();
    let clients = limit.for_servers(servers);
    Ok(Host::new(HostOptions {
        workers: options.workers,
        connections: Connections::new(clients, AtLimit::Refused),
        budget: Arc::new(ConnBudget::new(limit.memory(clients), options.workers)),
        idle: None,
        users: None,
        tls,
        observer: Arc::new(()),
    })?)
}

fn service(
    index: usize,
    plan: &SharedPlan,
    (mailboxes, sockets): (Mailboxes, Vec<UdpSocket>),
    shared: Arc<Shared>,
    log: Option<LogAccess>,
) -> io::Result<RouterService> {
    let tree = plan.tree(&shared.policies.settings).map_err(io::Error::other)?;
    // The worker's clock starts with it.
    tree.begin(0);
    let log = log.map(DeleteLog::new).transpose()?;
    let mut flow = Flow::new(shared.counters(index), &shared, log);
    flow.adopt(plan);
    Ok(RouterService::new(Walks::new(tree, index as u64), flow, mailboxes, sockets, shared))
}

impl Running {
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp_addresses
    }

    /// The warnings about the configuration at the start.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }

    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|(address, _)| address)
    }

    /// Reads the configuration again soon, and the certificates and the admin listener's token at
    /// once.
    pub fn reload(&self) {
        self.host.reload();
        if let Some(token) = &self.token {
            token.reload();
        }
        self.commands.send(Command::LoadNow);
    }

    /// Stops after requests in flight have their replies.
    ///
    /// # Errors
    /// If a worker has failed.
    pub fn stop(mut self, patience: Duration) -> Result<(), WorkerError> {
        self.commands.send(Command::End);
        let ended = self.crew.end(patience);
        // The reloader may be waiting for DNS.
        let reloader = self.reloader.take().map(JoinHandle::join);
        // The last logged deletes are written.
        let is_written = self.logging.take().is_none_or(|logging| logging.stop().is_ok());
        // Last: until then it reports that the router stops.
        if let Some((_, admin)) = self.admin.take() {
            admin.end(ADMIN_DRAIN)?;
        }
        ended?;
        if !is_written {
            return Err(WorkerError::Panicked);
        }
        match reloader {
            Some(Ok(ended)) => ended.map_err(WorkerError::Failed),
            Some(Err(_)) => Err(WorkerError::Panicked),
            None => Ok(()),
        }
    }
}
