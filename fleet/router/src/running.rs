//! Starting and stopping a router.

use crate::config::{LoadError, Loader, SharedPlan, Source};
use crate::flow::Flow;
use crate::kept;
use crate::reload::{self, Reloader, Reloading, Wish};
use crate::service::RouterService;
use crate::shared::Shared;
use crate::spool::{DeleteLog, LogAccess, LogOptions, Logging};
use guira_routing::config::ConfigError;
use guira_routing::{Settings, Walks};
use guira_serving::{
    Acceptor, Beyond, ConnBudget, ConnLimits, Connections, Crew, Host, HostOptions, Placement, Port, Speaks,
    Worker, WorkerError,
};
use guira_transport::{Address, ListenError, ListenOptions, Listener, Mailbox};
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
    /// The folder of the last good configuration.
    pub dump_root: Option<PathBuf>,
    /// Deletes that fail are logged, unless there is nothing here.
    pub deletes: Option<LogOptions>,
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
    logging: Option<Logging>,
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
    let mut listeners = inherited;
    for address in &options.listen {
        listeners.push(Listener::bind(address, ListenOptions { backlog: 1024, unix_mode: 0o700 })?);
    }
    let addresses: Vec<Address> = listeners.iter().map(|listener| listener.address().clone()).collect();
    let port = |listener: Listener| {
        let address = Arc::new(listener.address().clone());
        Port { listener, address, speaks: Speaks::Any, tls: None }
    };
    let ports = listeners.into_iter().map(port).collect();
    let mut acceptor = Some(Acceptor::new(ports, host.mailboxes.clone()));
    let log = options.deletes.as_ref();
    let mut logging = log.map(|log| Logging::start(log, options, &shared.log)).transpose()?;
    let mut crew = Crew::called("router", host.clone());
    let mut workers = Vec::new();
    for index in 0..options.workers {
        let plans = Arc::new(Mailbox::new()?);
        workers.push(plans.clone());
        let (host, acceptor, plan, shared) = (host.clone(), acceptor.take(), plan.clone(), shared.clone());
        let access = logging.as_ref().map(Logging::access);
        crew.start(index, Placement::Anywhere, move || {
            Worker::new(index, service(index, &plan, plans, shared, access)?, host, acceptor)
        })?;
    }
    crew.wait_until_ready()?;
    if let (Some(logging), Some(log)) = (&mut logging, log) {
        logging.start_replay(log, &shared)?;
    }
    let wishes = Arc::new(Mailbox::new()?);
    let reloading = options.reloading;
    let reloader = Reloader { loader, wishes: wishes.clone(), workers, shared, reloading, kept };
    let thread = std::thread::Builder::new().name("router-config".to_owned());
    let reloader = Some(thread.spawn(|| reloader.run_until_told())?);
    crew.begin();
    Ok(Running { crew, addresses, warnings: plan.warnings.clone(), wishes, reloader, logging })
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
    log: Option<LogAccess>,
) -> io::Result<RouterService> {
    let tree = plan.tree(shared.settings()).map_err(io::Error::other)?;
    let log = log.map(DeleteLog::new).transpose()?;
    let mut flow = Flow::new(shared.counters(index), shared.health(), log);
    flow.add_servers(&plan.servers, plan.named());
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

    /// Reads the configuration again, soon.
    pub fn reload(&self) {
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
        // What workers have logged last is written.
        if self.logging.take().is_some_and(|logging| logging.stop().is_err()) {
            return Err(WorkerError::Panicked);
        }
        match reloader {
            Some(Ok(ended)) => ended.map_err(WorkerError::Failed),
            Some(Err(_)) => Err(WorkerError::Panicked),
            None => Ok(()),
        }
    }
}
