//! How many connections there are, and how many there may be.

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What becomes of a connection beyond the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtLimit {
    /// It gets an error and is closed.
    #[default]
    Refused,
    /// It is accepted once another has gone.
    Waits,
    /// It is accepted, and the one that has asked for nothing for longest is closed. Only where there is one worker, which sees all of them.
    Replaces,
}

/// Counts of connections. The orderings are Relaxed, for these are statistics, but of `current` and `waiting`: by these a connection that
/// goes and an acceptor that is about to rest see each other.
#[derive(Debug)]
pub struct Connections {
    /// May change while connections come and go.
    max: AtomicU64,
    pub beyond: AtLimit,
    pub current: AtomicU64,
    pub total: AtomicU64,
    pub rejected: AtomicU64,
    pub full: AtomicU64,
    /// Nothing is accepted until a connection is gone.
    pub waiting: AtomicBool,
    /// For how long nothing was accepted, in microseconds.
    pub waited_us: AtomicU64,
}

impl Connections {
    pub fn new(max: u64, beyond: AtLimit) -> Self {
        Connections {
            max: AtomicU64::new(max),
            beyond,
            current: AtomicU64::new(0),
            total: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            full: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            waited_us: AtomicU64::new(0),
        }
    }

    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes how many there may be. Those that are there stay.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// How many of `most` connections may be accepted at once; `None` if the next one takes the place of another.
    pub(crate) fn room(&self, most: usize) -> Option<usize> {
        if self.beyond != AtLimit::Replaces {
            return Some(most);
        }
        let left = self.max().saturating_sub(self.current.load(Ordering::Relaxed));
        if left == 0 {
            self.full.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(most.min(left as usize))
    }

    /// Whether there are as many connections as there may be, and others have to wait.
    pub(crate) fn is_full(&self) -> bool {
        let full = || self.current.load(Ordering::SeqCst) >= self.max();
        if self.beyond != AtLimit::Waits || !full() {
            return false;
        }
        // SeqCst, with the loads and stores in [`Connections::gone`]: either that sees that the acceptor waits, or it is
        // seen here that a connection is gone.
        self.waiting.store(true, Ordering::SeqCst);
        if full() {
            self.full.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.waiting.store(false, Ordering::SeqCst);
        false
    }

    /// Counts a connection as closed. True if the acceptor waits for that, and has to be woken.
    #[must_use]
    pub fn gone(&self) -> bool {
        self.current.fetch_sub(1, Ordering::SeqCst);
        let waits = self.waiting.load(Ordering::SeqCst);
        if waits {
            self.waiting.store(false, Ordering::SeqCst);
        }
        waits
    }
}
