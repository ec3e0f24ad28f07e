//! Log lines that clients can cause again and again: they are written now and then.

use guira_sync::atomic::{AtomicU32, Ordering};
use guira_sync::clock::Seconds;

/// Says when a line may be written again.
#[derive(Debug)]
pub struct RateLimited {
    /// Seconds between two lines.
    every: u32,
    /// Relaxed: nothing follows from it but a line more or less.
    next: AtomicU32,
}

impl RateLimited {
    /// At most once in `seconds`.
    pub const fn every(seconds: u32) -> Self {
        RateLimited { every: seconds, next: AtomicU32::new(0) }
    }

    /// Only once.
    pub const fn once() -> Self {
        Self::every(u32::MAX)
    }

    /// Whether a line may be written now; then none may for a while.
    pub fn is_due(&self, now: Seconds) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let after = now.0.saturating_add(self.every);
        now.0 >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_told_now_and_then_is_not_told_in_between() {
        let limited = RateLimited::every(10);
        let due: Vec<u32> = (0..40).filter(|second| limited.is_due(Seconds(*second))).collect();
        assert_eq!(due, [0, 10, 20, 30]);
        let once = RateLimited::once();
        assert_eq!((0..100).filter(|second| once.is_due(Seconds(*second))).count(), 1);
    }
}
