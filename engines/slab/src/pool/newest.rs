//! The long values that were stored last, and their pages.
//!
//! A hand that goes around the chunks as they lie in memory, or an order that tries new items for a short while, comes by a long value a few stores after it was
//! stored: with thirty of them in a cache each eviction frees chunks just before the hand. So new ones are spared.
//!
//! A long value lies in several pages, and goes when one of them leaves its class. A page of short items seldom holds the newest one; with thirty long values in a
//! cache, each tenth page taken would cost the newest.

use guira_memory::Offset;
use guira_memory::slab::PageId;
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many values are spared when the hand comes by.
const SPARED: usize = 64;

/// The pages of how many values are remembered: of the largest by default, they are a few MiB.
const REMEMBERED: usize = 4;
/// Of so many pages of each; the end of a value that has more is not remembered. One of 1 MiB, the longest by default, has 34 parts.
const PAGES: usize = 64;

/// All loads and stores are Relaxed: of a value that is only half remembered a page may leave, as it might have before.
#[derive(Debug, Default)]
pub(crate) struct NewestLong {
    values: [Value; REMEMBERED],
    heads: Heads,
    /// How many places of `heads`, and of `values`, were taken.
    taken: AtomicU64,
    stored: AtomicU64,
    /// When the last was stored.
    last: AtomicU32,
}

#[derive(Debug)]
struct Heads([Head; SPARED]);

#[derive(Debug)]
struct Head {
    at: AtomicU64,
    /// When it was stored.
    tick: AtomicU32,
}

impl Default for Heads {
    fn default() -> Self {
        let none = || Head { at: AtomicU64::new(0), tick: AtomicU32::new(0) };
        Heads(std::array::from_fn(|_| none()))
    }
}

impl Heads {
    fn find(&self, at: Offset) -> Option<&Head> {
        self.0.iter().find(|head| head.at.load(Ordering::Relaxed) == at.bytes() as u64)
    }
}

#[derive(Debug)]
struct Value {
    head: AtomicU64,
    /// When it was stored.
    tick: AtomicU32,
    /// Numbers of its pages, and one more; 0: no page.
    pages: [AtomicU32; PAGES],
}

impl Default for Value {
    fn default() -> Self {
        Value {
            head: AtomicU64::new(0),
            tick: AtomicU32::new(0),
            pages: [const { AtomicU32::new(0) }; PAGES],
        }
    }
}

impl NewestLong {
    /// A value was stored at this tick that begins at `head` and has parts in these pages, in place of the one at `replaced`.
    pub(crate) fn stored(
        &self,
        (head, tick): (Offset, u32),
        replaced: Option<Offset>,
        pages: impl Iterator<Item = PageId>,
    ) {
        self.last.store(tick, Ordering::Relaxed);
        let known = replaced.and_then(|replaced| self.heads.find(replaced));
        let place = known.or_else(|| self.heads.find(head)).unwrap_or_else(|| {
            let number = self.taken.fetch_add(1, Ordering::Relaxed);
            &self.heads.0[number as usize % SPARED]
        });
        place.at.store(head.bytes() as u64, Ordering::Relaxed);
        place.tick.store(tick, Ordering::Relaxed);
        let same = replaced.and_then(|replaced| {
            self.values.iter().find(|value| value.head.load(Ordering::Relaxed) == replaced.bytes() as u64)
        });
        let value = same.unwrap_or_else(|| {
            let number = self.stored.fetch_add(1, Ordering::Relaxed);
            &self.values[number as usize % REMEMBERED]
        });
        value.head.store(head.bytes() as u64, Ordering::Relaxed);
        value.tick.store(tick, Ordering::Relaxed);
        let pages = pages.map(|page| page.0 + 1).chain(std::iter::repeat(0));
        value.pages.iter().zip(pages).for_each(|(place, page)| place.store(page, Ordering::Relaxed));
    }

    /// Whether one was stored at all, and the last is new by its tick.
    pub(crate) fn has_new(&self, is_new: impl Fn(u32) -> bool) -> bool {
        self.stored.load(Ordering::Relaxed) > 0 && is_new(self.last.load(Ordering::Relaxed))
    }

    /// The value that began at `from` begins at `to` now.
    pub(crate) fn moved(&self, from: Offset, to: Offset) {
        let heads =
            self.values.iter().map(|value| &value.head).chain(self.heads.find(from).map(|head| &head.at));
        for head in heads.filter(|head| head.load(Ordering::Relaxed) == from.bytes() as u64) {
            head.store(to.bytes() as u64, Ordering::Relaxed);
        }
    }

    /// Whether the value that begins at `at` is one of the last, and `is_new` by its tick. Another that began there before may be known too.
    pub(crate) fn is_new(&self, at: Offset, is_new: impl Fn(u32) -> bool) -> bool {
        let mut known =
            self.heads.0.iter().filter(|head| head.at.load(Ordering::Relaxed) == at.bytes() as u64);
        known.any(|head| is_new(head.tick.load(Ordering::Relaxed)))
    }

    /// The pages of those whose ticks `is_new` says are new. Values of which parts lie there may be gone.
    pub(crate) fn pages(&self, is_new: impl Fn(u32) -> bool) -> Vec<PageId> {
        let values = self.values.iter().filter(|value| is_new(value.tick.load(Ordering::Relaxed)));
        let places = values.flat_map(|value| &value.pages);
        let known = places.filter_map(|page| page.load(Ordering::Relaxed).checked_sub(1));
        known.map(PageId).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(newest: &NewestLong) -> Vec<u32> {
        let mut pages: Vec<u32> = newest.pages(|tick| tick > 2).into_iter().map(|page| page.0).collect();
        pages.sort_unstable();
        pages
    }

    #[test]
    fn a_value_is_new_where_it_lies_until_much_was_stored_since() {
        let newest = NewestLong::default();
        let place = |number: u32| Offset::from_bytes(64 * u64::from(number));
        let is_new = |number: u32| newest.is_new(place(number), |tick| tick > 2);
        assert!(!newest.has_new(|_| true));
        let store = |head: u32, tick: u32, replaced: Option<u32>| {
            newest.stored((place(head), tick), replaced.map(place), std::iter::empty());
        };
        store(10, 2, None);
        assert!(!newest.has_new(|tick| tick > 2) && !is_new(10));
        store(11, 3, None);
        assert!(newest.has_new(|tick| tick > 2) && is_new(11) && !is_new(12));
        newest.moved(place(11), place(12));
        assert!(!is_new(11) && is_new(12));
        // In a chunk where an older one began.
        store(10, 4, Some(12));
        assert!(is_new(10) && !is_new(12));
        (0..SPARED as u32).for_each(|number| store(100 + number, 5, None));
        assert!(!is_new(10) && is_new(100 + SPARED as u32 - 1));
    }

    #[test]
    fn the_pages_of_the_last_few_are_remembered() {
        let newest = NewestLong::default();
        let store = |number: u32, replaced: Option<u32>| {
            let place = |number: u32| Offset::from_bytes(64 * u64::from(number));
            let pages = (0..number).map(|page| PageId(10 * number + page));
            newest.stored((place(number), number), replaced.map(place), pages);
        };
        assert_eq!(pages(&newest), []);
        (1..=5).for_each(|number| store(number, None));
        assert_eq!(pages(&newest), [30, 31, 32, 40, 41, 42, 43, 50, 51, 52, 53, 54]);
        // A value that takes another one's place is none more.
        store(6, Some(5));
        store(7, Some(6));
        assert_eq!(pages(&newest), [30, 31, 32, 40, 41, 42, 43, 70, 71, 72, 73, 74, 75, 76]);
        store(100, Some(9));
        assert_eq!(pages(&newest).len(), 3 + 4 + 7 + PAGES);
    }
}
