//! What workers, the acceptor and `stats` share.

use guira_commands::{CommandCount, CommandCounters};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_sync::counters::Counters;
use std::sync::Arc;

/// What a worker counts besides commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerCount {
    BytesRead,
    BytesWritten,
    Yields,
}

const COUNTS: usize = WorkerCount::Yields as usize + 1;

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

/// Shared by everything in a running server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: CoarseClock,
    pub(crate) started: Stopwatch,
    pub(crate) workers: Vec<(Arc<WorkerCounters>, Arc<CommandCounters>)>,
    pub(crate) connections: Connections,
    pub(crate) verbosity: AtomicU32,
    /// Set once: no connection is accepted any more, and those there are are closed when they are at rest.
    pub(crate) stopping: AtomicBool,
    /// Set once: there was time enough, and what is still under way is given up.
    pub(crate) abandoned: AtomicBool,
}

/// Counts of connections. All orderings are Relaxed: these are statistics, and a limit that may be off by a
/// connection that is just closing.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) limit: u64,
    pub(crate) current: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) rejected: AtomicU64,
    /// Times the limit was reached.
    pub(crate) full: AtomicU64,
}

impl Shared {
    pub(crate) fn new(clock: CoarseClock, workers: usize, connection_limit: u64) -> Self {
        Shared {
            clock,
            started: Stopwatch::start(),
            workers: (0..workers).map(|_| Default::default()).collect(),
            connections: Connections {
                limit: connection_limit,
                current: AtomicU64::new(0),
                total: AtomicU64::new(0),
                rejected: AtomicU64::new(0),
                full: AtomicU64::new(0),
            },
            verbosity: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        }
    }

    pub(crate) fn worker_sum(&self, what: WorkerCount) -> u64 {
        self.workers.iter().map(|(worker, _)| worker.get(what)).sum()
    }

    pub(crate) fn command_sum(&self, what: CommandCount) -> u64 {
        self.workers.iter().map(|(_, commands)| commands.get(what)).sum()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
