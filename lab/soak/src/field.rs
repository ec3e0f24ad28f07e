//! The state that all parts of a run share: the server, the end of the run, the counts and the
//! failures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;

use crate::link::Addresses;

/// The most failures that are kept: the first ones are the most useful.
const FAILURES_MAX: usize = 20;

/// Operations on the whole server that are remembered for the message of a failure.
const REMEMBERED: usize = 30;

/// How often a pause checks whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    /// The server is going to be killed.
    Expected,
    /// It is not, and closes no connection that works.
    Wrong,
}

/// State shared by all parts of a run.
#[derive(Debug)]
pub(crate) struct Field {
    /// Whether connections of checked clients may break.
    pub(crate) losses: Losses,
    pub(crate) addresses: Addresses,
    pub(crate) pid: u32,
    length: Duration,
    clock: Stopwatch,
    stopped: AtomicBool,
    failures: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    recent: Mutex<VecDeque<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Field {
    /// A run of this length against the server at `addresses`, which begins now.
    pub(crate) fn new(addresses: Addresses, pid: u32, length: Duration, losses: Losses) -> Self {
        Field {
            losses,
            addresses,
            pid,
            length,
            clock: Stopwatch::start(),
            stopped: AtomicBool::new(false),
            failures: Mutex::default(),
            counts: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// Milliseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
    }

    /// Whether there is time left, and nothing has failed.
    pub(crate) fn goes_on(&self) -> bool {
        // Relaxed: it is a wish to stop, and orders nothing.
        self.clock.elapsed() < self.length && !self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the run before its time.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Waits, but not beyond the end of the run.
    pub(crate) fn pause(&self, time: Duration) {
        let begin = Stopwatch::start();
        while self.goes_on() && begin.elapsed() < time {
            std::thread::sleep(LOOK.min(time));
        }
    }

    /// Records a failure, which ends the run.
    pub(crate) fn fail(&self, what: impl Into<String>) {
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_MAX {
            failures.push(format!("{}ms: {}", self.now(), what.into()));
        }
        self.stop();
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        lock(&self.failures).clone()
    }

    /// Remembers something that concerns the whole server.
    pub(crate) fn remember(&self, what: impl Into<String>) {
        let mut recent = lock(&self.recent);
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(format!("{}ms {}", self.now(), what.into()));
    }

    pub(crate) fn recent(&self) -> Vec<String> {
        lock(&self.recent).iter().cloned().collect()
    }

    /// Counts of one thread, which are added to all when they are dropped.
    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters { field: self, counts: BTreeMap::new() }
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.counts).clone()
    }
}

#[derive(Debug)]
pub(crate) struct Counters<'f> {
    field: &'f Field,
    counts: BTreeMap<&'static str, u64>,
}

impl Counters<'_> {
    /// Adds 1 to a count.
    pub(crate) fn one(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Adds `times` to a count.
    pub(crate) fn add(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_insert(0) += times;
    }
}

impl Drop for Counters<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.field.counts);
        for (what, times) in &self.counts {
            *all.entry(what).or_insert(0) += times;
        }
    }
}
