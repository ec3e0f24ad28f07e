//! A lock-free slab allocator.
//!
//! A bitmap at the end of a page marks its free chunks; a thread allocates chunks by clearing bits, and frees them by
//! setting bits. The pages of a class with free chunks are on its *stack*; a page is on it once, or held by a thread
//! that has popped it and will push it back. So a thread that stalls anywhere in here hides that page, or the few
//! among which it looks for the emptiest ([`LockFreeSlab::hold_emptiest`]), and its own chunks, and blocks no other
//! thread.
//!
//! A page changes its class when all its chunks are free and held by the thread that changes it: see
//! [`LockFreeSlab::empty`].
//!
//! ```text
//! descriptor:  | … | listed | class + 1 |      link: the page below on a stack
//! ```

mod pool;
mod restore;
mod stack;
#[cfg(test)]
mod tests;

use super::classes::{ClassId, ClassTable, Geometry};
use super::page::{PAGE_BYTES, PageId};
use crate::budget::Budget;
use crate::region::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use guira_sync::words::WORD;
use pool::Pool;
pub use restore::Touched;
use stack::{Links, Stack};
use std::ops::Range;
use std::sync::Arc;

/// The allocator: a range of a Region divided into pages.
#[derive(Debug)]
pub struct LockFreeSlab {
    region: Arc<Region>,
    budget: Arc<Budget>,
    classes: ClassTable,
    descriptors: Offset,
    links: Offset,
    pages: Offset,
    page_count: u32,
    pool: Pool,
    shares: Vec<Share>,
}

#[derive(Debug, Default)]
struct Share {
    /// Pages with free chunks. All others with free chunks are held.
    partial: Stack,
    pages: Padded<AtomicU64>,
    /// Free chunks. Relaxed, like the number of pages: concurrent changes may not be counted yet. Wraps below zero
    /// for a moment.
    free: Padded<AtomicU64>,
}

/// Descriptors and links are allocated for as many pages at once: 4 KiB of each.
const DESCRIBED_AT_ONCE: u32 = 512;

const CLASS_BITS: u64 = 0xff;
/// The page is on its class's stack, or held by a thread that will push it.
const LISTED: u64 = 1 << 8;

/// A page that was popped off its class's stack, to be emptied.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "nobody else has the page"]
pub struct HeldPage {
    page: PageId,
    class: ClassId,
    /// The number of free chunks when it was popped.
    free: u32,
}

impl HeldPage {
    pub fn page(&self) -> PageId {
        self.page
    }

    pub fn class(&self) -> ClassId {
        self.class
    }
}

/// The bits of a bitmap word that stand for chunks of the page.
fn whole_word(geometry: &Geometry, word: u32) -> u64 {
    let left = geometry.chunks - word * 64;
    if left >= 64 { u64::MAX } else { (1 << left) - 1 }
}

fn lowest(bits: u64, count: usize) -> u64 {
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    bits & !rest
}

impl LockFreeSlab {
    /// Bytes of the descriptors and links of `page_count` pages.
    pub const fn metadata_bytes(page_count: usize) -> usize {
        page_count * 2 * WORD
    }

    /// An allocator for the `page_count` pages that begin at `pages`, with their metadata at `metadata`. Pages are
    /// charged to `budget` when they are committed; the system commits `commit_pages` at once, a power of two.
    pub fn new(
        region: Arc<Region>,
        budget: Arc<Budget>,
        classes: ClassTable,
        metadata: Offset,
        pages: Offset,
        page_count: u32,
        commit_pages: u32,
    ) -> Self {
        let shares = classes.ids().map(|_| Share::default()).collect();
        LockFreeSlab {
            region,
            budget,
            classes,
            descriptors: metadata,
            links: metadata.plus(page_count as usize * WORD),
            pages,
            page_count,
            pool: Pool::new(page_count, commit_pages),
            shares,
        }
    }

    #[inline(always)]
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }

    fn links(&self) -> Links<'_> {
        Links { region: &self.region, at: self.links }
    }

    #[inline(always)]
    fn descriptor(&self, page: PageId) -> &AtomicU64 {
        self.region.word(self.descriptors.plus(page.0 as usize * WORD))
    }

    fn share(&self, class: ClassId) -> &Share {
        &self.shares[usize::from(class.0)]
    }

    fn start_of(&self, page: PageId) -> Offset {
        self.pages.plus(page.0 as usize * PAGE_BYTES)
    }

    fn bitmap(&self, page: PageId, word: u32) -> &AtomicU64 {
        self.region.word(self.start_of(page).plus(PAGE_BYTES - (word as usize + 1) * WORD))
    }

    /// The page that `at` lies in. `at` may come from a racy read.
    #[inline(always)]
    pub fn page_at(&self, at: Offset) -> Option<PageId> {
        let page = at.bytes().checked_sub(self.pages.bytes())? / PAGE_BYTES;
        (page < self.page_count as usize).then_some(PageId(page as u32))
    }

    /// The class of the chunk at `at`, which may come from a racy read.
    #[inline(always)]
    pub fn class_at(&self, at: Offset) -> Option<ClassId> {
        self.class_of(self.page_at(at)?)
    }

    #[inline(always)]
    pub fn class_of(&self, page: PageId) -> Option<ClassId> {
        // Relaxed: a thread that owns or announced a chunk of the page knows that its class is stable; others must
        // not rely on the result.
        let descriptor = self.descriptor(page).load(Ordering::Relaxed);
        ((descriptor & CLASS_BITS) as u8).checked_sub(1).map(ClassId)
    }

    /// Allocates up to `want` chunks of `class`. Returns their number.
    pub fn take(&self, class: ClassId, want: usize, out: &mut Vec<Offset>) -> usize {
        let mut taken = 0;
        while taken < want {
            let Some(page) = self.share(class).partial.pop(self.links()) else {
                break;
            };
            taken += self.take_from(page, class, want - taken, out);
            if taken < want {
                // No chunks were left at the last check.
                self.unlist(page, class);
            } else {
                self.share(class).partial.push(self.links(), page);
            }
        }
        self.share(class).free.fetch_sub(taken as u64, Ordering::Relaxed);
        taken
    }

    /// Allocates chunks of a held page.
    fn take_from(&self, page: PageId, class: ClassId, want: usize, out: &mut Vec<Offset>) -> usize {
        let geometry = self.classes.geometry(class);
        let mut taken = 0;
        for word in 0..geometry.bitmap_words {
            if taken == want {
                break;
            }
            let mut bits = self.take_bits(self.bitmap(page, word), want - taken);
            while bits != 0 {
                let chunk = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                out.push(self.start_of(page).plus(geometry.start_of(chunk)));
                taken += 1;
            }
        }
        taken
    }

    /// Clears up to `want` bits of a word.
    fn take_bits(&self, word: &AtomicU64, want: usize) -> u64 {
        // Acquire: pairs with the Release in `give`: the previous owner's accesses to the chunk happened before.
        let mut free = word.load(Ordering::Acquire);
        while free != 0 {
            let mine = if want >= 64 { free } else { lowest(free, want) };
            match word.compare_exchange_weak(free, free & !mine, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return mine,
                Err(other) => free = other,
            }
        }
        0
    }

    /// Marks a held page, whose chunks all seem allocated, as not listed.
    fn unlist(&self, page: PageId, class: ClassId) {
        // SeqCst, like the check after it, and the opposite order in `give`: at least one of the two sees the other.
        self.descriptor(page).fetch_and(!LISTED, Ordering::SeqCst);
        let geometry = self.classes.geometry(class);
        let has_free =
            (0..geometry.bitmap_words).any(|word| self.bitmap(page, word).load(Ordering::SeqCst) != 0);
        if has_free {
            self.list(page);
        }
    }

    /// Pushes a page on the stack of its class, if it is not listed.
    fn list(&self, page: PageId) {
        // SeqCst: see `unlist`.
        let before = self.descriptor(page).fetch_or(LISTED, Ordering::SeqCst);
        if before & LISTED == 0
            && let Some(class) = ((before & CLASS_BITS) as u8).checked_sub(1)
        {
            self.share(ClassId(class)).partial.push(self.links(), page);
        }
    }

    pub fn give(&self, at: Offset) {
        let Some(page) = self.page_at(at) else {
            return;
        };
        let Some(class) = self.class_of(page) else {
            return;
        };
        let geometry = self.classes.geometry(class);
        let chunk = geometry.chunk_at(at.bytes() - self.start_of(page).bytes());
        self.share(class).free.fetch_add(1, Ordering::Relaxed);
        // Release: pairs with the Acquire in `take_bits`. SeqCst: see `unlist`.
        self.bitmap(page, chunk / 64).fetch_or(1 << (chunk % 64), Ordering::SeqCst);
        if self.descriptor(page).load(Ordering::SeqCst) & LISTED == 0 {
            self.list(page);
        }
    }

    /// Adds a page without a class to `class`. False if there is none, or no memory for it.
    pub fn grow(&self, class: ClassId) -> bool {
        let describe = |pages| self.describe(pages);
        let Some(page) = self.pool.acquire(self.links(), &self.region, &self.budget, self.pages, describe)
        else {
            return false;
        };
        self.serve(page, class);
        true
    }

    /// Allocates the descriptors and links of new pages, which follow the existing ones. False if the file system is
    /// full.
    fn describe(&self, pages: Range<u32>) -> bool {
        if !pages.clone().any(|page| page.is_multiple_of(DESCRIBED_AT_ONCE)) {
            return true;
        }
        let first = pages.start / DESCRIBED_AT_ONCE * DESCRIBED_AT_ONCE;
        let last = pages.end.next_multiple_of(DESCRIBED_AT_ONCE).min(self.page_count);
        let (from, length) = (first as usize * WORD, (last - first) as usize * WORD);
        [self.descriptors, self.links].iter().all(|at| self.region.back(at.bytes() + from, length))
    }

    /// Allocates the file space of all pages in classes, and of their metadata. False if the file system is full.
    pub fn back_serving(&self) -> bool {
        let Touched { pages, paid } = self.touched();
        let in_use = |page: u32| page >= pages || self.class_of(PageId(page)).is_some();
        self.describe(0..pages + paid)
            && (0..pages + paid)
                .filter(|page| in_use(*page))
                .all(|page| self.region.back(self.start_of(PageId(page)).bytes(), PAGE_BYTES))
    }

    /// Adds a page that we own to a class.
    fn serve(&self, page: PageId, class: ClassId) {
        let geometry = self.classes.geometry(class);
        for word in 0..geometry.bitmap_words {
            self.bitmap(page, word).store(whole_word(geometry, word), Ordering::Relaxed);
        }
        // Release: with the push below, for the thread that pops the page.
        self.descriptor(page).store((u64::from(class.0) + 1) | LISTED, Ordering::Release);
        self.share(class).pages.fetch_add(1, Ordering::Relaxed);
        self.share(class).free.fetch_add(u64::from(geometry.chunks), Ordering::Relaxed);
        self.share(class).partial.push(self.links(), page);
    }

    /// Pops the emptiest of the first `choice` pages off the stack of `class`, but none of those that were `tried`, so that it can be emptied. The caller has to
    /// pass it to [`LockFreeSlab::empty`] or [`LockFreeSlab::put_back`].
    pub fn hold_emptiest(&self, class: ClassId, choice: usize, tried: &[PageId]) -> Option<HeldPage> {
        let mut best: Option<HeldPage> = None;
        let mut others = Vec::with_capacity(choice);
        for _ in 0..choice {
            let Some(page) = self.share(class).partial.pop(self.links()) else {
                break;
            };
            let held = HeldPage { page, class, free: self.free_in(page, class) };
            match &best {
                _ if tried.contains(&page) => others.push(held),
                Some(other) if other.free >= held.free => others.push(held),
                _ => others.extend(best.replace(held)),
            }
        }
        others.into_iter().for_each(|held| self.put_back(held));
        best
    }

    fn free_in(&self, page: PageId, class: ClassId) -> u32 {
        let geometry = self.classes.geometry(class);
        (0..geometry.bitmap_words)
            .map(|word| self.bitmap(page, word).load(Ordering::Relaxed).count_ones())
            .sum()
    }

    pub fn put_back(&self, held: HeldPage) {
        self.share(held.class).partial.push(self.links(), held.page);
    }

    /// The allocated chunks of a held page.
    pub fn occupied(&self, held: &HeldPage) -> Vec<Offset> {
        let geometry = self.classes.geometry(held.class);
        let mut all = Vec::with_capacity((geometry.chunks - held.free.min(geometry.chunks)) as usize);
        for word in 0..geometry.bitmap_words {
            let mut bits = whole_word(geometry, word) & !self.bitmap(held.page, word).load(Ordering::Relaxed);
            while bits != 0 {
                let chunk = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                all.push(self.start_of(held.page).plus(geometry.start_of(chunk)));
            }
        }
        all
    }

    /// Takes a held page out of its class.
    ///
    /// # Errors
    /// When one of its chunks is not free: then the page is still held.
    pub fn empty(&self, held: HeldPage) -> Result<Emptied, HeldPage> {
        let geometry = self.classes.geometry(held.class);
        // A thread that has all the bits has all the chunks: no other thread can allocate one.
        let whole = |word: u32| {
            let all = whole_word(geometry, word);
            self.bitmap(held.page, word)
                .compare_exchange(all, 0, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        let claimed = (0..geometry.bitmap_words).take_while(|word| whole(*word)).count() as u32;
        if claimed < geometry.bitmap_words {
            for word in 0..claimed {
                self.bitmap(held.page, word).fetch_or(whole_word(geometry, word), Ordering::Release);
            }
            return Err(held);
        }
        self.descriptor(held.page).store(0, Ordering::Relaxed);
        self.share(held.class).pages.fetch_sub(1, Ordering::Relaxed);
        self.share(held.class).free.fetch_sub(u64::from(geometry.chunks), Ordering::Relaxed);
        Ok(Emptied { page: held.page })
    }

    /// Adds an empty page to a class.
    pub fn hand_over(&self, emptied: Emptied, class: ClassId) {
        self.serve(emptied.page, class);
    }

    /// Keeps an empty page in the pool.
    pub fn release(&self, emptied: Emptied) {
        self.pool.keep(self.links(), emptied.page);
    }

    /// Gives the memory of an empty page back to the system and to the budget. False if the system refuses: then the
    /// page is kept in the pool.
    pub fn surrender(&self, emptied: Emptied) -> bool {
        self.pool.surrender(self.links(), &self.region, &self.budget, self.pages, emptied.page)
    }

    /// Gives the memory of a page in the pool back. False if there is none, or the system refuses.
    pub fn surrender_pooled(&self) -> bool {
        match self.pool.take_kept(self.links()) {
            Some(page) => self.surrender(Emptied { page }),
            None => false,
        }
    }

    pub fn free_chunks(&self, class: ClassId) -> u64 {
        (self.share(class).free.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    pub fn pages_of(&self, class: ClassId) -> u64 {
        self.share(class).pages.load(Ordering::Relaxed)
    }

    pub fn pool_size(&self) -> u64 {
        self.pool.size()
    }
}

/// An owned page that belongs to no class.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Emptied {
    page: PageId,
}
