//! State shared by all threads of a checker.

use crate::config::{ClusterConfig, Config};
use crate::counters::{ClusterCounts, Counts};
use crate::error::StartError;
use crate::judge::Judge;
use crate::report::Report;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::stop::Stop;
use std::sync::Arc;

/// A cluster, as reports name it.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) counts: Arc<ClusterCounts>,
}

/// The use of standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Keys,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// LOCK: checker_judge. Leaf. No thread holds it while it waits.
    judge: Mutex<Judge>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) clusters: Vec<Named>,
    pub(crate) regions: Vec<String>,
    pub(crate) stop: Stop,
    pub(crate) has_database: bool,
    /// Runs since the start, at the time `started`.
    pub(crate) clock: Stopwatch,
    pub(crate) started: u64,
    /// Whether standard input has ended. Relaxed: the flag orders nothing.
    is_read: AtomicBool,
}

impl Shared {
    pub(crate) fn new(config: &Config, reads: Reads) -> Result<Self, StartError> {
        let named = |cluster: &ClusterConfig| Named {
            name: cluster.name.clone(),
            region: cluster.region.clone(),
            counts: Arc::default(),
        };
        Ok(Shared {
            judge: Mutex::new(Judge::new(config.settings().map_err(StartError::Unsuitable)?)),
            counts: Arc::default(),
            clusters: config.clusters.iter().map(named).collect(),
            regions: config.regions().into_iter().map(|(name, _)| name).collect(),
            stop: Stop::default(),
            has_database: config.database()?.is_some(),
            clock: Stopwatch::start(),
            started: wall_clock(),
            is_read: AtomicBool::new(reads == Reads::Nothing),
        })
    }

    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock()
    }

    /// Takes a hint: a key was changed.
    pub(crate) fn hint(&self, key: &[u8]) {
        let is_first = self.judge().hint(key, self.clock.elapsed());
        if is_first {
            // Operator: Add a `[[check]]` for such keys, or do not send them to the checker.
            tracing::warn!("key {} matches no [[check]]; ignored", key.escape_ascii());
        }
    }

    pub(crate) fn report(&self) -> Report {
        self.judge().report()
    }

    /// Whether standard input has no more keys.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    pub(crate) fn set_read(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }
}
