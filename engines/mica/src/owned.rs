//! Numbers that only the holder of a partition changes.

use guira_sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Owned(AtomicU64);

impl Owned {
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: the holder reads what it has written, or what the partition's lock has published; statistics may read old numbers.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets it and returns the old value.
    pub(crate) fn replace(&self, value: u64) -> u64 {
        let before = self.get();
        self.set(value);
        before
    }

    pub(crate) fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }
}
