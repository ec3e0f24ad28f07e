//! Commands about the server rather than its items: stats, flush_all, version, verbosity, and the
//! commands of [`verbs`].

mod advice;
mod classes;
mod derived;
mod differences;
mod general;
mod latencies;
mod lines;
mod metrics;
mod naming;
mod region;
mod settings;
mod stats;
mod status;
mod text;
mod top_keys;
mod verbs;

pub use derived::DERIVED;
pub use metrics::metric_tables;
pub(crate) use settings::Settings;
pub(crate) use verbs::Answer;

use crate::VERSION;
use crate::auto::PolicyController;
use crate::background::{BackgroundTask, BackgroundTasks, DetachedConnection, Lister};
use crate::options::Options;
use crate::parts::Parts;
use crate::statistics::Statistics;
use crate::watch::{Observers, TooMany};
use differences::Differences;
use guira_contract::{Control, Engine, FlushBusy};
use guira_protocol::AdminVerb;
use guira_serving::Host;
use guira_sync::clock::{CoarseClock, Seconds};
use region::RegionMonitor;
use std::sync::Arc;
use verbs::Verbs;

/// The commands of clients and operators about the server: one for all workers, whatever the engine.
#[derive(Debug)]
pub(crate) struct Admin {
    control: Arc<dyn Control>,
    host: Arc<Host>,
    clock: CoarseClock,
    options: Arc<Options>,
    statistics: Arc<Statistics>,
    observers: Observers,
    auto: Arc<PolicyController>,
    settings: Settings,
    verbs: Verbs,
    tasks: Tasks,
    region: RegionMonitor,
    differences: Differences,
}

/// Starts background tasks.
#[derive(Debug)]
struct Tasks {
    lister: Lister,
    running: Arc<BackgroundTasks>,
}

impl Admin {
    pub(crate) fn new<E: Engine>(engine: &E, parts: &Parts, settings: Settings) -> Self {
        let control: Arc<dyn Control> = Arc::new(engine.clone());
        let auto = Arc::new(PolicyController::new(control.clone(), parts));
        let Parts { host, clock, options, statistics, background, observers, .. } = parts.clone();
        let lister = Lister::new(engine.clone(), host.clone(), clock.clone(), background.clone());
        Admin {
            verbs: Verbs::new(&control, parts, settings.choice.clone(), auto.clone()),
            region: RegionMonitor::new(control.clone(), options.region.clone()),
            tasks: Tasks { lister, running: background },
            control,
            host,
            clock,
            options,
            statistics,
            observers,
            auto,
            settings,
            differences: Differences::default(),
        }
    }

    /// Carries out a command of [`verbs`].
    pub(crate) fn carry_out(&self, verb: AdminVerb, rest: &[u8]) -> Answer {
        self.verbs.run(verb, rest)
    }

    /// Makes all items that are stored now disappear at `at`.
    pub(crate) fn flush(&self, now: Seconds, at: Seconds) {
        self.control.flush(now, at);
        self.auto.flush(now, at);
    }

    /// Makes all items that are stored now, and whose keys begin with one of `prefixes`, disappear. The sample of requests
    /// keeps them: it describes the habits of clients, which will request these keys again.
    ///
    /// # Errors
    /// If earlier ones are still being removed.
    pub(crate) fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
        self.control.flush_prefixes(now, prefixes)
    }

    /// Runs a task for a connection, which returns to its worker afterwards.
    ///
    /// # Errors
    /// The connection, with the reply that has the reason.
    pub(crate) fn run(
        &self,
        task: BackgroundTask,
        detached: DetachedConnection,
    ) -> Result<(), (DetachedConnection, &'static str)> {
        match task {
            BackgroundTask::List(listing) => self.tasks.lister.list(listing, detached),
            BackgroundTask::Watch(kinds) => {
                let refused = self.observers.hub.watch(detached, kinds, (&self.host, &self.tasks.running));
                refused
                    .map_err(|(detached, TooMany)| (detached, "WATCHER_TOO_MANY log watcher limit reached"))
            }
        }
    }

    /// Learns from requests, on this thread, until the server stops.
    pub(crate) fn learn(&self) {
        self.auto.run(&self.host, |now| self.each_second(now));
    }

    /// Reports the state at the start to the advisor.
    pub(crate) fn begin_to_learn(&self) {
        self.auto.begin();
    }

    /// The number of items, including expired ones that were not found yet.
    pub(crate) fn item_count(&self) -> u64 {
        self.control.stats().items
    }

    fn each_second(&self, now: Seconds) {
        if let Some(top_keys) = &self.observers.top_keys {
            top_keys.turn(now);
        }
        self.region.check(now);
        self.verbs.memory.log_shrinking();
    }

    /// Checks whether more memory is in use than the limit allows. If so, returns how much, and the limit, in MiB.
    pub(crate) fn check_excess(&self) -> Option<[u64; 2]> {
        self.verbs.memory.check_excess()
    }

    pub(crate) fn set_verbosity(&self, level: u32) {
        self.settings.set_verbosity(level);
    }

    /// The reply to `version`.
    pub(crate) fn version_line(&self) -> String {
        format!("VERSION {VERSION}")
    }
}
