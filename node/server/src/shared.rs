//! What workers, the acceptor and `stats` share.

use crate::direct::BurstSizes;
use crate::memory_split::MemorySplit;
use crate::notes::Since;
use crate::options::{ConnectionLimits, Options, Permissions};
use crate::watch::{DEFAULT_DELIMITER, Hub, Prefixes};
use guira_advice::Advisor;
use guira_commands::{CommandCount, CommandCounters, Uniques};
use guira_serving::{Host, TrafficCount};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_sync::counters::Counters;
use guira_transport::{LossMeter, Losses, TlsError};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// What a worker counts besides commands: of its connections ([`TrafficCount`]), and of what else requests come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerCount {
    BytesRead,
    BytesWritten,
    Yields,
    /// Logins, and those that failed.
    AuthCommands,
    AuthErrors,
    /// Connections closed because nothing came from them.
    IdleKicks,
    /// Datagrams received.
    Datagrams,
    /// MICA's datagrams received, and requests in them.
    MicaDatagrams,
    MicaRequests,
    /// Datagrams that made no sense, or were no datagrams for this port.
    MicaMalformed,
    /// Datagrams that arrived faster than they were received.
    MicaDropped,
    /// Answers that could not be sent.
    MicaUnsent,
    /// Datagrams that went by another directory.
    MicaMoved,
    /// Requests that another worker should have got.
    MicaMisdirected,
    /// Requests executed for other workers.
    Forwarded,
}

impl WorkerCount {
    /// All of them, in their order.
    pub(crate) const ALL: [WorkerCount; COUNTS] = [
        WorkerCount::BytesRead,
        WorkerCount::BytesWritten,
        WorkerCount::Yields,
        WorkerCount::AuthCommands,
        WorkerCount::AuthErrors,
        WorkerCount::IdleKicks,
        WorkerCount::Datagrams,
        WorkerCount::MicaDatagrams,
        WorkerCount::MicaRequests,
        WorkerCount::MicaMalformed,
        WorkerCount::MicaDropped,
        WorkerCount::MicaUnsent,
        WorkerCount::MicaMoved,
        WorkerCount::MicaMisdirected,
        WorkerCount::Forwarded,
    ];

    /// Its name in `stats`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkerCount::BytesRead => "bytes_read",
            WorkerCount::BytesWritten => "bytes_written",
            WorkerCount::Yields => "conn_yields",
            WorkerCount::AuthCommands => "auth_cmds",
            WorkerCount::AuthErrors => "auth_errors",
            WorkerCount::IdleKicks => "idle_kicks",
            WorkerCount::Datagrams => "udp_datagrams",
            WorkerCount::MicaDatagrams => "mica_datagrams",
            WorkerCount::MicaRequests => "mica_requests",
            WorkerCount::MicaMalformed => "mica_malformed",
            WorkerCount::MicaDropped => "mica_dropped",
            WorkerCount::MicaUnsent => "mica_unsent",
            WorkerCount::MicaMoved => "mica_moved",
            WorkerCount::MicaMisdirected => "mica_misdirected",
            WorkerCount::Forwarded => "forwarded_requests",
        }
    }

    /// What it is among the counts of connections.
    fn traffic(self) -> Option<TrafficCount> {
        match self {
            WorkerCount::BytesRead => Some(TrafficCount::BytesRead),
            WorkerCount::BytesWritten => Some(TrafficCount::BytesWritten),
            WorkerCount::Yields => Some(TrafficCount::Yields),
            WorkerCount::AuthCommands => Some(TrafficCount::AuthCommands),
            WorkerCount::AuthErrors => Some(TrafficCount::AuthErrors),
            WorkerCount::IdleKicks => Some(TrafficCount::IdleKicks),
            _ => None,
        }
    }
}

const COUNTS: usize = WorkerCount::Forwarded as usize + 1;

/// One worker's counters.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters(Counters<COUNTS>);

impl WorkerCounters {
    pub(crate) fn add(&self, what: WorkerCount, amount: u64) {
        self.0.add(what as usize, amount);
    }

    fn get(&self, what: WorkerCount) -> u64 {
        self.0.get(what as usize)
    }
}

/// Shared by everything in a running server. What is so whatever is served is in its [`Host`], which it stands for.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    pub(crate) clock: CoarseClock,
    pub(crate) started: Stopwatch,
    pub(crate) workers: Vec<(Arc<WorkerCounters>, Arc<CommandCounters>)>,
    /// How many of MICA's datagrams each worker finds at once.
    pub(crate) bursts: Vec<Arc<BurstSizes>>,
    /// Tell of datagrams that were lost on their way to a worker.
    loss_meters: Vec<Arc<dyn LossMeter>>,
    pub(crate) limits: ConnectionLimits,
    /// Background tasks that hold a session of the engine. SeqCst, though nothing else is ordered by it.
    pub(crate) background_tasks: AtomicU64,
    /// A walk was refused since one is under way. Relaxed: the client that holds that one up has less time, sooner or later.
    pub(crate) walk_wanted: AtomicBool,
    /// LOCK: since. What the counters said when they were last reset. Taken before the engine's.
    pub(crate) since: Mutex<Since>,
    /// Bytes that background tasks have sent.
    background_bytes: AtomicU64,
    pub(crate) hub: Arc<Hub>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Learns what more memory would be worth, if that is wanted.
    pub(crate) advisor: Option<Arc<Advisor>>,
    pub(crate) permissions: Permissions,
    pub(crate) uniques: Uniques,
    pub(crate) verbosity: AtomicU32,
}

impl Deref for Shared {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

/// What learns from requests, if that is wanted and there is memory for it.
fn advisor(options: &Options) -> Option<Arc<Advisor>> {
    let budget = MemorySplit::of(options, options.memory.0).advice;
    let delimiter = options.prefix_delimiter.unwrap_or(DEFAULT_DELIMITER);
    (budget > 0).then(|| Arc::new(Advisor::new(budget, delimiter)))
}

impl Shared {
    pub(crate) fn new(
        host: Arc<Host>,
        clock: CoarseClock,
        options: &Options,
        hub: Arc<Hub>,
        loss_meters: Vec<Arc<dyn LossMeter>>,
    ) -> Self {
        Shared {
            host,
            clock,
            started: Stopwatch::start(),
            workers: (0..options.workers).map(|_| Default::default()).collect(),
            bursts: (0..options.workers).map(|_| Default::default()).collect(),
            loss_meters,
            limits: options.connections,
            background_tasks: AtomicU64::new(0),
            walk_wanted: AtomicBool::new(false),
            since: Mutex::default(),
            background_bytes: AtomicU64::new(0),
            hub,
            prefixes: Arc::new(Prefixes::new(options.prefix_delimiter)),
            advisor: advisor(options),
            permissions: options.permissions,
            uniques: options.uniques,
            verbosity: AtomicU32::new(0),
        }
    }

    pub(crate) fn worker_sum(&self, what: WorkerCount) -> u64 {
        let beside = match what {
            WorkerCount::BytesWritten => self.background_bytes.load(Ordering::Relaxed),
            WorkerCount::MicaMalformed => self.losses(|losses| losses.unreadable),
            WorkerCount::MicaDropped => self.losses(|losses| losses.overrun),
            _ => 0,
        };
        let sum = match what.traffic() {
            Some(traffic) => self.host.traffic_sum(traffic),
            None => self.workers.iter().map(|(worker, _)| worker.get(what)).sum(),
        };
        sum + beside
    }

    /// Adds to a count of the first worker. To be called before the workers start: their counters have one writer each.
    pub(crate) fn add_before_start(&self, what: WorkerCount, amount: u64) {
        match (what.traffic(), self.workers.first()) {
            (Some(traffic), _) => self.host.traffic(0).add(traffic, amount),
            (None, Some((worker, _))) => worker.add(what, amount),
            (None, None) => {}
        }
    }

    fn losses(&self, which: impl Fn(Losses) -> u64) -> u64 {
        self.loss_meters.iter().map(|meter| which(meter.losses())).sum()
    }

    /// Counts bytes that a background task has sent.
    pub(crate) fn bytes_sent(&self, bytes: usize) {
        self.background_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn command_sum(&self, what: CommandCount) -> u64 {
        self.workers.iter().map(|(_, commands)| commands.get(what)).sum()
    }

    /// Reads certificates and keys again, for a client.
    pub(crate) fn refresh_tls(&self) -> Result<(), TlsError> {
        self.host.refresh_tls(self.clock.now())
    }
}
