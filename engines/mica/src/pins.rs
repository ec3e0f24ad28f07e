//! Long values of a partition that are being sent. The log goes around them.

use guira_sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where pinned entries begin: offsets in the log, each as often as it is pinned.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How many there are: without any the lock is not taken.
    count: AtomicUsize,
    /// LOCK: pins. Leaf. The partition's holder adds to it, every session takes from it.
    offsets: Mutex<Vec<u64>>,
}

impl Pins {
    /// Pins the entry at `offset`. The caller holds the partition and has found it there.
    pub(crate) fn add(&self, offset: u64) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.push(offset);
        // Relaxed: the next holder of the partition sees it, since this session holds it now.
        self.count.store(offsets.len(), Ordering::Relaxed);
    }

    /// Ends a pin.
    pub(crate) fn remove(&self, offset: u64) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = offsets.iter().position(|pinned| *pinned == offset) {
            offsets.swap_remove(found);
        }
        // Release: pairs with the Acquire in `is_empty`: all reads of the value lie before its room is reused.
        self.count.store(offsets.len(), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether the entry at `offset` is pinned. `at` says where an offset lies: an entry that was pinned a round ago is still needed, and has another offset
    /// when the log comes by again.
    pub(crate) fn has(&self, offset: u64, at: impl Fn(u64) -> guira_memory::Offset) -> bool {
        if self.is_empty() {
            return false;
        }
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.iter().any(|pinned| at(*pinned) == at(offset))
    }
}
