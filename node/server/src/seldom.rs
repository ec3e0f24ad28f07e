//! What clients can bring about again and again, and the log tells now and then.

use guira_sync::atomic::{AtomicU32, Ordering};
use guira_sync::clock::Seconds;

/// Says when something may be told again.
#[derive(Debug)]
pub(crate) struct Seldom {
    /// Seconds between two times.
    every: u32,
    /// Relaxed: nothing follows from it but a line more or less.
    next: AtomicU32,
}

impl Seldom {
    /// At most once in so many seconds.
    pub(crate) const fn every(seconds: u32) -> Self {
        Seldom { every: seconds, next: AtomicU32::new(0) }
    }

    /// Only once.
    pub(crate) const fn once() -> Self {
        Self::every(u32::MAX)
    }

    /// Whether it may be told now; then it may not for a while.
    pub(crate) fn is_due(&self, now: Seconds) -> bool {
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
        let seldom = Seldom::every(10);
        let due: Vec<u32> = (0..40).filter(|second| seldom.is_due(Seconds(*second))).collect();
        assert_eq!(due, [0, 10, 20, 30]);
        let once = Seldom::once();
        assert_eq!((0..100).filter(|second| once.is_due(Seconds(*second))).count(), 1);
    }
}
