//! Counters that are differences of other counters.
//!
//! The other counters are read one after the other while they grow, so a difference may come out a
//! little smaller than before. A collector would take a smaller counter for a restart, and count
//! its whole value again. So the last value is shown until the difference exceeds it.

use guira_sync::lock::Mutex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Differing {
    /// Items to store without a cas unique.
    pub(super) sets: u64,
    /// Items evicted to make room in memory.
    pub(super) evictions: u64,
}

/// The values shown last.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// LOCK: shown. Leaf. The number of resets of the counters, and the largest values shown since
    /// then.
    shown: Mutex<(u64, Differing)>,
}

impl Differences {
    /// The number of resets. To be read before the counters.
    pub(super) fn resets(&self) -> u64 {
        self.shown.lock().0
    }

    /// The values to show for `now`, which was read after this many resets.
    pub(super) fn show(&self, resets: u64, now: Differing) -> Differing {
        let mut shown = self.shown.lock();
        if shown.0 != resets {
            return now;
        }
        shown.1 =
            Differing { sets: shown.1.sets.max(now.sets), evictions: shown.1.evictions.max(now.evictions) };
        shown.1
    }

    pub(super) fn reset(&self) {
        let mut shown = self.shown.lock();
        *shown = (shown.0 + 1, Differing::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_becomes_less_by_a_reset_only() {
        let differences = Differences::default();
        let show = |resets, sets, evictions| {
            let shown = differences.show(resets, Differing { sets, evictions });
            (shown.sets, shown.evictions)
        };
        assert_eq!(show(0, 10, 5), (10, 5));
        assert_eq!(show(0, 9, 6), (10, 6));
        let before = differences.resets();
        differences.reset();
        assert_eq!(show(before, 11, 4), (11, 4), "they were read before, and count no more");
        assert_eq!(show(differences.resets(), 1, 0), (1, 0));
    }
}
