//! How much memory may be committed, and how much is.

use guira_sync::atomic::{AtomicU64, Ordering};

/// A memory limit that several allocators share. An allocator takes memory from the budget before it commits it, and
/// gives it back later.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
    /// Bytes reserved by [`Budget::keep`]: [`Budget::take_unkept`] leaves them.
    kept: AtomicU64,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Budget { limit: AtomicU64::new(limit as u64), used: AtomicU64::new(0), kept: AtomicU64::new(0) }
    }

    /// Takes `bytes` if they are left.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.limit.load(Ordering::Relaxed))
    }

    /// Takes `bytes` if they are left in addition to the reserved ones.
    #[must_use]
    pub fn take_unkept(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.take_below(bytes, limit.saturating_sub(self.kept.load(Ordering::Relaxed)))
    }

    /// Reserves `bytes` for one taker, in place of an earlier reservation.
    pub fn keep(&self, bytes: usize) {
        // Sessions do this in each round: a line that other workers read is written only if it changes.
        if self.kept.load(Ordering::Relaxed) != bytes as u64 {
            self.kept.store(bytes as u64, Ordering::Relaxed);
        }
    }

    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed) as usize
    }

    fn take_below(&self, bytes: usize, limit: u64) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let after = used + bytes as u64;
                (after <= limit).then_some(after)
            })
            .is_ok()
    }

    /// Takes `bytes` even if that exceeds the limit.
    pub fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Sets the limit. If more is in use, takes fail until enough was given back.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit as u64, Ordering::Relaxed);
    }

    /// The number of bytes in use beyond the limit.
    pub fn excess(&self) -> usize {
        self.used().saturating_sub(self.limit())
    }

    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed) as usize
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    pub fn left(&self) -> usize {
        self.limit().saturating_sub(self.used())
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_budget_gives_no_more_than_it_has() {
        let budget = Budget::new(10);
        assert!(budget.take(7));
        assert!(!budget.take(4));
        assert!(budget.take(3));
        budget.give(5);
        assert_eq!((budget.used(), budget.left()), (5, 5));
        budget.keep(3);
        assert!(!budget.take_unkept(3));
        assert!(budget.take_unkept(2));
        assert!(budget.take(3));
    }

    #[test]
    fn a_limit_below_the_use_leaves_nothing_to_take() {
        let budget = Budget::new(10);
        assert!(budget.take(8));
        budget.set_limit(5);
        assert_eq!((budget.excess(), budget.left()), (3, 0));
        assert!(!budget.take(1));
        budget.give(4);
        assert_eq!((budget.excess(), budget.left()), (0, 1));
        budget.charge(2);
        assert_eq!(budget.excess(), 1);
        budget.set_limit(20);
        assert!(budget.take(14));
    }
}
