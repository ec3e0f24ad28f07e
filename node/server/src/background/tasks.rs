//! The background tasks that are running.

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which [`BackgroundTasks::wait`] polls.
const POLL_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    /// Tasks that hold a session of the engine. SeqCst, though nothing else is ordered by it. A server that resumes
    /// after a failed takeover continues the count.
    running: Arc<AtomicU64>,
    /// A walk was refused because another is running. Relaxed: a late reader only gives the client of that walk
    /// more time.
    walk_wanted: AtomicBool,
    /// Relaxed: a count.
    bytes_sent: AtomicU64,
}

impl BackgroundTasks {
    /// Continues a count of running tasks.
    pub(crate) fn continued(running: Arc<AtomicU64>) -> Self {
        BackgroundTasks { running, ..BackgroundTasks::default() }
    }

    /// The count of running tasks.
    pub(crate) fn count(&self) -> &Arc<AtomicU64> {
        &self.running
    }

    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until no background task holds a session of the engine, for at most `patience`. Returns whether none does.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let started = Stopwatch::start();
        while self.running.load(Ordering::SeqCst) > 0 {
            if started.elapsed() >= patience {
                return false;
            }
            guira_sync::thread::sleep(POLL_EVERY);
        }
        true
    }

    /// A walk was refused because another is running.
    pub(crate) fn want_walk(&self) {
        self.walk_wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn walk_begins(&self) {
        self.walk_wanted.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_walk_wanted(&self) -> bool {
        self.walk_wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn add_bytes_sent(&self, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }
}
