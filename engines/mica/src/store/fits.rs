//! Segregated fits: the memory of a store's items (MICA, section 4.3.3).
//!
//! Chunks of any number of words lie next to each other, from the start to the *top*; what lies beyond was never used, or is free again. A free chunk is on the
//! list of its class: classes of one word each up to 1 KiB, and eight to each doubling above. A new item takes a chunk of the smallest class that fits, and
//! the rest of it becomes another. Free neighbours become one: every chunk knows whether the one before it is free, and a free one ends with its length
//! (boundary tags).
//!
//! ```text
//! in use:  | anchor | item …                      |
//! free:    | anchor | next free | free before | … | words |
//! ```
//!
//! A restart makes the lists from the chunks; a process that takes over is told where they begin.

use super::holder::{Holder, Relocated};
use super::item_store::{ItemStore, OffsetSum, SavedStore, usage_of};
use crate::entry::{Anchor, UNITS_MAX};
use crate::owned::Owned;
use guira_contract::StoreError;
use guira_items::{ClassUsage, Fields};
use guira_memory::{Offset, Region};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::lock::Mutex;
use guira_sync::words::{self, WORD};
use std::sync::Arc;

/// The memory of a store's items.
#[derive(Debug)]
pub struct Fits {
    region: Arc<Region>,
    /// Where it begins in the Region, in bytes.
    base: usize,
    /// Beyond this nothing is used.
    top: Owned,
    end: Owned,
    reached: Owned,
    /// How far the top may come before more has to be backed.
    backed: Owned,
    /// The first free chunk of each class; 0 if there is none.
    lists: Box<[Owned]>,
    /// Which classes have any, a bit each.
    used_lists: [Owned; CLASSES.div_ceil(64)],
    /// What [`ItemStore::find_room`] has found: a free chunk, 0 for room at the top, or [`UNKNOWN`] if chunks have been freed since.
    found: Owned,
    /// Chunks that were left while their values were being sent, and how many.
    left: Mutex<Vec<u64>>,
    left_count: Owned,
}

/// Chunks begin here: offset 0 means none.
const FIRST: u64 = 2;
/// It has to be looked for again.
const UNKNOWN: u64 = u64::MAX;
/// Words of the smallest chunk: what a free one has to hold.
const SMALLEST: u64 = 4;
/// Up to this many words each length has a class of its own: 1 KiB.
const EXACT: u64 = (1 << EXACT_BITS) as u64;
const EXACT_BITS: u32 = 7;
/// Above, each doubling has two to the power of this many classes.
const STEPS_BITS: u32 = 3;
const CLASSES: usize =
    EXACT as usize + 1 + (((UNITS_MAX as u64 + 1).ilog2() - EXACT_BITS) << STEPS_BITS) as usize;
/// How many chunks of a class with different lengths are tried before a larger class is.
const LOOKED_AT: usize = 8;
/// If there is no room, expired items are removed from this many buckets, and from as many again if there were any.
const LOOKED_FOR_DEAD: u64 = 256;

fn class_of(units: u64) -> usize {
    if units <= EXACT {
        return units as usize;
    }
    let doubling = units.ilog2();
    let step = units >> (doubling - STEPS_BITS) & ((1 << STEPS_BITS) - 1);
    EXACT as usize + 1 + ((doubling - EXACT_BITS) << STEPS_BITS) as usize + step as usize
}

impl Fits {
    fn word(&self, offset: u64) -> &guira_sync::atomic::AtomicU64 {
        self.region.word(self.at(offset))
    }

    fn anchor(&self, offset: u64) -> Anchor {
        Anchor::load(&self.region, self.at(offset))
    }

    fn set_anchor(&self, offset: u64, anchor: Anchor) {
        anchor.store(&self.region, self.at(offset));
    }

    fn units(&self, offset: u64) -> u64 {
        self.anchor(offset).units() as u64
    }

    fn next_of(&self, offset: u64) -> u64 {
        words::load(self.word(offset + 1))
    }

    /// Makes a free chunk of `units` words and puts it on its list. The chunk after it notes that.
    fn put(&self, offset: u64, units: u64, anchor: Anchor) {
        let class = class_of(units);
        let first = self.lists[class].get();
        self.set_anchor(offset, anchor.free(units as usize));
        words::store(self.word(offset + 1), first);
        words::store(self.word(offset + 2), 0);
        words::store(self.word(offset + units - 1), units);
        if first != 0 {
            words::store(self.word(first + 2), offset);
        }
        self.begin_list(class, offset);
        let next = offset + units;
        if next < self.top.get() {
            self.set_anchor(next, self.anchor(next).after_free());
        }
    }

    /// The list of a class begins with this chunk.
    fn begin_list(&self, class: usize, first: u64) {
        self.lists[class].set(first);
        let bits = &self.used_lists[class / 64];
        bits.set(bits.get() | 1 << (class % 64));
    }

    /// Takes a free chunk off its list.
    fn unlink(&self, offset: u64) {
        let class = class_of(self.units(offset));
        let (next, before) = (self.next_of(offset), words::load(self.word(offset + 2)));
        if next != 0 {
            words::store(self.word(next + 2), before);
        }
        if before == 0 {
            self.lists[class].set(next);
        } else {
            words::store(self.word(before + 1), next);
        }
        if self.lists[class].get() == 0 {
            let bits = &self.used_lists[class / 64];
            bits.set(bits.get() & !(1 << (class % 64)));
        }
    }

    /// The first class from `class` on that has a free chunk.
    fn list_from(&self, class: usize) -> Option<usize> {
        let bits = |word: usize| self.used_lists.get(word).map(Owned::get);
        let (mut word, mut seen) = (class / 64, bits(class / 64)? & (u64::MAX << (class % 64)));
        while seen == 0 {
            word += 1;
            seen = bits(word)?;
        }
        Some(word * 64 + seen.trailing_zeros() as usize)
    }

    /// A free chunk of at least `units` words that lies before the end.
    fn search(&self, units: u64) -> Option<u64> {
        let mut class = class_of(units);
        loop {
            class = self.list_from(class)?;
            let mut offset = self.lists[class].get();
            for _ in 0..LOOKED_AT {
                if offset == 0 {
                    break;
                }
                let length = self.units(offset);
                if length >= units && offset + length <= self.end.get() {
                    return Some(offset);
                }
                offset = self.next_of(offset);
            }
            class += 1;
        }
    }

    /// Looks for room, and notes where it is.
    fn find(&self, units: u64) -> bool {
        let units = units.max(SMALLEST);
        let found = self.search(units);
        self.found.set(found.unwrap_or(0));
        found.is_some() || self.top.get() + units <= self.end.get()
    }

    /// Looks for room that is backed.
    fn find_backed(&self, holder: &mut impl Holder, units: u64) -> bool {
        while self.find(units) {
            let upto = self.top.get() + units.max(SMALLEST);
            // If there is no memory at the top the store ends before it.
            if self.found.get() != 0 || upto <= self.backed.get() || holder.back(upto) {
                return true;
            }
        }
        false
    }

    fn give(&self, offset: u64) {
        // The chunk that was found may become one with this.
        self.found.set(UNKNOWN);
        let (mut start, mut units) = (offset, self.units(offset));
        let mut anchor = self.anchor(offset);
        let next = start + units;
        if next < self.top.get() && self.anchor(next).is_free() {
            let more = self.units(next);
            if units + more <= UNITS_MAX as u64 {
                self.unlink(next);
                units += more;
            }
        }
        if anchor.is_after_free() {
            let before = words::load(self.word(start - 1));
            if units + before <= UNITS_MAX as u64 {
                start -= before;
                self.unlink(start);
                anchor = self.anchor(start);
                units += before;
            }
        }
        if start + units < self.top.get() {
            return self.put(start, units, anchor);
        }
        self.top.set(start);
        // The chunk before may be free as well, if the two were too long to become one.
        while anchor.is_after_free() {
            start -= words::load(self.word(start - 1));
            anchor = self.anchor(start);
            self.unlink(start);
            self.top.set(start);
        }
    }

    /// Frees the chunks that were left while their values were being sent, and have been sent by now.
    fn give_left(&self, is_pinned: impl Fn(u64) -> bool) {
        let mut left = self.left.lock();
        left.retain(|offset| {
            let stays = is_pinned(*offset);
            if !stays {
                self.give(*offset);
            }
            stays
        });
        self.left_count.set(left.len() as u64);
    }

    /// Nothing is in use any more.
    fn clear(&self) {
        self.top.set(FIRST);
        self.lists.iter().chain(&self.used_lists).for_each(|word| word.set(0));
    }
}

#[allow(private_interfaces, private_bounds, reason = "stores are written in this crate only")]
impl ItemStore for Fits {
    const FORMAT: [u8; 8] = *b"micas003";
    const IS_LOSSY: bool = false;
    const FIELDS: Fields = Fields(Fields::CAS.0 | Fields::EXPIRY.0);

    fn new(region: Arc<Region>, base: usize, _ring: u64, _offset_bits: u32) -> Self {
        let fits = Fits {
            region,
            base,
            top: Owned::default(),
            end: Owned::default(),
            reached: Owned::default(),
            backed: Owned::default(),
            lists: (0..CLASSES).map(|_| Owned::default()).collect(),
            used_lists: std::array::from_fn(|_| Owned::default()),
            found: Owned::default(),
            left: Mutex::default(),
            left_count: Owned::default(),
        };
        fits.clear();
        fits
    }

    #[inline(always)]
    fn at(&self, offset: u64) -> Offset {
        Offset::from_bytes((self.base as u64).wrapping_add(offset.wrapping_mul(WORD as u64)))
    }

    /// Nothing is evicted.
    #[inline(always)]
    fn is_live(&self, _offset: u64) -> bool {
        true
    }

    /// A chunk is freed after its slot, which changes the version of the bucket.
    #[inline(always)]
    fn is_still_live(&self, _offset: u64) -> bool {
        true
    }

    fn is_flushed(&self, _offset: u64) -> bool {
        false
    }

    fn runs(&self) -> [(u64, u64); 2] {
        [(FIRST, self.top.get() - FIRST), (self.top.get(), 0)]
    }

    fn age(&self, _offset: u64) -> u64 {
        0
    }

    #[inline(always)]
    fn is_evicting(&self) -> bool {
        false
    }

    #[inline(always)]
    fn has_older_half(&self) -> bool {
        false
    }

    fn is_in_older_half(&self, _offset: u64) -> bool {
        false
    }

    fn end(&self) -> u64 {
        self.end.get()
    }

    fn set_end(&self, end: u64) {
        self.end.set(end);
    }

    fn reached(&self) -> u64 {
        self.reached.get()
    }

    fn backed(&self) -> u64 {
        self.backed.get()
    }

    fn set_backed(&self, words: u64) {
        self.backed.set(words);
    }

    fn find_room(
        &self,
        holder: &mut impl Holder,
        units: u64,
        _replaced: &mut Option<u64>,
    ) -> Result<(), StoreError> {
        if self.find_backed(holder, units) {
            return Ok(());
        }
        if self.left_count.get() > 0 {
            self.give_left(|offset| holder.is_pinned(offset));
        }
        // As long as expired items are found.
        while !self.find_backed(holder, units) {
            if !holder.remove_some_dead(LOOKED_FOR_DEAD) {
                return Err(StoreError::NoMemory);
            }
        }
        Ok(())
    }

    fn take(&self, units: u64) -> (u64, Anchor) {
        let units = units.max(SMALLEST);
        // Release fence: pairs with the Acquire fence of `Bucket::is_still`: a reader that sees what is written into the chunk from now on sees that the slot that
        // led to it before has changed.
        fence(Ordering::Release);
        let offset = match self.found.replace(UNKNOWN) {
            UNKNOWN => self.search(units).unwrap_or(0),
            found => found,
        };
        if offset == 0 {
            let offset = self.top.get();
            self.top.set(offset + units);
            self.reached.set(self.reached.get().max(offset + units));
            return (offset, Anchor::room_of(units as usize));
        }
        let length = self.units(offset);
        let anchor = self.anchor(offset);
        self.unlink(offset);
        if length - units >= SMALLEST {
            self.put(offset + units, length - units, Anchor::room_of(0));
            return (offset, anchor.in_use(units as usize));
        }
        let next = offset + length;
        if next < self.top.get() {
            self.set_anchor(next, self.anchor(next).after_used());
        }
        (offset, anchor.in_use(length as usize))
    }

    fn leave(&self, offset: u64, is_pinned: impl Fn(u64) -> bool) {
        if is_pinned(offset) {
            // A restart finds it free.
            Anchor::bury(&self.region, self.at(offset));
            self.left.lock().push(offset);
            self.left_count.add(1);
            return;
        }
        self.give(offset);
    }

    fn flush(&self, holder: &mut impl Holder) {
        let is_pinned = holder.has_pins() || self.left_count.get() > 0;
        let index = holder.index();
        for number in 0..index.buckets() as u32 {
            let offsets: Vec<u64> =
                index.slots_of(number).map(|(bucket, slot)| bucket.offset(slot)).collect();
            if offsets.is_empty() {
                continue;
            }
            index.clear_bucket(number);
            if is_pinned {
                offsets.into_iter().for_each(|offset| self.leave(offset, |offset| holder.is_pinned(offset)));
            }
        }
        if !is_pinned {
            self.clear();
        }
    }

    #[inline]
    fn after_store(&self, holder: &mut impl Holder) {
        if self.left_count.get() > 0 {
            self.give_left(|offset| holder.is_pinned(offset));
        }
    }

    fn end_moved(&self, _holder: &mut impl Holder, _before: u64) {}

    fn give_back<H: Holder>(
        &self,
        holder: &mut H,
        mut relocate: impl FnMut(&mut H) -> Relocated,
        discard: impl FnOnce(&mut H) -> bool,
    ) -> bool {
        match relocate(holder) {
            Relocated::Some => true,
            Relocated::Stuck => false,
            Relocated::All => {
                let is_given = self.top.get() <= self.end.get() && discard(holder);
                if is_given {
                    self.reached.set(self.reached.get().min(self.end.get()));
                    self.backed.set(self.backed.get().min(self.end.get()));
                }
                is_given
            }
        }
    }

    fn saved(&self) -> SavedStore {
        [self.top.get(), self.end.get(), self.reached.get(), 0, 0, 0]
    }

    fn restore(&self, saved: SavedStore) -> bool {
        let [top, end, reached, ..] = saved;
        self.top.set(top);
        self.end.set(end);
        self.reached.set(reached);
        self.backed.set(reached);
        (FIRST..=reached.max(FIRST)).contains(&top)
    }

    fn settle(&self) {
        self.give_left(|_| false);
    }

    /// The first chunk of each list.
    fn handed(&self) -> Vec<u64> {
        self.lists.iter().map(Owned::get).collect()
    }

    fn go_on(&self, handed: &[u64]) -> bool {
        let lies_below_top = |first: &u64| *first == 0 || (FIRST..self.top.get()).contains(first);
        if handed.len() != CLASSES || !handed.iter().all(lies_below_top) {
            return false;
        }
        for (class, first) in handed.iter().enumerate().filter(|(_, first)| **first != 0) {
            self.begin_list(class, *first);
        }
        true
    }

    fn recover(&self, ring: u64, offsets: &mut OffsetSum) -> Option<ClassUsage> {
        let mut held = ClassUsage::default();
        let (mut offset, mut was_free, mut dead) = (FIRST, false, Vec::new());
        if self.top.get() > ring || self.reached.get() > ring {
            return None;
        }
        while offset < self.top.get() {
            let anchor = self.anchor(offset);
            let units = anchor.units() as u64;
            let is_sound =
                units >= SMALLEST && offset + units <= self.top.get() && anchor.is_after_free() == was_free;
            if !is_sound {
                return None;
            }
            was_free = anchor.is_free();
            if was_free {
                self.put(offset, units, anchor);
            } else if anchor.is_dead() {
                dead.push(offset);
            } else {
                held = held.plus(usage_of(&self.region, self.at(offset), anchor)?);
                offsets.add(offset);
            }
            offset += units;
        }
        dead.into_iter().for_each(|offset| self.give(offset));
        Some(held)
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_memory::HugePages;

    #[test]
    fn classes_are_exact_to_1_kib_and_geometric_above() {
        assert_eq!((class_of(4), class_of(128), class_of(129)), (4, 128, 129));
        assert_eq!((class_of(143), class_of(144), class_of(255), class_of(256)), (129, 130, 136, 137));
        assert_eq!(class_of(UNITS_MAX as u64), CLASSES - 1);
        assert!((1..100_000).is_sorted_by_key(class_of));
    }

    /// Chunks of random sizes come and go; they never overlap, neighbours that are free are one, and when all are gone nothing is used.
    #[test]
    fn chunks_never_overlap_and_free_neighbours_become_one() {
        let region = Arc::new(Region::anonymous(8 << 20, HugePages::No).unwrap());
        let fits = Fits::new(region, 1 << 20, 1 << 19, 48);
        fits.set_end(1 << 19);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % bound
        };
        let mut chunks: Vec<(u64, u64)> = Vec::new();
        for step in 0..30_000 {
            let few = chunks.len() < 20 || (step / 3000) % 2 == 0;
            if below(10) < if few { 7 } else { 3 } {
                let units = if below(20) == 0 { below(3000) + 1 } else { below(120) + 1 };
                if fits.find(units) {
                    let (offset, anchor) = fits.take(units);
                    fits.set_anchor(offset, anchor);
                    let room = anchor.units() as u64;
                    assert!(room >= units && offset + room <= 1 << 19);
                    (offset + 1..offset + room).for_each(|at| words::store(fits.word(at), u64::MAX - at));
                    chunks.push((offset, room));
                }
            } else if !chunks.is_empty() {
                let (offset, room) = chunks.swap_remove(below(chunks.len() as u64) as usize);
                let is_whole =
                    (offset + 1..offset + room).all(|at| words::load(fits.word(at)) == u64::MAX - at);
                assert!(is_whole, "step {step}: the chunk at {offset} was overwritten");
                fits.give(offset);
            }
            if step % 500 == 0 {
                check(&fits, &chunks);
            }
        }
        for (offset, _) in chunks.drain(..) {
            fits.give(offset);
        }
        assert_eq!(fits.top.get(), FIRST);
        assert_eq!(fits.list_from(0), None);
    }

    fn check(fits: &Fits, chunks: &[(u64, u64)]) {
        let (mut offset, mut was_free, mut used) = (FIRST, false, 0);
        while offset < fits.top.get() {
            let anchor = fits.anchor(offset);
            assert_eq!(anchor.is_after_free(), was_free);
            assert!(!(was_free && anchor.is_free()), "two free chunks next to each other");
            was_free = anchor.is_free();
            used += u64::from(!was_free);
            offset += anchor.units() as u64;
        }
        assert_eq!((offset, used), (fits.top.get(), chunks.len() as u64));
        assert!(!was_free, "a free chunk at the top is none");
    }
}
