//! What workers, the acceptor and `stats` share.

use crate::counters::{CounterValues, ServerCount, WorkerCount, WorkerCounters};
use crate::direct::BurstSizes;
use crate::latency::{Latencies, Series};
use crate::memory_split::{MemorySplit, subjects, top_keys_budget};
use crate::options::Options;
use crate::top_keys::TopKeys;
use crate::watch::{DEFAULT_DELIMITER, Hub, Prefixes};
use guira_advice::Advisor;
use guira_commands::{BY_CLASS, CommandCount, CommandCounters};
use guira_serving::Host;
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_sync::histogram::Histogram;
use guira_sync::lock::Mutex;
use guira_transport::{LossMeter, Losses, TlsError};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Shared by everything in a running server. What is so whatever is served is in its [`Host`], which it stands for.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    pub(crate) clock: CoarseClock,
    pub(crate) started: Stopwatch,
    pub(crate) workers: Vec<(Arc<WorkerCounters>, Arc<CommandCounters>)>,
    /// How many of MICA's datagrams each worker finds at once.
    pub(crate) bursts: Vec<Arc<BurstSizes>>,
    /// What each worker has measured of its own speed.
    pub(crate) latencies: Vec<Arc<Latencies>>,
    /// Tell of datagrams that were lost on their way to a worker.
    loss_meters: Vec<Arc<dyn LossMeter>>,
    pub(crate) options: Options,
    /// Background tasks that hold a session of the engine. SeqCst, though nothing else is ordered by it.
    /// A server that goes on since no successor could has those of before.
    pub(crate) background_tasks: Arc<AtomicU64>,
    /// A walk was refused since one is under way. Relaxed: the client that holds that one up has less time, sooner or later.
    pub(crate) walk_wanted: AtomicBool,
    /// LOCK: since. The counters when they were last reset. Taken before the engine's.
    pub(crate) since: Mutex<CounterValues>,
    /// Bytes that background tasks have sent.
    background_bytes: AtomicU64,
    pub(crate) hub: Arc<Hub>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Learns what more memory would be worth, if that is wanted.
    pub(crate) advisor: Option<Arc<Advisor>>,
    /// Which keys are asked for most, if that is to be known.
    pub(crate) top_keys: Option<Arc<TopKeys>>,
    pub(crate) verbosity: AtomicU32,
    /// Whether the replacement policy is left to the server, which chooses if it learns from requests. Relaxed: it may choose once more.
    pub(crate) policy_is_left_to_server: AtomicBool,
}

/// How often is looked whether background tasks have ended.
const LOOK: Duration = Duration::from_millis(1);

impl Shared {
    /// Waits until no background task holds a session of the engine, for as long as `patience`. Whether none does.
    pub(crate) fn wait_for_background(&self, patience: Duration) -> bool {
        let started = Stopwatch::start();
        while self.background_tasks.load(Ordering::SeqCst) > 0 {
            if started.elapsed() >= patience {
                return false;
            }
            guira_sync::thread::sleep(LOOK);
        }
        true
    }
}

impl Deref for Shared {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

/// What learns from requests, if that is wanted and there is memory for it.
fn advisor(options: &Options, chunks: &[usize]) -> Option<Arc<Advisor>> {
    let budget = MemorySplit::of(options, options.memory.0).advice;
    let subjects = (subjects(options), chunks);
    (budget > 0).then(|| Arc::new(Advisor::new(budget, delimiter(options), subjects)))
}

/// Which keys are asked for most, unless keys are not to be shown.
fn top_keys(options: &Options, clock: &CoarseClock) -> Option<Arc<TopKeys>> {
    let new =
        || TopKeys::new(top_keys_budget(options.memory.0), options.workers, delimiter(options), clock.now());
    options.shows_top_keys().then(|| Arc::new(new()))
}

/// What prefixes of keys end before.
fn delimiter(options: &Options) -> u8 {
    options.prefix_delimiter.map_or(DEFAULT_DELIMITER, |delimiter| delimiter.0)
}

impl Shared {
    pub(crate) fn new(
        host: Arc<Host>,
        clock: CoarseClock,
        options: &Options,
        hub: Arc<Hub>,
        loss_meters: Vec<Arc<dyn LossMeter>>,
        background_tasks: Arc<AtomicU64>,
        chunks: &[usize],
    ) -> Self {
        let is_auto = options.choice().is_ok_and(|choice| choice.is_auto());
        Shared {
            host,
            top_keys: top_keys(options, &clock),
            clock,
            started: Stopwatch::start(),
            workers: (0..options.workers).map(|_| Default::default()).collect(),
            bursts: (0..options.workers).map(|_| Default::default()).collect(),
            latencies: (0..options.workers).map(|_| Default::default()).collect(),
            loss_meters,
            options: options.clone(),
            background_tasks,
            walk_wanted: AtomicBool::new(false),
            since: Mutex::default(),
            background_bytes: AtomicU64::new(0),
            hub,
            prefixes: Arc::new(Prefixes::new(options.prefix_delimiter.map(|delimiter| delimiter.0))),
            advisor: advisor(options, chunks),
            verbosity: AtomicU32::new(0),
            policy_is_left_to_server: AtomicBool::new(is_auto),
        }
    }

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
        self.counter_values().after(&self.since.lock())
    }

    fn worker_sum(&self, what: WorkerCount) -> u64 {
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

    /// How often one of `BY_CLASS` was counted of a class, about.
    pub(crate) fn class_sum(&self, class: u32, what: CommandCount) -> u64 {
        let Some(index) = BY_CLASS.iter().position(|other| *other == what) else { return 0 };
        let class = u8::try_from(class).unwrap_or(0);
        self.workers.iter().map(|(_, commands)| commands.classes.get(class, index)).sum()
    }

    /// What all workers have measured.
    pub(crate) fn histogram(&self, series: Series) -> Histogram {
        Histogram::sum(self.latencies.iter().map(|latencies| latencies.of(series)))
    }

    /// Reads certificates and keys again, for a client.
    pub(crate) fn refresh_tls(&self) -> Result<(), TlsError> {
        self.host.refresh_tls(self.clock.now())
    }
}
