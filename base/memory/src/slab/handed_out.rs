//! The set of allocated chunks, to be compared with the references to them while no thread uses the memory.

use super::classes::{ClassId, ClassTable};
use super::page::{PAGE_BYTES, PageId};
use crate::region::Offset;

/// The allocated chunks, and which of them are claimed: referred to by an item.
#[derive(Debug)]
pub struct HandedOut<'a> {
    classes: &'a ClassTable,
    start: Offset,
    /// For each page its class, and the index of its first bit.
    pages: Vec<(Option<ClassId>, usize)>,
    /// The bits of allocated and unclaimed chunks.
    bits: Vec<u64>,
}

impl<'a> HandedOut<'a> {
    /// The chunks of the pages from `start` on, which belong to these classes. `occupied` returns a word of a page's
    /// bitmap of allocated chunks.
    pub(super) fn of(
        classes: &'a ClassTable,
        start: Offset,
        pages: impl Iterator<Item = Option<ClassId>>,
        occupied: impl Fn(PageId, ClassId, u32) -> u64,
    ) -> Self {
        let mut handed = HandedOut { classes, start, pages: Vec::new(), bits: Vec::new() };
        for (page, class) in (0..).map(PageId).zip(pages) {
            handed.pages.push((class, handed.bits.len()));
            if let Some(class) = class {
                let words = classes.geometry(class).bitmap_words;
                handed.bits.extend((0..words).map(|word| occupied(page, class, word)));
            }
        }
        handed
    }

    /// The word and mask of the chunk whose item begins at `at`, and its class; `None` if there is none.
    #[inline(always)]
    fn find(&self, at: Offset) -> Option<(usize, u64, ClassId)> {
        let in_pages = at.bytes().checked_sub(self.start.bytes())?;
        let (class, begin) = *self.pages.get(in_pages / PAGE_BYTES)?;
        let class = class?;
        let geometry = self.classes.geometry(class);
        let chunk = geometry.chunk_at(in_pages % PAGE_BYTES);
        let is_start = chunk < geometry.chunks && geometry.start_of(chunk) == in_pages % PAGE_BYTES;
        is_start.then(|| (begin + chunk as usize / 64, 1 << (chunk % 64), class))
    }

    /// Claims the chunk whose item begins at `at`, an untrusted offset. Returns its class; `None` if there is no such
    /// chunk, if it is free, or if it was claimed before.
    #[inline(always)]
    pub fn claim(&mut self, at: Offset) -> Option<ClassId> {
        let (word, mask, class) = self.find(at)?;
        let is_new = self.bits[word] & mask != 0;
        self.bits[word] &= !mask;
        is_new.then_some(class)
    }

    pub fn disclaim(&mut self, at: Offset) {
        if let Some((word, mask, _)) = self.find(at) {
            self.bits[word] |= mask;
        }
    }

    /// Whether the allocated chunk at `at` was claimed.
    pub fn is_claimed(&self, at: Offset) -> bool {
        self.find(at).is_some_and(|(word, mask, _)| self.bits[word] & mask == 0)
    }

    pub fn unclaimed(&self) -> impl Iterator<Item = Offset> {
        let in_classes = self.pages.iter().enumerate();
        let in_classes = in_classes.filter_map(|(page, (class, begin))| Some((page, (*class)?, *begin)));
        in_classes.flat_map(move |(page, class, begin)| {
            let (geometry, start) = (self.classes.geometry(class), self.start.plus(page * PAGE_BYTES));
            (0..geometry.bitmap_words).flat_map(move |word| {
                let mut bits = self.bits[begin + word as usize];
                std::iter::from_fn(move || {
                    let chunk = (bits != 0).then(|| word * 64 + bits.trailing_zeros())?;
                    bits &= bits - 1;
                    Some(start.plus(geometry.start_of(chunk)))
                })
            })
        })
    }
}
