//! How far deletes have come.

use guira_sync::atomic::{AtomicU64, Ordering};

/// The place up to which this process has deleted rows, without an invalidator; and how often deletes have reached the end of the log.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Relaxed: the number orders nothing.
    place: AtomicU64,
    /// Relaxed: the number orders nothing.
    rounds: AtomicU64,
}

impl Followed {
    pub(crate) fn has_reached(&self, place: u64) -> bool {
        self.place.load(Ordering::Relaxed) >= place
    }

    pub(crate) fn reach(&self, place: u64) {
        self.place.store(place, Ordering::Relaxed);
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Counts that deletes have reached the end of the log.
    pub(crate) fn end_round(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }
}
