//! Hazard pointers: places that a thread has announced because it may store to them or is still sending from them
//! (Michael, "Hazard pointers", IEEE TPDS 15(6), 2004).
//!
//! A thread that finds a place without a lock announces it, and then checks that the place still has the same
//! meaning. A thread that reuses a place first unlinks it, and then checks the announcements. At least one of the two
//! sees the other. No thread waits: one that finds a hazard uses another place.
//!
//! A stalled thread blocks the reuse of the places that it has announced, and of no others.

use crate::atomic::{AtomicPtr, AtomicU64, Ordering, Padded, fence};
use std::ptr;
use std::sync::Arc;

/// Places that a holder can announce at once.
pub const PLACES: usize = 2;

/// Marks a free slot. No place is 2^64 - 1.
const UNCLAIMED: u64 = u64::MAX;
/// Marks a slot without an announcement. No place is 0.
const NOTHING: u64 = 0;

/// Slots in a block.
const SLOTS: usize = if cfg!(guira_loom) { 2 } else { 32 };

/// The announcements of all holders.
#[derive(Debug)]
pub struct Hazards {
    first: Block,
}

#[derive(Debug)]
struct Block {
    slots: [Slot; SLOTS],
    /// The next block; appended when all slots are taken, and never freed while the hazards live.
    next: AtomicPtr<Block>,
}

/// The announcements of one holder. The first also marks whether the slot is free.
#[derive(Debug)]
struct Slot(Padded<[AtomicU64; PLACES]>);

impl Block {
    fn new() -> Self {
        let slot = |_| Slot(Padded([AtomicU64::new(UNCLAIMED), AtomicU64::new(NOTHING)]));
        Block { slots: std::array::from_fn(slot), next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn next(&self) -> Option<&Block> {
        // Acquire: pairs with the Release of `append`.
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a block is appended fully initialized, and freed only when the hazards are dropped.
        unsafe { next.as_ref() }
    }

    /// Appends a block, unless another thread does so first.
    fn append(&self) -> &Block {
        let block = Box::into_raw(Box::new(Block::new()));
        // Release: a thread that finds the block finds its slots. Acquire: as in `next`.
        match self.next.compare_exchange(ptr::null_mut(), block, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: allocated above, and freed only when the hazards are dropped.
            Ok(_) => unsafe { &*block },
            Err(other) => {
                // SAFETY: allocated above, and not published.
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

    /// Claims a slot, until the hazard is dropped.
    pub fn claim(self: &Arc<Self>) -> Hazard {
        let mut block = &self.first;
        loop {
            for slot in &block.slots {
                // Loaded first: a claimed slot stays in its holder's cache.
                if slot.0[0].load(Ordering::Relaxed) != UNCLAIMED {
                    continue;
                }
                // Acquire: pairs with the Release of the previous holder: its accesses happen before anything that is
                // announced in the slot from now on.
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

    /// Calls `see` with all announced places. The caller has unlinked the places that it asks about: if one of them
    /// is not announced, no holder will access it.
    pub fn announced(&self, mut see: impl FnMut(u64)) {
        self.announced_but(ptr::null(), &mut see);
    }

    /// Like [`Hazards::announced`], without the announcements of `own`.
    pub fn announced_by_others(&self, own: &Hazard, mut see: impl FnMut(u64)) {
        self.announced_but(own.slot, &mut see);
    }

    fn announced_but(&self, own: *const Slot, see: &mut impl FnMut(u64)) {
        // SeqCst fence: pairs with the one in `Hazard::announce`. Either we see the announcement, or its holder sees
        // that the place is unlinked.
        fence(Ordering::SeqCst);
        let slots = self.blocks().flat_map(|block| &block.slots).filter(|slot| !ptr::eq(*slot, own));
        // Acquire: pairs with the Release of `Hazard::clear` and `announce`: the holder's accesses to the place
        // happened before.
        let places = slots.flat_map(|slot| slot.0.iter()).map(|place| place.load(Ordering::Acquire));
        places.filter(|place| *place != UNCLAIMED && *place != NOTHING).for_each(see);
    }

    /// Whether a holder has announced `wanted`, which the caller has unlinked.
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
            // SAFETY: no slot is in use: each holder keeps the hazards alive. Every block was allocated by `append`,
            // once.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

/// A holder's announcements.
#[derive(Debug)]
pub struct Hazard {
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

    /// Announces `place` with number `index`, in place of the previous one. The holder may access the place once it
    /// has checked, after this call, that it is still linked.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    #[inline]
    pub fn announce(&self, index: usize, place: u64) {
        debug_assert!(place != UNCLAIMED && place != NOTHING);
        // Release: pairs with the Acquire in `Hazards::announced`: a thread that no longer sees the previous
        // announcement sees all accesses to that place.
        self.slot().0[index].store(place, Ordering::Release);
        #[cfg(all(test, guira_loom))]
        if loom_tests::is_weakened() {
            return;
        }
        // SeqCst fence: pairs with the one in `Hazards::announced`.
        fence(Ordering::SeqCst);
    }

    /// Withdraws all announcements.
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
    fn an_announcement_is_found_until_it_is_cleared() {
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

    /// Whether announcements omit their fence, for the test that the model notices it.
    pub(super) fn is_weakened() -> bool {
        WEAKENED.get()
    }

    /// A writer finds a place through a link, announces it, checks the link, and stores into the place. A thread that
    /// unlinks the place and finds no hazard owns it exclusively.
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
    fn loom_a_place_without_hazards_has_no_other_writer() {
        a_place_is_announced_and_freed();
    }

    /// Without the fence an announcement can come too late: the model above finds that.
    #[test]
    #[should_panic(expected = "left == right")]
    fn loom_an_announcement_without_its_fence_is_caught() {
        WEAKENED.set(true);
        a_place_is_announced_and_freed();
    }
}
