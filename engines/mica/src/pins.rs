//! Long values of a partition that are being sent. The log goes around them.

use guira_sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where pinned entries begin: offsets in the log, each as often as it is pinned.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How many there are: nobody takes the lock where there are none.
    count: AtomicUsize,
    /// LOCK: pins. Leaf. Added to by whoever holds the partition, taken from by anybody.
    offsets: Mutex<Vec<u64>>,
}

impl Pins {
    /// Pins the entry at `offset`. The caller holds the partition and has found it there.
    pub(crate) fn add(&self, offset: u64) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.push(offset);
        // Relaxed: whoever holds the partition next sees it, since this one holds it now.
        self.count.store(offsets.len(), Ordering::Relaxed);
    }

    /// It is no longer needed.
    pub(crate) fn remove(&self, offset: u64) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = offsets.iter().position(|pinned| *pinned == offset) {
            offsets.swap_remove(found);
        }
        // Release: pairs with the Acquire in `is_empty`: all reads of the value lie before its room is used again.
        self.count.store(offsets.len(), Ordering::Release);
    }

    /// Whether nothing is pinned.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether the entry at `offset` is pinned. `at` tells where in the log an offset lies: what was pinned a round ago is needed as well, and
    /// has another offset when the log comes by again.
    pub(crate) fn has(&self, offset: u64, at: impl Fn(u64) -> guira_memory::Offset) -> bool {
        if self.is_empty() {
            return false;
        }
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.iter().any(|pinned| at(*pinned) == at(offset))
    }
}
