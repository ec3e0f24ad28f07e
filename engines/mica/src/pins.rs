//! Long values of a partition that are being sent. The log goes around them.

use guira_memory::Offset;
use guira_sync::atomic::{AtomicUsize, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use std::collections::HashMap;

/// Where pinned entries begin. These are places, not offsets in the log: an entry that was pinned a round ago is still needed, and its place has another
/// offset when the log comes by again.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How many places there are: without any the lock is not taken.
    count: AtomicUsize,
    /// LOCK: pins. Leaf. The partition's holder adds to it, every session takes from it. Each place with the number of its pins.
    places: Mutex<HashMap<Offset, u32>>,
}

impl Pins {
    fn places(&self) -> MutexGuard<'_, HashMap<Offset, u32>> {
        self.places.lock()
    }

    /// Pins the entry at `place`. The caller holds the partition and has found it there.
    pub(crate) fn add(&self, place: Offset) {
        let mut places = self.places();
        *places.entry(place).or_default() += 1;
        // Relaxed: the next holder of the partition sees it, since this session holds it now.
        self.count.store(places.len(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, place: Offset) {
        let mut places = self.places();
        if let Some(pins) = places.get_mut(&place) {
            *pins -= 1;
            if *pins == 0 {
                places.remove(&place);
            }
        }
        // Release: pairs with the Acquire in `is_empty`: all reads of the value lie before its room is reused.
        self.count.store(places.len(), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether the entry at `place` is pinned. Takes the lock: callers look at [`Self::is_empty`] first.
    pub(crate) fn has(&self, place: Offset) -> bool {
        self.places().contains_key(&place)
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_pinned_until_its_last_pin_ends() {
        let pins = Pins::default();
        let [one, other, none] = [64, 128, 192].map(Offset::from_bytes);
        [one, other, one].into_iter().for_each(|place| pins.add(place));
        pins.remove(one);
        assert!(pins.has(one) && pins.has(other) && !pins.has(none));
        pins.remove(one);
        assert!(!pins.has(one) && pins.has(other) && !pins.is_empty());
        pins.remove(other);
        assert!(pins.is_empty() && !pins.has(other));
    }
}
