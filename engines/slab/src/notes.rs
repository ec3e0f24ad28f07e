//! What policies note of chunks: a few words of 32 bits for each, beside the pages and not in them, so that an item is the same whatever the
//! policy, and another policy can take over while the cache is used.
//!
//! Notes lie in a mapping of their own, a fixed part of it for each page, which is committed when a page comes to a class, and given back
//! when it leaves. They do not outlive the process: an engine that goes on with a Region begins them anew.

use crate::circle::Circle;
use crate::core::Core;
use crate::index::Scheme;
use crate::policy::clock::ReadBits;
use crate::policy::{Chunk, Chunks};
use guira_items::{OpenError, Residence};
use guira_memory::slab::{ClassId, Geometry, PAGE_BYTES, PageId, SMALLEST_CHUNK};
use guira_memory::{HugePages, Offset, Region};
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Most words that a policy notes of a chunk.
pub(crate) const WORDS_MAX: usize = 4;

/// Bytes in a word of notes.
pub(crate) const NOTE: usize = 4;

/// Bytes of the mapping for each page, whatever its class.
const STRIDE: usize = (PAGE_BYTES / SMALLEST_CHUNK * WORDS_MAX * NOTE).next_multiple_of(STEP);

/// The system commits so much of it at once.
const STEP: usize = 4096;

/// The notes of one policy on all chunks there are. There are two of them: while one policy takes over from another each has its own.
#[derive(Debug)]
pub(crate) struct Notes {
    region: Region,
    /// Words noted of each chunk; 0: nothing is noted here. Changed only while nobody notes anything. Relaxed: who is told to use it is told
    /// under a lock, or passes a quiescent point before.
    words: AtomicU32,
    /// Whether anything was ever noted here.
    used: AtomicBool,
}

impl Notes {
    /// Room for notes on the chunks of `pages` pages. Costs address space only.
    pub(crate) fn new(pages: usize, residence: Residence) -> Result<Self, OpenError> {
        let bytes = pages * STRIDE;
        let reserve = |source| OpenError::Reserve { bytes, source };
        let mut region = Region::anonymous(bytes, HugePages::No).map_err(reserve)?;
        if residence == Residence::Locked {
            region.lock().map_err(|source| OpenError::Lock { bytes, source })?;
        }
        Ok(Notes { region, words: AtomicU32::new(0), used: AtomicBool::new(false) })
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words.load(Ordering::Relaxed) as usize
    }

    /// From now on so many words are noted of each chunk.
    pub(crate) fn set_words(&self, words: usize) {
        debug_assert!(words <= WORDS_MAX);
        self.words.store(words as u32, Ordering::Relaxed);
        if words > 0 {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anything was ever noted here.
    pub(crate) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Gives back whatever is noted of a page, if anything ever was.
    pub(crate) fn discard_all(&self, page: PageId) {
        if self.was_used() {
            self.discard(page, STRIDE);
        }
    }

    /// Bytes of notes on a page of this layout.
    pub(crate) fn bytes(&self, geometry: &Geometry) -> usize {
        Self::bytes_of(geometry, self.words())
    }

    /// Bytes of so many words of notes on each chunk of such a page.
    pub(crate) fn bytes_of(geometry: &Geometry, words: usize) -> usize {
        (geometry.chunks as usize * words * NOTE).next_multiple_of(STEP)
    }

    #[inline(always)]
    fn word(&self, page: PageId, chunk: u32, word: usize) -> &AtomicU32 {
        self.region.half(page.0 as usize * STRIDE + (chunk as usize * self.words() + word) * NOTE)
    }

    /// Asks for what is noted of a chunk.
    #[inline(always)]
    fn prefetch(&self, page: PageId, chunk: u32) {
        self.region.prefetch(page.0 as usize * STRIDE + chunk as usize * self.words() * NOTE);
    }

    /// Gives the notes on a page back; they are zero from now on. `bytes` of them are in use.
    pub(crate) fn discard(&self, page: PageId, bytes: usize) {
        // Anonymous memory is always taken back, unless it is locked and the limit has changed: then it is erased.
        if self.region.discard(page.0 as usize * STRIDE, bytes).is_err() {
            for at in (0..bytes).step_by(NOTE) {
                self.region.half(page.0 as usize * STRIDE + at).store(0, Ordering::Relaxed);
            }
        }
    }
}

/// The chunks of one class, as a policy sees them. Notes are loaded and stored Relaxed: most are only touched under the lock of the class's
/// order, and of the others a lost one is a misjudged item.
pub(crate) struct ClassChunks<'a, X: Scheme> {
    pub(crate) core: &'a Core<X>,
    pub(crate) notes: &'a Notes,
    pub(crate) geometry: Geometry,
    /// The class's pages, to draw chunks from at random.
    pub(crate) pages: &'a [PageId],
    /// The hand of the class, if it may be turned.
    pub(crate) circle: Option<&'a Circle<'a>>,
}

impl<'a, X: Scheme> ClassChunks<'a, X> {
    /// The chunks of a class, with what is noted of them in an area.
    pub(crate) fn new(core: &'a Core<X>, area: usize, class: ClassId, pages: &'a [PageId]) -> Self {
        let geometry = *core.memory.classes().geometry(class);
        ClassChunks { core, notes: &core.notes[area], geometry, pages, circle: None }
    }

    /// The same for an order that may turn the hand.
    pub(crate) fn with_hand(self, circle: &'a Circle<'a>) -> Self {
        ClassChunks { circle: Some(circle), ..self }
    }

    /// The number of a chunk.
    #[inline(always)]
    pub(crate) fn number(&self, page: PageId, chunk: u32) -> Chunk {
        page.0 * self.geometry.chunks + chunk
    }

    #[inline(always)]
    fn parts(&self, chunk: Chunk) -> (PageId, u32) {
        (PageId(chunk / self.geometry.chunks), chunk % self.geometry.chunks)
    }

    /// Where the item in a chunk begins.
    pub(crate) fn place(&self, chunk: Chunk) -> Offset {
        let (page, chunk) = self.parts(chunk);
        self.core.memory.start_of(page).plus(self.geometry.start_of(chunk))
    }
}

impl<X: Scheme> Core<X> {
    /// Asks for what is noted of the chunk at `at`. It may come from a racy read.
    #[inline(never)]
    pub(crate) fn prefetch_notes(&self, at: Offset) {
        if let Some((page, _, chunk)) = self.memory.locate(at) {
            self.notes.iter().filter(|notes| notes.words() > 0).for_each(|notes| notes.prefetch(page, chunk));
        }
    }
}

impl<X: Scheme> Chunks for ClassChunks<'_, X> {
    #[inline]
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        let (page, chunk) = self.parts(chunk);
        self.notes.word(page, chunk, word).load(Ordering::Relaxed)
    }

    #[inline]
    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        let (page, chunk) = self.parts(chunk);
        self.notes.word(page, chunk, word).store(value, Ordering::Relaxed);
    }

    fn is_recent(&self, chunk: Chunk) -> bool {
        self.core.memory.is_recent(self.place(chunk))
    }

    fn forget(&self, chunk: Chunk) {
        self.core.memory.forget(self.place(chunk), self.geometry.chunk as usize);
    }

    fn is_dead(&self, chunk: Chunk) -> bool {
        let now = self.core.shell.time_seen();
        self.core.item(self.place(chunk), now).is_some_and(|item| self.core.dead(&item, now).is_some())
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        self.core.hash_at(self.place(chunk)).map_or(0, |hash| hash.0 as u32)
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        let below = |half: u64, many: usize| ((half * many as u64) >> 32) as usize;
        let page = *self.pages.get(below(random >> 32, self.pages.len()))?;
        let chunk = below(random & u64::from(u32::MAX), self.geometry.chunks as usize) as u32;
        Some(self.number(page, chunk))
    }

    fn is_held(&self, chunk: Chunk) -> bool {
        let (page, chunk) = self.parts(chunk);
        let bits = self.core.memory.occupied(page, chunk / 64).load(Ordering::Relaxed);
        bits >> (chunk % 64) & 1 == 1
    }

    fn prefetch(&self, chunk: Chunk) {
        self.core.shell.region().prefetch(self.place(chunk).bytes());
        let (page, chunk) = self.parts(chunk);
        self.core.memory.prefetch_occupied(page, chunk / 64);
        self.notes.prefetch(page, chunk);
    }

    fn sweep(&self, counted: ReadBits, want: usize, mut take: impl FnMut(Chunk)) {
        if let Some(circle) = self.circle {
            circle.sweep(&self.core.memory, counted, want, |page, chunk| take(self.number(page, chunk)));
        }
    }
}
