//! The chunks of a class, as a policy sees them.

use super::circle::Circle;
use super::metadata::{Layout, Metadata};
use crate::items::Items;
use crate::policy::clock::ReadBits;
use crate::policy::{Chunk, Chunks, Side};
use guira_memory::Offset;
use guira_memory::slab::{Geometry, PageId, SlabMemory};
use guira_sync::atomic::Ordering;

/// The chunks of one class, as a policy sees them. Metadata is loaded and stored Relaxed: most is only touched under the
/// lock of the class's order, and where it is not, a lost note is a misjudged item.
pub(crate) struct ClassChunks<'a> {
    items: &'a Items,
    memory: &'a SlabMemory,
    metadata: &'a Metadata,
    layout: Layout,
    geometry: Geometry,
    /// The class's pages, to draw chunks from at random.
    pages: &'a [PageId],
    /// The hand of the class, if it may be turned.
    circle: Option<&'a Circle<'a>>,
}

impl<'a> ClassChunks<'a> {
    /// The chunks of a class of which `pages` are the pages, if they are needed.
    pub(crate) fn new(
        (items, memory): (&'a Items, &'a SlabMemory),
        metadata: &'a Metadata,
        geometry: &Geometry,
        pages: &'a [PageId],
    ) -> Self {
        let layout = metadata.layout(geometry);
        ClassChunks { items, memory, metadata, layout, geometry: *geometry, pages, circle: None }
    }

    /// The same for an order that may turn the hand.
    pub(crate) fn with_hand(self, circle: &'a Circle<'a>) -> Self {
        ClassChunks { circle: Some(circle), ..self }
    }

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
        self.memory.start_of(page).plus(self.geometry.start_of(chunk))
    }
}

impl Chunks for ClassChunks<'_> {
    #[inline]
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.metadata.word(self.layout, self.parts(chunk), word).load(Ordering::Relaxed)
    }

    #[inline]
    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.metadata.word(self.layout, self.parts(chunk), word).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn link(&self, chunk: Chunk, side: Side) -> u32 {
        self.metadata.link(self.layout, self.parts(chunk), side)
    }

    #[inline]
    fn set_link(&self, chunk: Chunk, side: Side, link: u32) {
        self.metadata.set_link(self.layout, self.parts(chunk), side, link);
    }

    #[inline]
    fn reads(&self, chunk: Chunk) -> u32 {
        self.memory.reads(self.place(chunk), self.geometry.chunk as usize)
    }

    #[inline]
    fn fade(&self, chunk: Chunk) {
        self.memory.decay(self.place(chunk), self.geometry.chunk as usize);
    }

    #[inline]
    fn is_recent(&self, chunk: Chunk) -> bool {
        self.memory.is_recent(self.place(chunk))
    }

    #[inline]
    fn forget(&self, chunk: Chunk) {
        self.memory.forget(self.place(chunk), self.geometry.chunk as usize);
    }

    fn is_dead(&self, chunk: Chunk) -> bool {
        self.items.is_dead(self.place(chunk), self.items.shell().time_seen())
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        self.items.hash_at(self.place(chunk)).map_or(0, |hash| hash.0 as u32)
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        let below = |half: u64, many: usize| ((half * many as u64) >> 32) as usize;
        let page = *self.pages.get(below(random >> 32, self.pages.len()))?;
        let chunk = below(random & u64::from(u32::MAX), self.geometry.chunks as usize) as u32;
        Some(self.number(page, chunk))
    }

    fn is_held(&self, chunk: Chunk) -> bool {
        let (page, chunk) = self.parts(chunk);
        let bits = self.memory.occupied(page, chunk / 64).load(Ordering::Relaxed);
        bits >> (chunk % 64) & 1 == 1
    }

    fn prefetch(&self, chunk: Chunk) {
        self.items.region().prefetch(self.place(chunk).bytes());
        let (page, chunk) = self.parts(chunk);
        self.memory.prefetch_occupied(page, chunk / 64);
        self.metadata.prefetch(self.layout, (page, chunk));
    }

    fn sweep(&self, counted: ReadBits, want: usize, mut take: impl FnMut(Chunk)) {
        if let Some(circle) = self.circle {
            circle.sweep(self.memory, counted, want, |page, chunk| take(self.number(page, chunk)));
        }
    }
}
