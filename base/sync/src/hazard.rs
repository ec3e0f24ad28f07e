//! Hazards: places that a thread has announced it may be about to store to, or is still sending from.
//!
//! A thread that finds a place without a lock announces it here and then looks again whether the place is still what it was. Whoever wants to
//! give the place another meaning first takes away all that leads to it, and then looks here. One of the two sees the other (Michael,
//! "Hazard pointers", IEEE TPDS 15(6), 2004). Nobody ever waits: who finds a hazard takes something else.
//!
//! What a thread holds back is what it has announced and no more, however long it stands still.

use crate::atomic::{AtomicPtr, AtomicU64, Ordering, Padded, fence};
use std::ptr;
use std::sync::Arc;

/// Places that one holder can announce at once.
pub const PLACES: usize = 2;

/// How a slot says that it belongs to nobody. No place is 2^64 - 1.
const UNCLAIMED: u64 = u64::MAX;
/// How a slot says that nothing is announced. No place is 0.
const NOTHING: u64 = 0;

/// Slots of a block.
const SLOTS: usize = if cfg!(guira_loom) { 2 } else { 32 };

/// The announcements of all holders.
#[derive(Debug)]
pub struct Hazards {
    first: Block,
}

#[derive(Debug)]
struct Block {
    slots: [Slot; SLOTS],
    /// More slots, once there were not enough. Never taken away while the hazards live.
    next: AtomicPtr<Block>,
}

/// What one holder has announced. The first place also says whether there is a holder.
#[derive(Debug)]
struct Slot(Padded<[AtomicU64; PLACES]>);

impl Block {
    fn new() -> Self {
        let slot = |_| Slot(Padded([AtomicU64::new(UNCLAIMED), AtomicU64::new(NOTHING)]));
        Block { slots: std::array::from_fn(slot), next: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The block after this one.
    fn next(&self) -> Option<&Block> {
        // Acquire: pairs with the Release of `append`.
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a block is appended whole, and freed only when all of them are dropped.
        unsafe { next.as_ref() }
    }

    /// Appends a block, unless somebody else does.
    fn append(&self) -> &Block {
        let block = Box::into_raw(Box::new(Block::new()));
        // Release: who finds the block finds its slots. Acquire: as in `next`.
        match self.next.compare_exchange(ptr::null_mut(), block, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and freed only when all are dropped.
            Ok(_) => unsafe { &*block },
            Err(other) => {
                // SAFETY: it was made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(block) });
                // SAFETY: as in `next`.
                unsafe { &*other }
            }
        }
    }
}

impl Default for Hazards {
    fn default() -> Self {
        Hazards { first: Block::new() }
    }
}

impl Hazards {
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        std::iter::successors(Some(&self.first), |block| block.next())
    }

    /// Becomes a holder, until the hazard is dropped.
    pub fn claim(self: &Arc<Self>) -> Hazard {
        let mut block = &self.first;
        loop {
            for slot in &block.slots {
                // Looked at first: a slot that is taken stays in its holder's cache.
                if slot.0[0].load(Ordering::Relaxed) != UNCLAIMED {
                    continue;
                }
                // Acquire: pairs with the Release of the holder before: what he did lies before whatever is announced in the slot from
                // now on.
                let claimed =
                    slot.0[0].compare_exchange(UNCLAIMED, NOTHING, Ordering::Acquire, Ordering::Relaxed);
                if claimed.is_ok() {
                    let slot = ptr::from_ref(slot);
                    return Hazard { _all: self.clone(), slot };
                }
            }
            block = block.next().unwrap_or_else(|| block.append());
        }
    }

    /// Shows `see` all places that are announced. All that leads to those that the caller wants to know of was taken away before: whoever is
    /// not shown with such a place will not touch it.
    pub fn announced(&self, mut see: impl FnMut(u64)) {
        self.announced_but(ptr::null(), &mut see);
    }

    /// The same, without what the holder of `own` has announced.
    pub fn announced_by_others(&self, own: &Hazard, mut see: impl FnMut(u64)) {
        self.announced_but(own.slot, &mut see);
    }

    fn announced_but(&self, own: *const Slot, see: &mut impl FnMut(u64)) {
        // SeqCst fence: pairs with the one in `Hazard::announce`. Either we see the announcement, or its holder sees that
        // nothing leads to the place any more.
        fence(Ordering::SeqCst);
        let slots = self.blocks().flat_map(|block| &block.slots).filter(|slot| !ptr::eq(*slot, own));
        // Acquire: pairs with the Release of `Hazard::clear` and `announce`: what the holder did with the place lies behind us.
        let places = slots.flat_map(|slot| slot.0.iter()).map(|place| place.load(Ordering::Acquire));
        places.filter(|place| *place != UNCLAIMED && *place != NOTHING).for_each(see);
    }

    /// Whether a holder has announced `wanted`, to which nothing leads any more.
    pub fn is_announced(&self, wanted: u64) -> bool {
        let mut found = false;
        self.announced(|place| found |= place == wanted);
        found
    }
}

impl Drop for Hazards {
    fn drop(&mut self) {
        let mut next = self.first.next.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: nobody holds a slot: each holder keeps the hazards alive. Every block was made by `append`, once.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

/// A holder's announcements.
#[derive(Debug)]
pub struct Hazard {
    /// Keeps the slot alive.
    _all: Arc<Hazards>,
    slot: *const Slot,
}

// SAFETY: the slot is reached through atomics only, and lives as long as `_all`.
unsafe impl Send for Hazard {}
// SAFETY: as above.
unsafe impl Sync for Hazard {}

impl Hazard {
    fn slot(&self) -> &Slot {
        // SAFETY: it lies in a block of `_all`, which lives as long as this does.
        unsafe { &*self.slot }
    }

    /// Announces `place` as the one numbered `index`, in place of the one announced before. It is safe once the holder has seen, after this, that
    /// something still leads to it.
    ///
    /// # Panics
    /// If there is no such index.
    #[inline]
    pub fn announce(&self, index: usize, place: u64) {
        debug_assert!(place != UNCLAIMED && place != NOTHING);
        // Release: pairs with the Acquire in `Hazards::announced`: what was done with the place announced before lies behind whoever does not see
        // it any more.
        self.slot().0[index].store(place, Ordering::Release);
        #[cfg(all(test, guira_loom))]
        if loom_tests::is_weakened() {
            return;
        }
        // SeqCst fence: pairs with the one in `Hazards::announced`.
        fence(Ordering::SeqCst);
    }

    /// Announces nothing any more.
    #[inline]
    pub fn clear(&self) {
        // Release: pairs with the Acquire in `Hazards::announced`.
        self.slot().0.iter().for_each(|place| place.store(NOTHING, Ordering::Release));
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        self.slot().0[1].store(NOTHING, Ordering::Release);
        // Release: as in `clear`.
        self.slot().0[0].store(UNCLAIMED, Ordering::Release);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_is_found_until_it_is_cleared() {
        let hazards = Arc::new(Hazards::default());
        let (one, other) = (hazards.claim(), hazards.claim());
        one.announce(0, 8);
        one.announce(1, 16);
        other.announce(1, 24);
        let has = |place| hazards.is_announced(place);
        assert!(has(8) && has(16) && has(24) && !has(32) && !has(0));
        let mut others = Vec::new();
        hazards.announced_by_others(&one, |place| others.push(place));
        assert_eq!(others, [24]);
        one.clear();
        assert!(!has(8) && !has(16) && has(24));
        drop(other);
        hazards.announced(|place| panic!("{place}"));
    }

    #[test]
    fn there_are_as_many_slots_as_are_held_and_they_are_used_again() {
        let hazards = Arc::new(Hazards::default());
        let held: Vec<Hazard> = (0..5 * SLOTS).map(|_| hazards.claim()).collect();
        held.iter().enumerate().for_each(|(index, hazard)| hazard.announce(0, index as u64 + 1));
        assert!((1..=5 * SLOTS as u64).all(|place| hazards.is_announced(place)));
        drop(held);
        let _again: Vec<Hazard> = (0..5 * SLOTS).map(|_| hazards.claim()).collect();
        assert_eq!(hazards.blocks().count(), 5);
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use crate::atomic::AtomicU32;

    std::thread_local! {
        static WEAKENED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Whether announcements go without their fence, to see that this is noticed.
    pub(super) fn is_weakened() -> bool {
        WEAKENED.get()
    }

    /// A writer finds a place through a link, announces it, looks again, and stores into it. Whoever unlinks the place, and finds no hazard,
    /// has it for itself.
    fn a_place_is_announced_and_freed() {
        loom::model(|| {
            let hazards = Arc::new(Hazards::default());
            let shared = Arc::new((AtomicU32::new(1), AtomicU32::new(0)));
            let hazard = hazards.claim();
            let theirs = shared.clone();
            let thread = loom::thread::spawn(move || {
                let (link, memory) = &*theirs;
                if link.load(Ordering::Relaxed) == 1 {
                    hazard.announce(0, 8);
                    if link.load(Ordering::Relaxed) == 1 {
                        memory.store(7, Ordering::Relaxed);
                    }
                    hazard.clear();
                }
            });
            let (link, memory) = &*shared;
            link.store(0, Ordering::Relaxed);
            if hazards.is_announced(8) {
                thread.join().unwrap();
            } else {
                memory.store(9, Ordering::Relaxed);
                thread.join().unwrap();
                assert_eq!(memory.load(Ordering::Relaxed), 9);
            }
        });
    }

    #[test]
    fn loom_a_place_without_hazards_is_stored_into_by_nobody_else() {
        a_place_is_announced_and_freed();
    }

    /// Without its fence an announcement may come too late: the check above finds that out.
    #[test]
    #[should_panic(expected = "left == right")]
    fn loom_an_announcement_without_its_fence_is_caught() {
        WEAKENED.set(true);
        a_place_is_announced_and_freed();
    }
}
