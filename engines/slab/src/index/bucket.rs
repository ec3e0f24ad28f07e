//! One bucket: ten slots in a cache line.
//!
//! ```text
//! word 0   tag0 tag1 tag2 tag3 tag4 tag5 tag6 tag7
//! word 1   tag8 tag9 high8 high9, then 3 more bits of the tag of each slot
//! word 2   high0 high1 high2 high3 high4 high5 high6 high7
//! word 3   low0            low1
//!  …
//! word 7   low8            low9
//! ```
//!
//! A slot is a tag and the 40-bit place of an item in units of 8 bytes: 6 bytes, against 9 in MemC3 (a tag and a
//! pointer), and ten of them to a line against seven. What is left of the line gives the tag 11 bits instead of 8,
//! so that twenty slots lead to fewer wrong items than MemC3's eight. The low byte of a tag is never 0: that marks an
//! empty slot.
//!
//! A slot is stored by whoever holds the version counter of its bucket, and loaded by anybody; a reader may see a
//! slot half written, and learns so from the counter.

use guira_memory::Offset;
use guira_sync::atomic::AtomicU64;
use guira_sync::words::{load, store};

/// Slots in a bucket.
pub const SLOTS: usize = 10;

/// Bytes in a bucket.
pub(super) const BUCKET_BYTES: usize = 64;

// Ten slots of 6 bytes fit in a bucket.
const _: () = assert!(SLOTS * 6 <= BUCKET_BYTES);

const LOW_BYTES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The bytes of words 0 and 1 that are tags of slots.
const TAGS_IN_WORD_1: u32 = 2;

/// Where in word 1 the further bits of the tags begin, and how many each slot has.
const MORE_SHIFT: usize = 32;
const MORE_BITS: usize = 3;
const MORE_MASK: u64 = (1 << MORE_BITS) - 1;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 8 + MORE_BITS as u32;

// The further bits fit in what is left of word 1.
const _: () = assert!(MORE_SHIFT + SLOTS * MORE_BITS <= 64);

/// A bucket's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a>(pub(crate) &'a [AtomicU64; 8]);

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 11 bits; the low 8 are not all 0.
    pub(crate) tag: u16,
    /// Where the item is.
    pub(crate) item: Offset,
}

/// A set of slots of one bucket, one bit each.
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

/// The bytes of `word` that equal `tag`: bit `i` for byte `i`.
#[inline(always)]
fn equal_bytes(word: u64, tag: u8) -> u32 {
    let difference = word ^ (LOW_BYTES * u64::from(tag));
    // Exact, unlike the shorter trick: no byte is reported because of its neighbour.
    let nonzero = ((difference & !HIGH_BITS) + !HIGH_BITS) | difference;
    let zero = (!nonzero & HIGH_BITS) >> 7;
    (zero.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

impl Bucket<'_> {
    /// The slots whose tag has this low byte.
    #[inline(always)]
    pub(crate) fn with_low(self, low: u8) -> Slots {
        let first = equal_bytes(load(&self.0[0]), low);
        let second = equal_bytes(load(&self.0[1]), low) & ((1 << TAGS_IN_WORD_1) - 1);
        Slots(first | (second << 8))
    }

    /// The slots whose tag is `tag`.
    #[inline(always)]
    pub(crate) fn with_tag(self, tag: u16) -> impl Iterator<Item = usize> {
        self.with_low(tag as u8).filter(move |slot| self.has_more(*slot, tag))
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
        let low = (load(&self.0[slot / 8]) >> (slot % 8 * 8)) as u8;
        let more = (load(&self.0[1]) >> (MORE_SHIFT + slot * MORE_BITS)) & MORE_MASK;
        (low != 0).then(|| Entry { tag: u16::from(low) | ((more as u16) << 8), item: self.item(slot) })
    }

    /// The place that slot `slot` holds.
    #[inline(always)]
    pub(crate) fn item(self, slot: usize) -> Offset {
        let low = load(&self.0[3 + slot / 2]) >> (slot % 2 * 32) & 0xffff_ffff;
        let (word, shift) = Self::high_at(slot);
        let high = load(&self.0[word]) >> shift & 0xff;
        Offset::from_units(high << 32 | low)
    }

    #[inline(always)]
    fn high_at(slot: usize) -> (usize, usize) {
        if slot < 8 { (2, slot * 8) } else { (1, (slot - 6) * 8) }
    }

    /// Fills slot `slot`. The caller holds the bucket's counter.
    pub(crate) fn put(self, slot: usize, entry: Entry) {
        let units = entry.item.units();
        self.set_bits(3 + slot / 2, slot % 2 * 32, 0xffff_ffff, units & 0xffff_ffff);
        let (word, shift) = Self::high_at(slot);
        self.set_bits(word, shift, 0xff, units >> 32);
        self.set_bits(1, MORE_SHIFT + slot * MORE_BITS, MORE_MASK, u64::from(entry.tag >> 8));
        self.set_bits(slot / 8, slot % 8 * 8, 0xff, u64::from(entry.tag & 0xff));
    }

    /// Empties slot `slot`. The caller holds the bucket's counter.
    pub(crate) fn clear(self, slot: usize) {
        self.set_bits(slot / 8, slot % 8 * 8, 0xff, 0);
    }

    #[inline(always)]
    fn set_bits(self, word: usize, shift: usize, mask: u64, value: u64) {
        let cell = &self.0[word];
        store(cell, load(cell) & !(mask << shift) | (value & mask) << shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(bucket.with_tag(entry(slot).tag).collect::<Vec<_>>(), [slot]);
            assert_eq!(bucket.with_tag(entry(slot).tag ^ 0x100).count(), 0);
        }
        bucket.clear(9);
        bucket.clear(3);
        assert_eq!(bucket.free().collect::<Vec<_>>(), [3, 9]);
        assert_eq!(bucket.entry(8), Some(entry(8)));
        assert_eq!(bucket.entry(9), None);
    }

    #[test]
    fn tags_are_compared_exactly_and_the_unused_bytes_are_none() {
        for tag in 0..=255u8 {
            for word in [0, u64::MAX, 0x0001_0203_0405_0607, 0x8081_7f00_ff01_0080, LOW_BYTES] {
                let expected = word
                    .to_le_bytes()
                    .iter()
                    .enumerate()
                    .map(|(i, byte)| u32::from(*byte == tag) << i)
                    .sum::<u32>();
                assert_eq!(equal_bytes(word, tag), expected, "{word:x} {tag}");
            }
        }
        let words = empty();
        Bucket(&words).put(0, Entry { tag: 5, item: Offset::from_units(1) });
        assert_eq!(Bucket(&words).free().count(), 9);
    }
}
