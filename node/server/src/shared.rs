//! What workers, the acceptor and `stats` share.

use crate::auth::Users;
use crate::counters::{CounterValues, ServerCount};
pub(crate) use crate::counters::{WorkerCount, WorkerCounters};
use crate::direct::BurstSizes;
use crate::memory_split::{CONNECTION_BYTES, MemorySplit, TLS_BYTES};
use crate::options::Options;
use crate::secrets::{Secrets, unix_now};
use crate::watch::{CloseReason, DEFAULT_DELIMITER, Hub, Prefixes};
use guira_advice::Advisor;
use guira_commands::{CommandCount, CommandCounters};
use guira_serving::{
    AcceptorHost, Access, Arrival, ConnBudget, ConnectionFacts, Connections, RateLimited, Registry,
};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_transport::{LossMeter, Losses, Mailbox, TlsAcceptor, TlsError};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by everything in a running server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: CoarseClock,
    pub(crate) started: Stopwatch,
    pub(crate) workers: Vec<(Arc<WorkerCounters>, Arc<CommandCounters>)>,
    /// How many of MICA's datagrams each worker finds at once.
    pub(crate) bursts: Vec<Arc<BurstSizes>>,
    /// Tell of datagrams that were lost on their way to a worker.
    loss_meters: Vec<Arc<dyn LossMeter>>,
    pub(crate) connections: Connections,
    pub(crate) options: Options,
    /// Background tasks that hold a session of the engine. SeqCst, though nothing else is ordered by it.
    pub(crate) background_tasks: AtomicU64,
    /// A walk was refused since one is under way. Relaxed: the client that holds that one up has less time, sooner or later.
    pub(crate) walk_wanted: AtomicBool,
    /// LOCK: since. The counters when they were last reset. Taken before the engine's.
    pub(crate) since: Mutex<CounterValues>,
    /// Bytes that background tasks have sent.
    pub(crate) background_bytes: AtomicU64,
    /// Each worker's, by its number.
    pub(crate) mailboxes: Vec<Arc<Mailbox<Arrival>>>,
    pub(crate) budget: Arc<ConnBudget>,
    pub(crate) registry: Registry,
    pub(crate) hub: Arc<Hub>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Learns what more memory would be worth, if that is wanted.
    pub(crate) advisor: Option<Arc<Advisor>>,
    /// Who may use the server; everybody, without.
    pub(crate) users: Option<Users>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) verbosity: AtomicU32,
    tells_of_refresh: RateLimited,
    /// Set once: no connection is accepted any more, and those there are are closed when they are at rest.
    pub(crate) stopping: AtomicBool,
    /// Set once: there was time enough, and what is still under way is given up.
    pub(crate) abandoned: AtomicBool,
}

/// Whoever learns from requests, if that is wanted and there is memory for it.
fn advisor(options: &Options) -> Option<Arc<Advisor>> {
    let budget = MemorySplit::of(options, options.memory.0).advice;
    let delimiter = options.prefix_delimiter.map_or(DEFAULT_DELIMITER, |delimiter| delimiter.0);
    (budget > 0).then(|| Arc::new(Advisor::new(budget, delimiter)))
}

impl Shared {
    pub(crate) fn new(
        clock: CoarseClock,
        options: &Options,
        secrets: Secrets,
        mailboxes: Vec<Arc<Mailbox<Arrival>>>,
        hub: Arc<Hub>,
        loss_meters: Vec<Arc<dyn LossMeter>>,
    ) -> Self {
        Shared {
            clock,
            started: Stopwatch::start(),
            workers: (0..options.workers).map(|_| Default::default()).collect(),
            bursts: (0..options.workers).map(|_| Default::default()).collect(),
            loss_meters,
            connections: Connections::new(options.max_connections, options.beyond_max),
            options: options.clone(),
            background_tasks: AtomicU64::new(0),
            walk_wanted: AtomicBool::new(false),
            since: Mutex::default(),
            background_bytes: AtomicU64::new(0),
            mailboxes,
            budget: hub.budget.clone(),
            registry: Registry::default(),
            hub,
            prefixes: Arc::new(Prefixes::new(options.prefix_delimiter.map(|delimiter| delimiter.0))),
            advisor: advisor(options),
            users: secrets.users,
            tls: secrets.tls,
            verbosity: AtomicU32::new(0),
            tells_of_refresh: RateLimited::every(1),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        }
    }

    /// The counters since the start.
    pub(crate) fn counter_values(&self) -> CounterValues {
        CounterValues {
            commands: CommandCount::ALL.map(|what| self.command_sum(what)),
            workers: WorkerCount::ALL.map(|what| self.worker_sum(what)),
            server: ServerCount::ALL.map(|what| self.hub.counters.get(what)),
            total_connections: self.connections.total.load(Ordering::Relaxed),
            rejected_connections: self.connections.rejected.load(Ordering::Relaxed),
        }
    }

    /// The counters since the last reset.
    pub(crate) fn counted(&self) -> CounterValues {
        self.counter_values().after(&self.since.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn worker_sum(&self, what: WorkerCount) -> u64 {
        let beside = match what {
            WorkerCount::BytesWritten => self.background_bytes.load(Ordering::Relaxed),
            WorkerCount::MicaMalformed => self.losses(|losses| losses.unreadable),
            WorkerCount::MicaDropped => self.losses(|losses| losses.overrun),
            _ => 0,
        };
        self.workers.iter().map(|(worker, _)| worker.get(what)).sum::<u64>() + beside
    }

    fn losses(&self, which: impl Fn(Losses) -> u64) -> u64 {
        self.loss_meters.iter().map(|meter| which(meter.losses())).sum()
    }

    /// Counts bytes that a background task has sent.
    pub(crate) fn bytes_sent(&self, bytes: usize) {
        self.background_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A connection is gone: there is room for another. Called before its descriptor is closed.
    pub(crate) fn gone(&self, facts: &ConnectionFacts, reason: CloseReason) {
        self.hub.connection_close(facts, reason);
        self.registry.remove(facts.id);
        self.budget.leave(facts.bytes);
        if self.connections.gone() {
            self.mailboxes[0].ring();
        }
    }

    pub(crate) fn command_sum(&self, what: CommandCount) -> u64 {
        self.workers.iter().map(|(_, commands)| commands.get(what)).sum()
    }

    /// Reads the files again that may have changed. What fails is logged, and what was known before stays.
    pub(crate) fn reload(&self) {
        if let Some(users) = &self.users {
            match users.reload() {
                Ok(()) => tracing::info!(file = %users.path().display(), "the auth file was read again"),
                Err(error) => {
                    self.hub.counters.add(ServerCount::AuthFileErrors, 1);
                    tracing::error!("the users stay as they were: {}", Causes(&error));
                }
            }
        }
        if self.tls.is_some() {
            log_reload(&self.reload_tls());
        }
    }

    /// Reads certificates and keys again, for a client. It may ask as often as it likes; the log does not tell each time.
    pub(crate) fn refresh_tls(&self) -> Result<(), TlsError> {
        let result = self.reload_tls();
        if self.tells_of_refresh.is_due(self.clock.now()) {
            log_reload(&result);
        }
        result
    }

    fn reload_tls(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload(unix_now()))
    }

    /// Reads certificates and keys again if their files are others than before.
    pub(crate) fn reload_changed_tls(&self) {
        if self.tls.as_ref().is_some_and(TlsAcceptor::changed) {
            // What fails is tried again when they change again.
            log_reload(&self.reload_tls());
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl AcceptorHost for Shared {
    fn connections(&self) -> &Connections {
        &self.connections
    }

    fn budget(&self) -> &ConnBudget {
        &self.budget
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn access(&self) -> Access {
        if self.users.is_some() { Access::Login } else { Access::Free }
    }

    fn idle_bytes(&self, is_tls: bool) -> usize {
        CONNECTION_BYTES + if is_tls { TLS_BYTES } else { 0 }
    }

    fn connected(&self, facts: &ConnectionFacts) {
        self.hub.connection_new(facts);
    }
}

fn log_reload(result: &Result<(), TlsError>) {
    match result {
        Ok(()) => tracing::info!("certificates were read again"),
        Err(error) => tracing::error!("certificates stay as they were: {}", Causes(error)),
    }
}

/// An error with what caused it, and what caused that.
struct Causes<'a>(&'a dyn Error);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
