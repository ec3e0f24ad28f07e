//! What policies note of chunks: a few words of 32 bits for each, beside the pages and not in them, so that an item is the
//! same with every policy, and another policy can take over while the cache is used.
//!
//! Metadata lies in a mapping of its own, with a fixed part for each page, which is committed when a page comes to a class
//! and given back when it leaves. It does not outlive the process: an engine that goes on with a Region begins anew.

use guira_items::{OpenError, Residence};
use guira_memory::slab::{Geometry, PAGE_BYTES, PageId, SMALLEST_CHUNK};
use guira_memory::{HugePages, KIB, Region};
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Most words that a policy notes of a chunk.
pub(crate) const WORDS_MAX: usize = 4;

/// Bytes in a word of notes.
pub(crate) const NOTE: usize = 4;

/// Bytes of the mapping for each page, whatever its class.
const STRIDE: usize = (PAGE_BYTES / SMALLEST_CHUNK * WORDS_MAX * NOTE).next_multiple_of(LARGEST_STEP);

/// The most bytes that the system commits at once: the largest pages of arm64.
const LARGEST_STEP: usize = 64 * KIB;

/// What one policy notes of all chunks.
#[derive(Debug)]
pub(crate) struct Metadata {
    region: Region,
    /// Words of each chunk; 0 while no policy uses this area. Changed only while no session uses it. Relaxed: a session
    /// hears of the policy under a lock, or by its read hook, or passes a quiescent point before.
    words: AtomicU32,
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
        Ok(Metadata { region, words: AtomicU32::new(0), used: AtomicBool::new(false) })
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_words(&self, words: usize) {
        debug_assert!(words <= WORDS_MAX);
        self.words.store(words as u32, Ordering::Relaxed);
        if words > 0 {
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

    /// Bytes for a page of this layout.
    pub(crate) fn bytes(&self, geometry: &Geometry) -> usize {
        Self::bytes_of(geometry, self.words())
    }

    /// Bytes for such a page with `words` words for each chunk.
    pub(crate) fn bytes_of(geometry: &Geometry, words: usize) -> usize {
        (geometry.chunks as usize * words * NOTE).next_multiple_of(HugePages::No.commit_step())
    }

    #[inline(always)]
    pub(super) fn word(&self, page: PageId, chunk: u32, word: usize) -> &AtomicU32 {
        self.region.half(page.0 as usize * STRIDE + (chunk as usize * self.words() + word) * NOTE)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, page: PageId, chunk: u32) {
        self.region.prefetch(page.0 as usize * STRIDE + chunk as usize * self.words() * NOTE);
    }

    /// Gives the metadata of a page back, of which `bytes` bytes are in use: it is zero from now on.
    pub(crate) fn discard(&self, page: PageId, bytes: usize) {
        // Anonymous memory is always taken back, unless it is locked and the limit has changed: then it is erased.
        if self.region.discard(page.0 as usize * STRIDE, bytes).is_err() {
            for at in (0..bytes).step_by(NOTE) {
                self.region.half(page.0 as usize * STRIDE + at).store(0, Ordering::Relaxed);
            }
        }
    }
}
