//! The long values that were stored last.
//!
//! A long value lies in several pages, and goes when one of them leaves its class. A short item that was stored a moment ago is moved or, in a page of
//! thousands, has bad luck seldom; of thirty long values that fill a cache the newest would be lost with each tenth page.

use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering};

/// How many are remembered: of the largest by default, they are a few MiB.
const REMEMBERED: usize = 4;

/// Where they begin. What was removed since may still be here, and another item may lie there.
#[derive(Debug, Default)]
pub(crate) struct NewestLong {
    places: [AtomicU64; REMEMBERED],
    stored: AtomicU64,
}

impl NewestLong {
    /// A long value was stored at `at`.
    pub(crate) fn stored(&self, at: Offset) {
        // Relaxed: whoever sees it late has a page leave that a moment ago it might have.
        let number = self.stored.fetch_add(1, Ordering::Relaxed);
        self.places[number as usize % REMEMBERED].store(at.bytes() as u64, Ordering::Relaxed);
    }

    /// Where they begin.
    pub(crate) fn places(&self) -> impl Iterator<Item = Offset> {
        let loaded = self.places.iter().map(|place| place.load(Ordering::Relaxed));
        loaded.filter(|place| *place != 0).map(Offset::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_are_remembered() {
        let newest = NewestLong::default();
        assert_eq!(newest.places().count(), 0);
        (1..=6).for_each(|number| newest.stored(Offset::from_bytes(number * 64)));
        let mut places: Vec<usize> = newest.places().map(Offset::bytes).collect();
        places.sort_unstable();
        assert_eq!(places, [3 * 64, 4 * 64, 5 * 64, 6 * 64]);
    }
}
