//! Recency bits: set by readers, cleared by CLOCK hands.

use super::{ClassGuard, SlabMemory};
use crate::region::Offset;
use crate::slab::{PAGE_BYTES, PageId};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::words::WORD;

/// Bytes of a page that share a recency bit: a chunk covers several bits, of which the first two count. In chunks of
/// 24 bytes every third bit belongs to two chunks, whose recency is then the same.
///
/// A bitmap with a bit for each chunk would be half as large, but finding a chunk's bit in it takes the page's class
/// and a division, for every read; and at the same place in every page, all bitmaps would compete for the same few
/// cache sets.
const GRANULE: usize = 32;

/// A larger chunk has a second recency bit: wherever it begins, the granule after the first is its own. Chunks are
/// multiples of words, so an item of more bytes lies in such a chunk, even if it is shorter than that.
const ONE_BIT: usize = 2 * GRANULE - WORD;

/// Bytes of recency bits for a page.
pub(super) const RECENCY_BYTES: usize = PAGE_BYTES / GRANULE / 8;

/// The first recency bit of a new item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBit {
    /// The item has a new key.
    Clear,
    /// The item replaces another of the same key, which counts as a read.
    Set,
}

impl SlabMemory {
    /// The word with the recency bit of the chunk at `at`, in bytes from the start of the Region, and the bit. `at`
    /// may come from a racy read.
    #[inline(always)]
    fn recency(&self, at: Offset) -> Option<(usize, u64)> {
        let in_pages = at.bytes().wrapping_sub(self.pages.bytes());
        if in_pages >= self.page_count as usize * PAGE_BYTES {
            return None;
        }
        let granule = in_pages / GRANULE;
        Some((self.recency.bytes() + granule / 64 * WORD, 1 << (granule % 64)))
    }

    #[inline(always)]
    fn recency_word(&self, at: usize) -> &AtomicU64 {
        self.region.word(Offset::from_bytes(at as u64))
    }

    /// Prefetches the word that [`SlabMemory::touch`] accesses.
    #[inline(always)]
    pub fn prefetch_recency(&self, at: Offset) {
        if let Some((word, _)) = self.recency(at) {
            self.region.prefetch(word);
        }
    }

    /// The second recency bit of a chunk of at least `bytes` bytes whose first one is `bit`; 0 if it has none,
    /// because it is too small, or its second bit would lie in another word.
    #[inline(always)]
    fn second(bit: u64, bytes: usize) -> u64 {
        if bytes > ONE_BIT { bit << 1 } else { 0 }
    }

    /// Records a read: sets the first clear recency bit of the chunk at `at`, of the one or two that a chunk of at
    /// least `bytes` bytes has.
    #[inline(always)]
    pub fn touch(&self, at: Offset, bytes: usize) {
        if let Some((word, bit)) = self.recency(at) {
            let word = self.recency_word(word);
            // Relaxed, and no read-modify-write: a locked instruction would keep the processor from overlapping the
            // next lookup. A concurrent change of a neighbour's bit may be lost; these bits are hints, and one
            // neighbour's recency is then wrong once.
            let bits = word.load(Ordering::Relaxed);
            let clear = (bit | Self::second(bit, bytes)) & !bits;
            if clear != 0 {
                word.store(bits | (clear & clear.wrapping_neg()), Ordering::Relaxed);
            }
        }
    }

    /// Initializes the recency bits of the chunk at `at`, of at least `bytes` bytes, for a new item. (In a small
    /// cache an item may be so much shorter than its chunk that it has one bit only; then the chunk's second one
    /// stays as it was.)
    #[inline(always)]
    pub fn renew(&self, at: Offset, bytes: usize, first: FirstBit) {
        if let Some((word, bit)) = self.recency(at) {
            let word = self.recency_word(word);
            // As in `touch`.
            let bits = word.load(Ordering::Relaxed);
            let others = bits & !(bit | Self::second(bit, bytes));
            let renewed = if first == FirstBit::Set { others | bit } else { others };
            if renewed != bits {
                word.store(renewed, Ordering::Relaxed);
            }
        }
    }

    /// Clears the recency bits of the chunk at `at`, which has at least `bytes` bytes.
    pub fn forget(&self, at: Offset, bytes: usize) {
        if let Some((word, bit)) = self.recency(at) {
            self.recency_word(word).fetch_and(!(bit | Self::second(bit, bytes)), Ordering::Relaxed);
        }
    }

    /// Clears the last set recency bit of the chunk at `at`, which has at least `bytes` bytes.
    pub fn decay(&self, at: Offset, bytes: usize) {
        if let Some((word, bit)) = self.recency(at) {
            let (word, second) = (self.recency_word(word), Self::second(bit, bytes));
            let last = if word.load(Ordering::Relaxed) & second != 0 { second } else { bit };
            word.fetch_and(!last, Ordering::Relaxed);
        }
    }

    /// Whether the first recency bit of the chunk at `at` is set.
    pub fn is_recent(&self, at: Offset) -> bool {
        self.recency(at).is_some_and(|(word, bit)| self.recency_word(word).load(Ordering::Relaxed) & bit != 0)
    }

    /// How many of the two recency bits of the chunk at `at`, which has at least `bytes` bytes, are set. If it has only one, that counts as two.
    pub fn reads(&self, at: Offset, bytes: usize) -> u32 {
        let Some((word, bit)) = self.recency(at) else { return 0 };
        let bits = self.recency_word(word).load(Ordering::Relaxed);
        match Self::second(bit, bytes) {
            0 if bits & bit != 0 => 2,
            second => (bits & (bit | second)).count_ones(),
        }
    }

    /// The number of recency bits of `page` that are set.
    pub fn recent_in(&self, page: PageId) -> u32 {
        let first = self.recency.bytes() + page.0 as usize * RECENCY_BYTES;
        let words = (first..first + RECENCY_BYTES).step_by(WORD);
        words.map(|at| self.recency_word(at).load(Ordering::Relaxed).count_ones()).sum()
    }
}

impl ClassGuard<'_> {
    /// The chunks among `chunks` (bits of word `word` of the page's bitmap) whose recency bits are set.
    pub fn recent(&self, page: PageId, word: u32, chunks: u64) -> u64 {
        self.each(page, word, chunks).filter(|(_, at)| self.memory.is_recent(*at)).map(|(bit, _)| bit).sum()
    }

    /// Clears the recency bits of `chunks`.
    pub fn clear_recent(&self, page: PageId, word: u32, chunks: u64) {
        self.each(page, word, chunks).for_each(|(_, at)| self.memory.forget(at, self.chunk_bytes()));
    }

    /// Clears the last set recency bit of each of `chunks`.
    pub fn decay_recent(&self, page: PageId, word: u32, chunks: u64) {
        self.each(page, word, chunks).for_each(|(_, at)| self.memory.decay(at, self.chunk_bytes()));
    }

    fn chunk_bytes(&self) -> usize {
        self.geometry.chunk as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::memory;
    use super::*;
    use crate::slab::Source;

    #[test]
    fn the_recency_bit_is_set_on_touch_and_cleared_when_the_chunk_is_handed_out_again() {
        let memory = memory(1);
        let class = memory.classes().class_for(1000).unwrap();
        let mut out = Vec::new();
        let mut guard = memory.lock(class);
        guard.grow(0, 0, Source::Any, 0);
        guard.take(1, &mut out);
        guard.take(3, &mut out);
        memory.touch(out[0], 1000);
        memory.touch(out[2], 1000);
        assert!(memory.is_recent(out[0]) && !memory.is_recent(out[1]) && memory.is_recent(out[2]));
        let (page, _, first) = memory.locate(out[0]).unwrap();
        assert_eq!((first, memory.recent_in(page)), (0, 2));
        assert_eq!((guard.recent(page, 0, 0b1111), guard.recent(page, 0, 0b1000)), (0b101, 0));
        guard.clear_recent(page, 0, 0b0110);
        assert_eq!(guard.recent(page, 0, 0b1111), 0b001);
        memory.touch(out[0], 1000);
        memory.renew(out[0], 1000, FirstBit::Set);
        assert_eq!(memory.recent_in(page), 1, "one of two is left");
        memory.renew(out[0], 1000, FirstBit::Clear);
        assert_eq!(memory.recent_in(page), 0);
        memory.touch(out[0], 1000);
        guard.give(out[0]);
        guard.take(1, &mut out);
        assert_eq!(out[0], out[4]);
        assert!(!memory.is_recent(out[0]));
    }

    #[test]
    fn a_chunk_of_64_bytes_or_more_knows_of_two_reads_and_a_smaller_one_of_one() {
        let memory = memory(2);
        for (bytes, passes) in [(64, 2), (72, 2), (56, 1), (24, 1), (1000, 2)] {
            let class = memory.classes().class_for(bytes).unwrap();
            let mut guard = memory.lock(class);
            let chunk = guard.geometry().chunk as usize;
            let mut out = Vec::new();
            guard.grow(0, 0, Source::Any, 0);
            guard.take(64, &mut out);
            assert_eq!(chunk % WORD, 0);
            // The eighth chunk is read, its neighbours are not. Its item is a little shorter than the chunk.
            let (read, bit) = (out[7], 1 << 7);
            for _ in 0..3 {
                memory.touch(read, chunk - WORD + 1);
            }
            let (page, ..) = memory.locate(read).unwrap();
            assert_eq!(memory.recent_in(page), passes, "chunks of {chunk}");
            assert!(
                out.iter().all(|at| *at == read || chunk < 32 || !memory.is_recent(*at)),
                "chunks of {chunk}"
            );
            assert_eq!((memory.reads(read, chunk), memory.reads(out[3], chunk)), (2, 0), "chunks of {chunk}");
            for _ in 0..passes {
                assert!(memory.is_recent(read));
                guard.decay_recent(page, 0, bit);
            }
            assert_eq!(memory.recent_in(page), 0, "chunks of {chunk}");
            for at in out.drain(..) {
                guard.give(at);
            }
            let (page, _) = guard.drain(0);
            memory.release(page);
        }
    }

    #[test]
    fn the_bits_of_neighbours_are_never_the_same() {
        let memory = memory(1);
        for class in memory.classes().ids().filter(|class| memory.classes().geometry(*class).chunk >= 64) {
            let geometry = memory.classes().geometry(class);
            let bits_of = |chunk: u32| {
                let (word, bit) =
                    memory.recency(memory.start_of(PageId(0)).plus(geometry.start_of(chunk))).unwrap();
                (word, bit | SlabMemory::second(bit, geometry.chunk as usize))
            };
            for chunk in 1..geometry.chunks {
                let ((word, bits), (next, next_bits)) = (bits_of(chunk - 1), bits_of(chunk));
                assert!(word != next || bits & next_bits == 0, "chunks of {}, {chunk}", geometry.chunk);
            }
        }
    }
}
