//! Starting and stopping a router.

use crate::config::{LoadError, Loader, SharedPlan, Source};
use crate::flow::Flow;
use crate::kept;
use crate::reload::{self, Reloader, Reloading, Wish};
use crate::service::RouterService;
use crate::shared::Shared;
use crate::web;
use guira_routing::config::ConfigError;
use guira_routing::{Settings, Walks};
use guira_serving::{
    Acceptor, Beyond, ConnBudget, ConnLimits, Connections, Crew, Host, HostOptions, Listen, Placement, Port,
    PortError, Speaks, Worker, WorkerError,
};
use guira_transport::{Address, ListenError, ListenOptions, Listener, Mailbox};
use guira_web::{Token, TokenError};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What a router is started with.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    pub listen: Vec<Address>,
    pub workers: usize,
    pub source: Source,
    pub settings: Settings,
    pub identity: Identity,
    pub health: Health,
    pub limits: Limits,
    pub reloading: Reloading,
    /// Where the admin listener is, and the file of the token that its clients show.
    pub admin: Option<Listen>,
    pub admin_token_file: Option<PathBuf>,
    /// The folder of the last good configuration.
    pub dump_root: Option<PathBuf>,
    /// As `stats` shows it.
    pub command_line: String,
    /// All options in effect, by name, as clients may ask for them.
    pub shown: Vec<(String, String)>,
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
    Listen(#[from] ListenError),
    #[error("cannot open the admin listener")]
    Admin(#[source] PortError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// A running router.
#[derive(Debug)]
pub struct Running {
    crew: Crew,
    addresses: Vec<Address>,
    warnings: Vec<ConfigError>,
    wishes: Arc<Mailbox<Wish>>,
    reloader: Option<JoinHandle<io::Result<()>>>,
    admin: Option<(Address, Crew)>,
    token: Option<Arc<Token>>,
}

const MIB: usize = 1 << 20;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Who may use sockets in the file system.
const UNIX_MODE: u32 = 0o700;
/// How long the admin listener's replies under way are waited for at the end.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

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
    let mut listeners = inherited;
    for address in &options.listen {
        listeners.push(Listener::bind(address, ListenOptions { backlog: BACKLOG, unix_mode: UNIX_MODE })?);
    }
    let addresses: Vec<Address> = listeners.iter().map(|listener| listener.address().clone()).collect();
    let port = |listener: Listener| {
        let address = Arc::new(listener.address().clone());
        Port { listener, address, speaks: Speaks::Any, tls: None }
    };
    let ports = listeners.into_iter().map(port).collect();
    let mut acceptor = Some(Acceptor::new(ports, host.mailboxes.clone()));
    let mut crew = Crew::called("router", host.clone());
    let mut workers = Vec::new();
    for index in 0..options.workers {
        let plans = Arc::new(Mailbox::new()?);
        workers.push(plans.clone());
        let (host, acceptor, plan, shared) = (host.clone(), acceptor.take(), plan.clone(), shared.clone());
        crew.start(index, Placement::Anywhere, move || {
            Worker::new(index, service(index, &plan, plans, shared)?, host, acceptor)
        })?;
    }
    crew.wait_until_ready()?;
    let wishes = Arc::new(Mailbox::new()?);
    let reloading = options.reloading;
    let token = options.admin_token_file.as_deref().map(Token::load).transpose()?.map(Arc::new);
    let admin = options.admin.as_ref().map(|place| serve_admin(place, &shared, token.clone())).transpose()?;
    let reloader = Reloader { loader, wishes: wishes.clone(), workers, shared, reloading, kept };
    let thread = std::thread::Builder::new().name("router-config".to_owned());
    let reloader = Some(thread.spawn(|| reloader.run_until_told())?);
    crew.begin();
    if let Some((_, admin)) = &admin {
        admin.begin();
    }
    Ok(Running { crew, addresses, warnings: plan.warnings.clone(), wishes, reloader, admin, token })
}

fn serve_admin(
    place: &Listen,
    shared: &Arc<Shared>,
    token: Option<Arc<Token>>,
) -> Result<(Address, Crew), StartError> {
    let how = ListenOptions { backlog: BACKLOG, unix_mode: UNIX_MODE };
    let ports =
        Port::open_all(Vec::new(), &mut Vec::new(), std::slice::from_ref(place), how, Speaks::Any, None);
    let port =
        ports.map_err(StartError::Admin)?.pop().ok_or_else(|| io::Error::other("it has no address"))?;
    let address = port.listener.address().clone();
    Ok((address, web::start(port, shared.clone(), token)?))
}

fn host(options: &RouterOptions) -> io::Result<Host> {
    let limits = ConnLimits { idle: 256 * MIB, traffic: 1024 * MIB, pinned: 0 };
    Host::new(HostOptions {
        workers: options.workers,
        connections: Connections::new(options.limits.connections, Beyond::Refused),
        budget: Arc::new(ConnBudget::new(limits, options.workers)),
        idle: None,
        users: None,
        tls: None,
        observer: Arc::new(()),
    })
}

fn service(
    index: usize,
    plan: &SharedPlan,
    plans: Arc<Mailbox<SharedPlan>>,
    shared: Arc<Shared>,
) -> io::Result<RouterService> {
    let tree = plan.tree(shared.settings()).map_err(io::Error::other)?;
    let mut flow = Flow::new(shared.counters(index), shared.health());
    flow.add_servers(&plan.servers);
    Ok(RouterService::new(Walks::new(Rc::new(tree), index as u64), flow, plans, shared))
}

impl Running {
    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What is doubtful in the configuration that it has started with.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }

    /// Where the admin listener is.
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|(address, _)| address)
    }

    /// Reads the configuration again, soon, and the admin listener's token.
    pub fn reload(&self) {
        if let Some(token) = &self.token {
            token.reload();
        }
        self.wishes.send(Wish::LoadNow);
    }

    /// Stops, after requests that are under way were answered.
    ///
    /// # Errors
    /// If a worker has failed.
    pub fn stop(mut self, patience: Duration) -> Result<(), WorkerError> {
        self.wishes.send(Wish::End);
        let reloader = self.reloader.take().map(JoinHandle::join);
        let ended = self.crew.end(patience);
        // Last: until then it tells that the router stops.
        if let Some((_, admin)) = self.admin.take() {
            admin.end(ADMIN_DRAIN)?;
        }
        ended?;
        match reloader {
            Some(Ok(ended)) => ended.map_err(WorkerError::Failed),
            Some(Err(_)) => Err(WorkerError::Panicked),
            None => Ok(()),
        }
    }
}
