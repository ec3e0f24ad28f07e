//! Pins: long values that a connection is still sending stay where they are.
//!
//! Pins do not last and do not lie in the Region. A reader that wants to pin does so *before* it validates what it
//! found: if the item is unlinked first, validation fails and the pin is taken back; if the pin comes first, the thread that
//! frees the chunk finds it here. Both go through the lock of one shard, so one of them comes first.

pub(crate) mod guard;
pub(crate) mod pin;

use guira_memory::Offset;
use guira_sync::lock::Mutex;
use std::collections::HashMap;

const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// LOCK: pins. Leaf.
    shards: [Mutex<HashMap<Offset, Pin>>; SHARDS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Pin {
    count: u32,
    /// The item was unlinked: the last unpin frees it.
    unlinked: bool,
}

impl Pins {
    fn shard(&self, at: Offset) -> guira_sync::lock::MutexGuard<'_, HashMap<Offset, Pin>> {
        let index = (at.units() >> 8) as usize % SHARDS;
        self.shards[index].lock()
    }

    /// Pins the item at `at`, until [`Pins::unpin`].
    pub(crate) fn pin(&self, at: Offset) {
        self.shard(at).entry(at).or_default().count += 1;
    }

    /// Takes a pin back. True if the caller has to free the item.
    #[must_use]
    pub(crate) fn unpin(&self, at: Offset) -> bool {
        let mut shard = self.shard(at);
        let Some(pin) = shard.get_mut(&at) else {
            return false;
        };
        pin.count -= 1;
        if pin.count > 0 {
            return false;
        }
        let unlinked = pin.unlinked;
        shard.remove(&at);
        unlinked
    }

    /// The item at `at` was unlinked. True if the caller may free it now.
    #[must_use]
    pub(crate) fn unlinked(&self, at: Offset) -> bool {
        match self.shard(at).get_mut(&at) {
            Some(pin) => {
                pin.unlinked = true;
                false
            }
            None => true,
        }
    }

    /// Whether there is a pin on the item at `at`.
    pub(crate) fn is_pinned(&self, at: Offset) -> bool {
        self.shard(at).contains_key(&at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unpin_of_an_unlinked_item_frees_it() {
        let pins = Pins::default();
        let at = Offset::from_bytes(64);
        pins.pin(at);
        pins.pin(at);
        assert!(!pins.unlinked(at));
        assert!(!pins.unpin(at));
        assert!(pins.unpin(at));
        assert!(pins.unlinked(at), "no pin is held");
        pins.pin(at);
        assert!(!pins.unpin(at), "it is still linked");
    }
}
