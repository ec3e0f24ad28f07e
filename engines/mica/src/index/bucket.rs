//! A bucket of the index: fifteen slots in two cache lines (MICA, section 4.3.2).
//!
//! ```text
//! line 0: | version 4 | 15 tags of 2 | 15 high parts of offsets, of 2 |
//! line 1: | link 4    | 15 low parts of offsets, of 4                 |
//! ```
//!
//! A slot is a tag, 16 bits of the hash and never 0, and an offset in the log, of 48 bits. The paper keeps the two together; apart, all tags
//! are compared by a few instructions, and a key that is not there costs one line instead of two.
//!
//! The version is odd while the holder of the partition changes the bucket, or an item that it leads to in a way that readers notice.

use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::words::{self, Line, PAIRS, WORD};

pub(crate) const SLOTS: usize = PAIRS;
pub(crate) const BUCKET_BYTES: usize = 2 * size_of::<Line>();
/// Bits of an offset in a slot.
pub(crate) const OFFSET_BITS: u32 = 48;

const TAGS_AT: usize = 4;
const HIGHS_AT: usize = TAGS_AT + 2 * SLOTS;
const LOWS_AT: usize = 4;

// Both lines are full, and tags lie where they are compared.
const _: () = assert!(HIGHS_AT + 2 * SLOTS == 64 && LOWS_AT + 4 * SLOTS == 64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a> {
    lines: &'a [Line; 2],
}

/// 16 bits of a hash: they tell a key from most others of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u16);

impl Tag {
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> Self {
        Tag((hash as u16).max(1))
    }
}

/// A version that a reader started from; even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version(u32);

/// Slots, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(u32);

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (slot < SLOTS).then_some(slot)
    }
}

/// Replaces `bits` bits of the word of `line` that byte `at` lies in, from that byte on. The caller is its only writer.
fn put(line: &Line, at: usize, bits: u32, value: u64) {
    let (word, shift) = (&line[at / WORD], at % WORD * 8);
    let mask = ((1u64 << bits) - 1) << shift;
    words::store(word, words::load(word) & !mask | value << shift);
}

impl<'a> Bucket<'a> {
    #[inline(always)]
    pub(crate) fn new(lines: &'a [Line; 2]) -> Self {
        Bucket { lines }
    }

    #[inline(always)]
    fn version_word(&self) -> &AtomicU64 {
        &self.lines[0][0]
    }

    /// The version to start a read from, or `None` while the bucket is being changed.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Option<Version> {
        // Acquire: pairs with the Release of `Open`.
        let version = self.version_word().load(Ordering::Acquire) as u32;
        (version & 1 == 0).then_some(Version(version))
    }

    /// Whether the version is still this one, before a read that starts from it.
    #[inline(always)]
    pub(crate) fn begins_as(&self, version: Version) -> bool {
        // Acquire: as in `begin`.
        self.version_word().load(Ordering::Acquire) as u32 == version.0
    }

    /// Whether everything that was read since `begin` was there at one moment.
    #[inline(always)]
    pub(crate) fn is_still(&self, version: Version) -> bool {
        // Acquire fence: pairs with the Release fence in `open`.
        fence(Ordering::Acquire);
        self.version_word().load(Ordering::Relaxed) as u32 == version.0
    }

    /// Changes the bucket, or items that it leads to. The caller holds the partition, and has not opened the bucket.
    #[inline(always)]
    pub(crate) fn change<R>(&self, act: impl FnOnce() -> R) -> R {
        let open = self.open();
        let result = act();
        drop(open);
        result
    }

    /// Makes the version odd until the guard is dropped. As above.
    #[inline(always)]
    pub(crate) fn open(&self) -> Open<'a> {
        let version = (words::load(self.version_word()) as u32).wrapping_add(1);
        debug_assert!(version & 1 == 1, "no other session changes the bucket");
        put(&self.lines[0], 0, 32, u64::from(version));
        // Release fence: pairs with the Acquire fence in `is_still`: a reader that saw any of what follows sees the odd version, or a later one.
        fence(Ordering::Release);
        Open(*self)
    }

    #[inline(always)]
    pub(crate) fn tagged(&self, tag: Tag) -> Slots {
        Slots(words::which_pairs(&self.lines[0], tag.0))
    }

    /// The slots that are empty.
    pub(crate) fn empty(&self) -> Slots {
        Slots(words::which_pairs(&self.lines[0], 0))
    }

    pub(crate) fn used(&self) -> Slots {
        Slots(!words::which_pairs(&self.lines[0], 0) & ((1 << SLOTS) - 1))
    }

    pub(crate) fn tag(&self, slot: usize) -> Tag {
        Tag(words::two_of(&self.lines[0], TAGS_AT + 2 * slot))
    }

    #[inline(always)]
    pub(crate) fn offset(&self, slot: usize) -> u64 {
        let high = words::two_of(&self.lines[0], HIGHS_AT + 2 * slot);
        u64::from(high) << 32 | u64::from(words::four_of(&self.lines[1], LOWS_AT + 4 * slot))
    }

    /// The number of the next bucket of the chain, plus one; 0 at its end. A reader may see a torn link.
    #[inline(always)]
    pub(crate) fn link(&self) -> u32 {
        words::four_of(&self.lines[1], 0)
    }

    /// Within [`Bucket::change`].
    pub(crate) fn set_link(&self, link: u32) {
        put(&self.lines[1], 0, 32, u64::from(link));
    }

    /// Fills a slot. Within [`Bucket::change`].
    pub(crate) fn set(&self, slot: usize, tag: Tag, offset: u64) {
        put(&self.lines[0], TAGS_AT + 2 * slot, 16, u64::from(tag.0));
        put(&self.lines[0], HIGHS_AT + 2 * slot, 16, offset >> 32 & 0xffff);
        put(&self.lines[1], LOWS_AT + 4 * slot, 32, offset & u64::from(u32::MAX));
    }

    /// Empties a slot. Within [`Bucket::change`].
    pub(crate) fn clear(&self, slot: usize) {
        put(&self.lines[0], TAGS_AT + 2 * slot, 16, 0);
    }
}

/// A bucket that is being changed.
#[derive(Debug)]
#[must_use = "the version becomes even again when this is dropped"]
pub(crate) struct Open<'a>(Bucket<'a>);

impl Drop for Open<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let word = words::load(self.0.version_word());
        let version = u64::from((word as u32).wrapping_add(1));
        // Release: pairs with the Acquire in `begin`.
        self.0.version_word().store(word & !u64::from(u32::MAX) | version, Ordering::Release);
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_apart_and_the_version_with_them() {
        let lines: [Line; 2] = Default::default();
        let bucket = Bucket::new(&lines);
        let begun = bucket.begin().unwrap();
        let offset = |slot: usize| 0xfedc_ba98_7654 ^ (slot as u64 * 0x0101_0101_0101);
        bucket.change(|| {
            assert_eq!(bucket.begin(), None);
            (0..SLOTS).for_each(|slot| bucket.set(slot, Tag(slot as u16 + 1), offset(slot)));
        });
        assert!(!bucket.is_still(begun));
        let version = bucket.begin().unwrap();
        for slot in 0..SLOTS {
            assert_eq!((bucket.tag(slot), bucket.offset(slot)), (Tag(slot as u16 + 1), offset(slot)));
            assert_eq!(bucket.tagged(Tag(slot as u16 + 1)).collect::<Vec<_>>(), [slot]);
        }
        assert_eq!((bucket.empty().count(), bucket.used().count()), (0, SLOTS));
        bucket.change(|| bucket.clear(7));
        assert_eq!(bucket.empty().collect::<Vec<_>>(), [7]);
        assert_eq!(bucket.used().count(), SLOTS - 1);
        assert!(!bucket.is_still(version));
        assert_eq!(Tag::of(0x10000), Tag(1), "an empty slot has tag 0");
    }
}
