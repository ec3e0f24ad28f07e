//! What policies note of chunks: a few bytes for each, beside the pages and not in them, so that an item is the
//! same with every policy, and another policy can take over while the cache is used.
//!
//! Metadata lies in a mapping of its own, with a fixed part for each page, which is committed when a page comes to a class
//! and given back when it leaves. It does not outlive the process: an engine that goes on with a Region begins anew.

#[cfg(test)]
use crate::policy::CHUNKS_MAX;
use crate::policy::{Notes, Side};
use guira_items::{OpenError, Residence};
use guira_memory::slab::{Geometry, PAGE_BYTES, PageId, SMALLEST_CHUNK};
use guira_memory::{HugePages, KIB, Region};
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The most bytes that a policy notes of a chunk.
const BYTES_MAX: usize = 16;

/// Bytes in a word of notes.
const WORD: usize = size_of::<u32>();

/// Bytes of the mapping for each page, whatever its class.
const STRIDE: usize = (PAGE_BYTES / SMALLEST_CHUNK * BYTES_MAX).next_multiple_of(LARGEST_STEP);

/// The most bytes that the system commits at once: the largest pages of arm64.
const LARGEST_STEP: usize = 64 * KIB;

/// How the links of a class are written: with no more bits than the numbers of its chunks need.
///
/// The links of a chunk lie together: the whole bytes of the newer one, those of the older one, and if half a byte is needed beyond, one byte with both halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkFormat {
    bits: u32,
}

impl LinkFormat {
    /// For a class with so many chunks at the most. 0 and the largest number are no chunks.
    fn of(chunks: u64) -> Self {
        let bits = u64::BITS - (chunks + 1).leading_zeros();
        LinkFormat { bits: bits.next_multiple_of(4).clamp(8, u32::BITS) }
    }

    /// The link at an end of a list.
    fn end(self) -> u32 {
        u32::MAX >> (u32::BITS - self.bits)
    }

    fn whole_bytes(self) -> usize {
        self.bits as usize / 8
    }

    fn has_half(self) -> bool {
        !self.bits.is_multiple_of(8)
    }

    /// Bytes of both links.
    fn bytes(self) -> usize {
        self.bits as usize / 4
    }
}

/// Where the notes on the chunks of a class are in the part of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    words: usize,
    links_at: usize,
    format: LinkFormat,
}

/// What one policy notes of all chunks.
#[derive(Debug)]
pub(crate) struct Metadata {
    region: Region,
    pages: usize,
    /// What is noted of each chunk: [`Metadata::packed`]. Changed only while no session uses this area. Relaxed: a session
    /// hears of the policy under a lock, or by its read hook, or passes a quiescent point before.
    notes: AtomicU32,
    /// Whether any policy ever used this area.
    used: AtomicBool,
}

impl Metadata {
    /// Metadata for the chunks of `pages` pages. Costs address space only.
    pub(crate) fn new(pages: usize, residence: Residence) -> Result<Self, OpenError> {
        let bytes = pages * STRIDE;
        let reserve = |source| OpenError::Reserve { bytes, source };
        let mut region = Region::anonymous(bytes, HugePages::No).map_err(reserve)?;
        if residence == Residence::Locked {
            region.lock().map_err(|source| OpenError::Lock { bytes, source })?;
        }
        Ok(Metadata { region, pages, notes: AtomicU32::new(0), used: AtomicBool::new(false) })
    }

    fn packed(notes: Notes) -> u32 {
        (notes.count() as u32) << 1 | u32::from(notes.has_links())
    }

    #[inline(always)]
    pub(crate) fn notes(&self) -> Notes {
        let packed = self.notes.load(Ordering::Relaxed);
        let words = Notes::words(packed as usize >> 1);
        if packed & 1 == 1 { words.and_links() } else { words }
    }

    pub(crate) fn set_notes(&self, notes: Notes) {
        debug_assert!(notes.count() * WORD + if notes.has_links() { 8 } else { 0 } <= BYTES_MAX);
        self.notes.store(Self::packed(notes), Ordering::Relaxed);
        if !notes.is_none() {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any policy ever used this area.
    pub(crate) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Gives the metadata of a page back, by whatever policy.
    pub(crate) fn discard_all(&self, page: PageId) {
        if self.was_used() {
            self.discard(page, STRIDE);
        }
    }

    /// How the links of a class are written.
    fn format(&self, geometry: &Geometry) -> LinkFormat {
        LinkFormat::of(self.pages as u64 * u64::from(geometry.chunks))
    }

    /// Bytes of what is noted of a chunk of this class.
    pub(crate) fn chunk_bytes(&self, geometry: &Geometry, notes: Notes) -> usize {
        let links = if notes.has_links() { self.format(geometry).bytes() } else { 0 };
        notes.count() * WORD + links
    }

    /// Bytes for a page of this layout.
    pub(crate) fn bytes(&self, geometry: &Geometry) -> usize {
        self.bytes_of(geometry, self.notes())
    }

    /// Bytes for such a page if that is noted of each chunk.
    pub(crate) fn bytes_of(&self, geometry: &Geometry, notes: Notes) -> usize {
        let bytes = geometry.chunks as usize * self.chunk_bytes(geometry, notes);
        bytes.next_multiple_of(HugePages::No.commit_step())
    }

    #[inline(always)]
    pub(super) fn layout(&self, geometry: &Geometry) -> Layout {
        let words = self.notes().count();
        Layout { words, links_at: geometry.chunks as usize * words * WORD, format: self.format(geometry) }
    }

    #[inline(always)]
    pub(super) fn word(&self, layout: Layout, (page, chunk): (PageId, u32), word: usize) -> &AtomicU32 {
        self.region.half(page.0 as usize * STRIDE + (chunk as usize * layout.words + word) * WORD)
    }

    /// Where the links of a chunk begin.
    fn links_at(layout: Layout, (page, chunk): (PageId, u32)) -> usize {
        page.0 as usize * STRIDE + layout.links_at + chunk as usize * layout.format.bytes()
    }

    /// A link of a chunk. Links are loaded and stored under the lock of the order.
    #[inline]
    pub(super) fn link(&self, layout: Layout, place: (PageId, u32), side: Side) -> u32 {
        let (at, format) = (Self::links_at(layout, place), layout.format);
        let whole = format.whole_bytes();
        let first = at + usize::from(side == Side::Older) * whole;
        let byte = |at: usize| u32::from(self.region.byte(at).load(Ordering::Relaxed));
        let mut link = (0..whole).map(|number| byte(first + number) << (8 * number)).sum();
        if format.has_half() {
            let shift = if side == Side::Older { 4 } else { 0 };
            link |= (byte(at + 2 * whole) >> shift & 0xf) << (8 * whole);
        }
        if link == format.end() { u32::MAX } else { link }
    }

    #[inline]
    pub(super) fn set_link(&self, layout: Layout, place: (PageId, u32), side: Side, link: u32) {
        let (at, format) = (Self::links_at(layout, place), layout.format);
        debug_assert!(link < format.end() || link == u32::MAX);
        let whole = format.whole_bytes();
        let first = at + usize::from(side == Side::Older) * whole;
        for number in 0..whole {
            self.region.byte(first + number).store((link >> (8 * number)) as u8, Ordering::Relaxed);
        }
        if format.has_half() {
            let byte = self.region.byte(at + 2 * whole);
            let (half, other) = ((link >> (8 * whole)) as u8 & 0xf, byte.load(Ordering::Relaxed));
            let both = if side == Side::Older { half << 4 | other & 0xf } else { half | other & 0xf0 };
            byte.store(both, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, layout: Layout, place: (PageId, u32)) {
        if layout.words > 0 {
            let word = place.1 as usize * layout.words;
            self.region.prefetch(place.0.0 as usize * STRIDE + word * WORD);
        }
        if self.notes().has_links() {
            self.region.prefetch(Self::links_at(layout, place));
        }
    }

    /// Gives the metadata of a page back, of which `bytes` bytes are in use: it is zero from now on.
    pub(crate) fn discard(&self, page: PageId, bytes: usize) {
        // Anonymous memory is always taken back, unless it is locked and the limit has changed: then it is erased.
        if self.region.discard(page.0 as usize * STRIDE, bytes).is_err() {
            for at in 0..bytes {
                self.region.byte(page.0 as usize * STRIDE + at).store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_room_for_every_chunk_and_for_the_end() {
        for chunks in [0, 1, 253, 254, 255, 4094, 65_534, 1 << 20, (1 << 24) - 2, 1 << 24, (1 << 28) - 1] {
            let format = LinkFormat::of(chunks);
            assert!(u64::from(format.end()) > chunks, "{chunks}: {format:?}");
            assert!(format.bits <= 12 || chunks >> (format.bits - 5) > 0, "{chunks}: {format:?} is too wide");
        }
        assert_eq!(LinkFormat::of(u64::from(CHUNKS_MAX)).bits, 32);
    }

    #[test]
    fn links_of_every_width_are_kept_and_change_no_others() {
        let metadata = Metadata::new(2, Residence::Swappable).unwrap();
        for bits in (8..=32).step_by(4) {
            let layout = Layout { words: 1, links_at: 400, format: LinkFormat { bits } };
            let mut random = 1u32;
            let mut kept = std::collections::HashMap::new();
            for step in 0..2000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let place = (PageId(step % 2), (random >> 20) % 100);
                let side = if random >> 13 & 1 == 0 { Side::Newer } else { Side::Older };
                let link = if step % 7 == 0 { u32::MAX } else { random % layout.format.end() };
                metadata.set_link(layout, place, side, link);
                kept.insert((place.0.0, place.1, side == Side::Newer), link);
            }
            for ((page, chunk, is_newer), link) in kept {
                let side = if is_newer { Side::Newer } else { Side::Older };
                assert_eq!(metadata.link(layout, (PageId(page), chunk), side), link, "{bits} bits");
            }
        }
    }
}
