//! The counters and histograms of a server.

use crate::background::BackgroundTasks;
use crate::counters::{CounterValues, ServerCount, ServerCounters, WorkerCount, WorkerCounters};
use crate::direct::BurstSizes;
use crate::latency::{Latencies, Series};
use guira_commands::{BY_CLASS, CommandCount, CommandCounters};
use guira_serving::Host;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Stopwatch;
use guira_sync::histogram::Histogram;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::{LossMeter, Losses};
use std::sync::Arc;
use std::time::Duration;

/// The statistics of one worker, which is their only writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerStatistics {
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) commands: Arc<CommandCounters>,
    /// The number of MICA's datagrams in each burst.
    pub(crate) bursts: Arc<BurstSizes>,
    pub(crate) latencies: Arc<Latencies>,
}

#[derive(Debug)]
pub(crate) struct Statistics {
    started: Stopwatch,
    /// Each worker's, by its number.
    workers: Vec<WorkerStatistics>,
    server: Arc<ServerCounters>,
    host: Arc<Host>,
    background: Arc<BackgroundTasks>,
    /// Count datagrams that were lost before a worker received them.
    loss_meters: Vec<Arc<dyn LossMeter>>,
    /// LOCK: since. The counters when they were last reset. Taken before the engine's.
    since: Mutex<CounterValues>,
}

impl Statistics {
    pub(crate) fn new(
        workers: usize,
        host: Arc<Host>,
        server: Arc<ServerCounters>,
        background: Arc<BackgroundTasks>,
        loss_meters: Vec<Arc<dyn LossMeter>>,
    ) -> Self {
        Statistics {
            started: Stopwatch::start(),
            workers: (0..workers).map(|_| WorkerStatistics::default()).collect(),
            server,
            host,
            background,
            loss_meters,
            since: Mutex::default(),
        }
    }

    /// The time since the start of the server.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn workers(&self) -> &[WorkerStatistics] {
        &self.workers
    }

    pub(crate) fn server(&self) -> &ServerCounters {
        &self.server
    }

    /// The counters since the start.
    pub(crate) fn totals(&self) -> CounterValues {
        CounterValues {
            commands: CommandCount::ALL.map(|count| self.command_sum(count)),
            workers: WorkerCount::ALL.map(|count| self.worker_sum(count)),
            server: ServerCount::ALL.map(|count| self.server.get(count)),
            total_connections: self.host.connections.total.load(Ordering::Relaxed),
            rejected_connections: self.host.connections.rejected.load(Ordering::Relaxed),
        }
    }

    /// The counters since the last reset.
    pub(crate) fn counted(&self) -> CounterValues {
        self.totals().after(&self.since.lock())
    }

    /// Resets the counters. While the guard is held, no other reset begins.
    pub(crate) fn reset(&self) -> MutexGuard<'_, CounterValues> {
        let mut since = self.since.lock();
        *since = self.totals();
        since
    }

    fn worker_sum(&self, count: WorkerCount) -> u64 {
        let elsewhere = match count {
            WorkerCount::BytesWritten => self.background.bytes_sent(),
            WorkerCount::MicaMalformed => self.losses(|losses| losses.unreadable),
            WorkerCount::MicaDropped => self.losses(|losses| losses.overrun),
            _ => 0,
        };
        let sum = match count.traffic() {
            Some(traffic) => self.host.traffic_sum(traffic),
            None => self.workers.iter().map(|worker| worker.counters.get(count)).sum(),
        };
        sum + elsewhere
    }

    /// Adds to a count of the first worker. To be called before the workers start: their counters have one writer each.
    pub(crate) fn restore_worker(&self, count: WorkerCount, amount: u64) {
        match (count.traffic(), self.workers.first()) {
            (Some(traffic), _) => self.host.traffic(0).add(traffic, amount),
            (None, Some(worker)) => worker.counters.add(count, amount),
            (None, None) => {}
        }
    }

    /// As [`Statistics::restore_worker`], for a count of commands.
    pub(crate) fn restore_command(&self, count: CommandCount, amount: u64) {
        if let Some(worker) = self.workers.first() {
            worker.commands.add(count, amount);
        }
    }

    pub(crate) fn restore_connections(&self, amount: u64) {
        self.host.connections.total.fetch_add(amount, Ordering::Relaxed);
    }

    fn losses(&self, which: impl Fn(Losses) -> u64) -> u64 {
        self.loss_meters.iter().map(|meter| which(meter.losses())).sum()
    }

    pub(crate) fn command_sum(&self, count: CommandCount) -> u64 {
        self.workers.iter().map(|worker| worker.commands.get(count)).sum()
    }

    /// An estimate of one of `BY_CLASS` for a slab class.
    pub(crate) fn class_sum(&self, class: u32, count: CommandCount) -> u64 {
        let Some(index) = BY_CLASS.iter().position(|other| *other == count) else { return 0 };
        let class = u8::try_from(class).unwrap_or(0);
        self.workers.iter().map(|worker| worker.commands.classes.get(class, index)).sum()
    }

    /// An estimate of the stores in a slab class without a cas unique.
    pub(crate) fn plain_sets(&self, class: u32) -> u64 {
        let class = u8::try_from(class).unwrap_or(0);
        self.workers.iter().map(|worker| worker.commands.classes.plain_sets(class)).sum()
    }

    /// The sum of all workers.
    pub(crate) fn histogram(&self, series: Series) -> Histogram {
        Histogram::sum(self.workers.iter().map(|worker| worker.latencies.of(series)))
    }

    /// The number of rounds of each worker.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = u64> {
        self.workers.iter().map(|worker| worker.latencies.rounds())
    }
}
