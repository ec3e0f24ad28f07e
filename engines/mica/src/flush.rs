//! Flushes. A log keeps items in the order in which they were stored, so one offset says what a flush removes from a partition: everything behind it. A session
//! that works on a partition first checks for a flush that has not taken effect there yet, and if there was one notes the tail. Nothing was stored there
//! since: so the result is the same as if it had taken effect at once.

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;

#[derive(Debug)]
pub(crate) struct Flushes {
    /// How many flushes there were, and the second at which the next is due.
    word: AtomicU64,
}

const NEVER: u64 = u32::MAX as u64;

impl Default for Flushes {
    fn default() -> Self {
        Flushes { word: AtomicU64::new(NEVER) }
    }
}

impl Flushes {
    /// How many flushes there were. `None` if one has fallen due that is not counted yet.
    #[inline(always)]
    pub(crate) fn count_at(&self, now: Seconds) -> Option<u64> {
        // Relaxed: a flush is ordered with what follows it by the reply to the client that asked for it.
        let word = self.word.load(Ordering::Relaxed);
        (u64::from(now.0) < word & NEVER).then_some(word >> 32)
    }

    /// The same. Counts one that has fallen due.
    pub(crate) fn settle(&self, now: Seconds) -> u64 {
        loop {
            if let Some(count) = self.count_at(now) {
                return count;
            }
            let word = self.word.load(Ordering::Relaxed);
            if u64::from(now.0) >= word & NEVER {
                let next = (word >> 32).wrapping_add(1) << 32 | NEVER;
                // If it fails another session has counted it, or there was another flush.
                let _ = self.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Flushes everything that is stored now, at `at`.
    pub(crate) fn schedule(&self, now: Seconds, at: Seconds) {
        let scheduled = |word: u64| {
            // A flush that has fallen due uncounted is counted first, and one that is due now at once: another would replace it.
            let due_now = u64::from(u64::from(now.0) >= word & NEVER) + u64::from(at <= now);
            let count = (word >> 32).wrapping_add(due_now);
            let due = if at <= now { NEVER } else { u64::from(at.0.min(u32::MAX - 1)) };
            Some(count << 32 | due)
        };
        // Relaxed: as above.
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, scheduled);
    }

    pub(crate) fn saved(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    pub(crate) fn restore(&self, saved: u64) {
        self.word.store(saved, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_counted_when_they_fall_due() {
        let flushes = Flushes::default();
        assert_eq!(flushes.count_at(Seconds(5)), Some(0));
        flushes.schedule(Seconds(5), Seconds(0));
        assert_eq!(flushes.count_at(Seconds(5)), Some(1));
        flushes.schedule(Seconds(5), Seconds(9));
        assert_eq!((flushes.count_at(Seconds(8)), flushes.count_at(Seconds(9))), (Some(1), None));
        flushes.schedule(Seconds(20), Seconds(30));
        assert_eq!((flushes.settle(Seconds(20)), flushes.settle(Seconds(30))), (2, 3));
    }

    #[test]
    fn a_flush_at_once_is_counted_while_others_schedule_theirs() {
        let flushes = Flushes::default();
        let is_done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while is_done.load(Ordering::Relaxed) == 0 {
                    flushes.schedule(Seconds(5), Seconds(100));
                }
            });
            for _ in 0..200_000 {
                let before = flushes.settle(Seconds(5));
                flushes.schedule(Seconds(5), Seconds(0));
                let after = flushes.settle(Seconds(5));
                if after == before {
                    is_done.store(1, Ordering::Relaxed);
                    panic!("a flush was lost after {before}");
                }
            }
            is_done.store(1, Ordering::Relaxed);
        });
    }
}
