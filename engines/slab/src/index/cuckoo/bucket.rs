//! One bucket: ten slots in a cache line.
//!
//! ```text
//! bytes  0..10   the low byte of the tag of each slot
//! bytes 10..14   3 more bits of each tag
//! bytes 14..24   the high byte of the place of each item
//! bytes 24..64   the low four bytes of the place of each item
//! ```
//!
//! A slot is a tag and the 40-bit place of an item in units of 8 bytes: 6 bytes, against 9 in MemC3 (a tag and a
//! pointer), and ten of them to a line against seven. What is left of the line gives the tag 11 bits instead of 8,
//! so that twenty slots lead to fewer wrong items than MemC3's eight. The low byte of a tag is never 0: that marks an
//! empty slot.
//!
//! A slot is stored only by the thread that holds the version counter of its bucket (F1 of
//! docs/develop/concurrency.md), and loaded by any; a reader may see a slot half written, and learns so
//! from the counter.

use guira_memory::Offset;
use guira_sync::words::{Line, byte_of, four_of, load, store, which_equal};

pub const SLOTS: usize = 10;

/// Bytes in a bucket.
pub(super) const BUCKET_BYTES: usize = 64;

// Ten slots of 6 bytes fit in a bucket.
const _: () = assert!(SLOTS * 6 <= BUCKET_BYTES);

/// The low bytes of all tags.
const TAGS: u32 = (1 << SLOTS) - 1;

/// Where in word 1 the further bits of the tags begin, and how many each slot has.
const MORE_SHIFT: usize = 16;
const MORE_BITS: usize = 3;
const MORE_MASK: u64 = (1 << MORE_BITS) - 1;

/// The bytes at which the parts of the places begin.
const HIGH_AT: usize = 14;
const LOW_AT: usize = 24;

pub(super) const TAG_BITS: u32 = 8 + MORE_BITS as u32;

// The further bits end where the places begin.
const _: () = assert!((64 + MORE_SHIFT + SLOTS * MORE_BITS).div_ceil(8) <= HIGH_AT);
const _: () = assert!(HIGH_AT + SLOTS == LOW_AT && LOW_AT + 4 * SLOTS == BUCKET_BYTES);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a>(pub(crate) &'a Line);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 11 bits; the low 8 are not all 0.
    pub(crate) tag: u16,
    pub(crate) item: Offset,
}

/// Where the slots of the second bucket begin in a set of the slots of both.
pub(crate) const SECOND_AT: usize = 16;

/// A set of slots of one bucket, or of two, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(crate) u32);

impl Slots {
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

impl Bucket<'_> {
    /// The slots whose tag has this low byte.
    #[inline(always)]
    pub(crate) fn with_low(self, low: u8) -> Slots {
        Slots(which_equal([self.0, self.0], low) & TAGS)
    }

    /// The slots of this bucket and of `other` whose tag has this low byte; those of `other` begin at [`SECOND_AT`].
    #[inline(always)]
    pub(crate) fn with_low_in_both(self, other: Self, low: u8) -> Slots {
        Slots(which_equal([self.0, other.0], low) & (TAGS | TAGS << SECOND_AT))
    }

    /// Whether the rest of the tag in slot `slot` is that of `tag`.
    #[inline(always)]
    pub(crate) fn has_more(self, slot: usize, tag: u16) -> bool {
        (load(&self.0[1]) >> (MORE_SHIFT + slot * MORE_BITS)) & MORE_MASK == u64::from(tag >> 8)
    }

    /// The empty slots.
    #[inline(always)]
    pub(crate) fn free(self) -> Slots {
        self.with_low(0)
    }

    /// What slot `slot` holds, if anything.
    #[inline(always)]
    pub(crate) fn entry(self, slot: usize) -> Option<Entry> {
        let low = byte_of(self.0, slot);
        let more = (load(&self.0[1]) >> (MORE_SHIFT + slot * MORE_BITS)) & MORE_MASK;
        (low != 0).then(|| Entry { tag: u16::from(low) | ((more as u16) << 8), item: self.item(slot) })
    }

    /// The place that slot `slot` holds.
    #[inline(always)]
    pub(crate) fn item(self, slot: usize) -> Offset {
        let low = four_of(self.0, LOW_AT + slot * 4);
        let high = byte_of(self.0, HIGH_AT + slot);
        Offset::from_units(u64::from(high) << 32 | u64::from(low))
    }

    /// Fills slot `slot`. The caller holds the bucket's counter.
    #[inline]
    pub(crate) fn put(self, slot: usize, entry: Entry) {
        let units = entry.item.units();
        self.set_bits(LOW_AT + slot * 4, 0xffff_ffff, units & 0xffff_ffff);
        self.set_bits(HIGH_AT + slot, 0xff, units >> 32);
        let (word, shift) = (1, MORE_SHIFT + slot * MORE_BITS);
        let more = u64::from(entry.tag >> 8);
        store(&self.0[word], load(&self.0[word]) & !(MORE_MASK << shift) | more << shift);
        self.set_bits(slot, 0xff, u64::from(entry.tag & 0xff));
    }

    /// Lets slot `slot`, which is filled, lead to `item`. The caller holds the bucket's counter.
    #[inline]
    pub(crate) fn lead_to(self, slot: usize, item: Offset) {
        self.set_bits(LOW_AT + slot * 4, 0xffff_ffff, item.units() & 0xffff_ffff);
        self.set_bits(HIGH_AT + slot, 0xff, item.units() >> 32);
    }

    /// Empties slot `slot`. The caller holds the bucket's counter.
    pub(crate) fn clear(self, slot: usize) {
        self.set_bits(slot, 0xff, 0);
    }

    /// Stores `value` where `mask` is, counted from byte `at`, inside one word.
    #[inline(always)]
    fn set_bits(self, at: usize, mask: u64, value: u64) {
        let (cell, shift) = (&self.0[at / 8], at % 8 * 8);
        store(cell, load(cell) & !(mask << shift) | value << shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::atomic::AtomicU64;

    fn empty() -> [AtomicU64; 8] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn ten_slots_hold_ten_entries_and_clearing_one_leaves_the_others() {
        let words = empty();
        let bucket = Bucket(&words);
        let entry = |slot: usize| Entry {
            tag: 0x7ff - slot as u16 * 0x65,
            item: Offset::from_units((1 << 40) - 1 - slot as u64 * 0x1_0000_0001),
        };
        assert_eq!(bucket.free().count(), 10);
        for slot in 0..SLOTS {
            bucket.put(slot, entry(slot));
        }
        assert_eq!(bucket.free().count(), 0);
        for slot in 0..SLOTS {
            assert_eq!(bucket.entry(slot), Some(entry(slot)));
            let tag = entry(slot).tag;
            assert_eq!(bucket.with_low(tag as u8).collect::<Vec<_>>(), [slot]);
            assert!(bucket.has_more(slot, tag) && !bucket.has_more(slot, tag ^ 0x100));
        }
        bucket.lead_to(5, entry(1).item);
        assert_eq!(bucket.entry(5), Some(Entry { item: entry(1).item, ..entry(5) }));
        assert_eq!(bucket.entry(4), Some(entry(4)));
        bucket.clear(9);
        bucket.clear(3);
        assert_eq!(bucket.free().collect::<Vec<_>>(), [3, 9]);
        assert_eq!(bucket.entry(8), Some(entry(8)));
        assert_eq!(bucket.entry(9), None);
    }

    #[test]
    fn the_bytes_after_the_tags_are_no_slots() {
        let words = empty();
        Bucket(&words).put(0, Entry { tag: 5, item: Offset::from_units(1) });
        assert_eq!(Bucket(&words).free().count(), 9);
    }
}
