//! Which class gives memory to which.
//!
//! Time is counted in bytes stored (*ticks* of 4 KiB), so that what happens does not depend on how fast it happens. A
//! page's *stamp* says when the hand last came to it, and the *age* of a class is how long ago that was for the page
//! that its hand points at now: the time of one round. A class whose hand is slow has memory to spare. If the oldest
//! class is more than a ninth older than one that needs memory, it gives the next page before its hand; its only page, if it is four
//! times as old again. The effect is that of one hand over all of memory, which memcached's users ask for
//! and Facebook's balance of ages (Nishtala et al., section 6.2) aims at.

use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes in a tick.
const TICK_BYTES: u64 = 4096;

/// Ages are compared with this many ticks of slack, so that young caches do not swap pages to and fro: 1 MiB.
const SLACK: u32 = 256;

/// A class gives if it is older by more than one part in so many of the age of the one in need. Measured: decision 5.
const OLDER_BY: u32 = 9;

/// A class that would give its only page counts for so many times younger.
const ONLY_PAGE: u32 = 4;

/// The ages of all classes.
#[derive(Debug)]
pub(crate) struct Balance {
    stored: AtomicU64,
    classes: Vec<ClassAge>,
}

#[derive(Debug, Default)]
struct ClassAge {
    pages: AtomicU32,
    /// When the hand came to the page that it points at, the last time round.
    stamp: AtomicU32,
}

impl Balance {
    pub(crate) fn new(classes: usize) -> Self {
        Balance { stored: AtomicU64::new(0), classes: (0..classes).map(|_| ClassAge::default()).collect() }
    }

    /// The time. All orderings here are Relaxed: ages are estimates, and a stale one only delays a move.
    pub(crate) fn tick(&self) -> u32 {
        (self.stored.load(Ordering::Relaxed) / TICK_BYTES) as u32
    }

    /// Time goes on as bytes are stored.
    pub(crate) fn stored(&self, bytes: usize) {
        self.stored.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Says how a class stands: its pages, and the stamp of the page under its hand.
    pub(crate) fn note(&self, class: ClassId, pages: usize, stamp: u32) {
        let age = &self.classes[usize::from(class.0)];
        age.pages.store(pages as u32, Ordering::Relaxed);
        age.stamp.store(stamp, Ordering::Relaxed);
    }

    fn age(&self, class: &ClassAge, tick: u32) -> u32 {
        tick.wrapping_sub(class.stamp.load(Ordering::Relaxed))
    }

    /// The class whose hand is slowest, if any has pages.
    pub(crate) fn oldest(&self) -> Option<ClassId> {
        self.oldest_from(0, None)
    }

    /// The class that should give a page to `needy`, if any should. A class without pages takes from the oldest whatever its age.
    pub(crate) fn donor(&self, needy: ClassId) -> Option<ClassId> {
        let tick = self.tick();
        let own = &self.classes[usize::from(needy.0)];
        let has_pages = own.pages.load(Ordering::Relaxed) > 0;
        let own_age = self.age(own, tick);
        let threshold =
            if has_pages { own_age.saturating_add(own_age / OLDER_BY).saturating_add(SLACK) } else { 0 };
        self.oldest_from(threshold, Some(needy))
    }

    fn oldest_from(&self, threshold: u32, except: Option<ClassId>) -> Option<ClassId> {
        let tick = self.tick();
        let mut oldest: Option<(u32, ClassId)> = None;
        for (index, class) in self.classes.iter().enumerate() {
            let id = ClassId(index as u8);
            if Some(id) == except || class.pages.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let only = class.pages.load(Ordering::Relaxed) == 1;
            let age = self.age(class, tick) / if only { ONLY_PAGE } else { 1 };
            if age >= threshold && oldest.is_none_or(|(most, _)| age > most) {
                oldest = Some((age, id));
            }
        }
        oldest.map(|(_, class)| class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_class_gives_and_only_to_one_that_is_younger_by_more_than_a_little() {
        let balance = Balance::new(3);
        balance.note(ClassId(0), 10, 0);
        balance.stored(10_000 * TICK_BYTES as usize);
        balance.note(ClassId(1), 10, 6_000);
        assert_eq!(balance.donor(ClassId(1)), Some(ClassId(0)));
        assert_eq!(balance.donor(ClassId(0)), None);
        balance.note(ClassId(1), 10, 1_000);
        assert_eq!(balance.donor(ClassId(1)), None, "9,000 and a ninth, and the slack, is more than 10,000");
        assert_eq!(balance.donor(ClassId(2)), Some(ClassId(0)), "a class without pages gets one");
    }
}
