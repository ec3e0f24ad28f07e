//! Flushes. A log keeps items in the order in which they were stored, so one offset says what a flush of everything removes from a partition: everything behind
//! it. A session that works on a partition first checks for a flush that has not taken effect there yet, and if there was one notes the tail. Nothing was stored
//! there since: so the result is the same as if it had taken effect at once.
//!
//! A flush of prefixes begins a new generation, as in [`guira_items::Flushes`]: items carry the generation in which they were stored, and are dead if their keys
//! begin with a prefix that was flushed since. The crawler of a partition removes those and stamps the others; then the partition is *clean*, and its items need
//! not be looked at so closely.

use crate::entry::Stamped;
use guira_contract::FlushBusy;
use guira_items::{GENERATIONS, Prefixes, SavedPrefixes};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;

#[derive(Debug)]
pub(crate) struct Flushes {
    /// How many flushes of everything there were, and the second at which the next is due.
    word: AtomicU64,
    /// How many flushes of prefixes there were. The generation of new items is its remainder.
    of_prefixes: AtomicU64,
    prefixes: Prefixes,
    /// LOCK: flush. Taken by who flushes prefixes, and no other lock while it is held.
    flushing: Mutex<()>,
}

/// The state that a restart needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedFlushes {
    pub(crate) word: u64,
    pub(crate) of_prefixes: u64,
    pub(crate) prefixes: SavedPrefixes,
}

const NEVER: u64 = u32::MAX as u64;

/// The generation of items that are stored after this many flushes of prefixes.
#[inline(always)]
pub(crate) fn generation_after(flushes: u64) -> u32 {
    (flushes % u64::from(GENERATIONS)) as u32
}

impl Default for Flushes {
    fn default() -> Self {
        Flushes {
            word: AtomicU64::new(NEVER),
            of_prefixes: AtomicU64::new(0),
            prefixes: Prefixes::default(),
            flushing: Mutex::new(()),
        }
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

    /// How many flushes of prefixes there were.
    #[inline(always)]
    pub(crate) fn of_prefixes(&self) -> u64 {
        // Acquire: pairs with the Release in `flush_prefixes`: who sees the number sees the prefixes.
        self.of_prefixes.load(Ordering::Acquire)
    }

    /// Flushes what is stored now under keys that begin with one of `prefixes`. `clean_since` tells the smallest of all partitions; asked under the lock, since one of
    /// before would be taken for a later one when generations have come round.
    ///
    /// # Errors
    /// If crawlers have not finished with earlier flushes.
    pub(crate) fn flush_prefixes(
        &self,
        prefixes: &[&[u8]],
        clean_since: impl FnOnce() -> u64,
    ) -> Result<(), FlushBusy> {
        let _flushing = self.flushing.lock();
        let (before, clean_since) = (self.of_prefixes(), clean_since());
        // Acquire fence: pairs with the Release in `Partition::cleaned`. A reader that finds the slot of a prefix free, which is stored
        // below, sees that the items which it killed have gone.
        fence(Ordering::Acquire);
        debug_assert!(before - clean_since < u64::from(GENERATIONS), "no more are begun");
        self.prefixes.forget_before(generation_after(clean_since), generation_after(before));
        let is_generation_left = before + 1 - clean_since < u64::from(GENERATIONS);
        if !is_generation_left || prefixes.len() > self.prefixes.room() {
            return Err(FlushBusy);
        }
        for prefix in prefixes {
            let has_room = self.prefixes.add(generation_after(before + 1), prefix);
            debug_assert!(has_room, "room was seen under the same lock");
        }
        // Release: pairs with the Acquire in `of_prefixes`.
        self.of_prefixes.store(before + 1, Ordering::Release);
        Ok(())
    }

    /// Whether `entry` was flushed with a prefix, asked by a session that holds its partition. `flushes` is how many flushes of prefixes there were when it began.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_killed(&self, flushes: u64, entry: Stamped<'_>) -> bool {
        let (generation, current) = (entry.generation(), generation_after(flushes));
        generation != current && self.prefixes.kill(generation, current, entry.key())
    }

    /// The same, asked by a session that does not hold the partition.
    #[cold]
    #[inline(never)]
    pub(crate) fn kills(&self, entry: Stamped<'_>) -> bool {
        let (mut generation, key) = (entry.generation(), entry.key());
        loop {
            // Acquire fence: pairs with the Release of whoever stamped the item: the flushes are seen that were seen then.
            fence(Ordering::Acquire);
            let current = generation_after(self.of_prefixes());
            if generation == current || !self.prefixes.kill(generation, current, key) {
                return false;
            }
            // An item that was stamped anew meanwhile was found alive.
            let stamped = entry.generation_now();
            if stamped == generation {
                return true;
            }
            generation = stamped;
        }
    }

    pub(crate) fn saved(&self) -> SavedFlushes {
        SavedFlushes {
            word: self.word.load(Ordering::Relaxed),
            of_prefixes: self.of_prefixes(),
            prefixes: self.prefixes.saved(),
        }
    }

    pub(crate) fn restore(&self, saved: &SavedFlushes) {
        self.word.store(saved.word, Ordering::Relaxed);
        saved.prefixes.restore(&self.prefixes);
        self.of_prefixes.store(saved.of_prefixes, Ordering::Release);
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
        guira_sync::thread::scope(|scope| {
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
