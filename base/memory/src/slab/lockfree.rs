//! A slab allocator in which nobody waits.
//!
//! A page knows by a bitmap at its end which of its chunks are free; whoever wants chunks takes bits away, whoever gives them back
//! sets them. The pages of a class that have free chunks are on its *stack*; a page is on it once, or held by somebody who has just taken it
//! from there and will put it back. So a thread that stands still anywhere in here hides that page, or the few among which it looks for the emptiest
//! ([`LockFreeSlab::hold_emptiest`]), and the chunks that it has, and stops nobody.
//!
//! A page changes its class when all its chunks are free and in the hands of whoever changes it: see [`LockFreeSlab::empty`].
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

/// What a class has.
#[derive(Debug, Default)]
struct Share {
    /// Pages with free chunks. No other page of the class has any, but those that somebody holds.
    partial: Stack,
    pages: Padded<AtomicU64>,
    /// Free chunks. Relaxed, as the number of pages: what others do meanwhile may not be counted yet. Wraps below zero for a moment.
    free: Padded<AtomicU64>,
}

/// Room for descriptors and links is allocated for so many pages at once: 4 KiB of each.
const DESCRIBED_AT_ONCE: u32 = 512;

const CLASS_BITS: u64 = 0xff;
/// The page is on its class's stack, or held by somebody who will put it there.
const LISTED: u64 = 1 << 8;

/// A page that was taken off its class's stack, to be emptied.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    page: PageId,
    class: ClassId,
    /// How many of its chunks were free when it was taken.
    free: u32,
}

impl Held {
    /// The page.
    pub fn page(&self) -> PageId {
        self.page
    }

    /// The class that it is still in.
    pub fn class(&self) -> ClassId {
        self.class
    }
}

/// The parts of a bitmap word that stand for chunks of the page.
fn whole_word(geometry: &Geometry, word: u32) -> u64 {
    let left = geometry.chunks - word * 64;
    if left >= 64 { u64::MAX } else { (1 << left) - 1 }
}

/// The lowest `count` bits that are set in `bits`.
fn lowest(bits: u64, count: usize) -> u64 {
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    bits & !rest
}

impl LockFreeSlab {
    /// Bytes that the descriptors and links of `page_count` pages take.
    pub const fn metadata_bytes(page_count: usize) -> usize {
        page_count * 2 * WORD
    }

    /// An allocator for the `page_count` pages that begin at `pages`, with their metadata at `metadata`. Every page that is put to
    /// use is taken from `budget`; the system commits `commit_pages` at once, a power of two.
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

    /// The classes.
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

    /// The class that a page belongs to.
    #[inline(always)]
    pub fn class_of(&self, page: PageId) -> Option<ClassId> {
        // Relaxed: whoever owns a chunk of the page, or announced it, knows that it stays; nobody else believes this.
        let descriptor = self.descriptor(page).load(Ordering::Relaxed);
        ((descriptor & CLASS_BITS) as u8).checked_sub(1).map(ClassId)
    }

    /// Takes up to `want` free chunks of `class`. Returns how many.
    pub fn take(&self, class: ClassId, want: usize, out: &mut Vec<Offset>) -> usize {
        let mut taken = 0;
        while taken < want {
            let Some(page) = self.share(class).partial.pop(self.links()) else {
                break;
            };
            taken += self.take_from(page, class, want - taken, out);
            if taken < want {
                // Nothing was left when we looked last.
                self.unlist(page, class);
            } else {
                self.share(class).partial.push(self.links(), page);
            }
        }
        self.share(class).free.fetch_sub(taken as u64, Ordering::Relaxed);
        taken
    }

    /// Takes chunks of a page that we hold.
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

    /// Takes up to `want` bits of a word.
    fn take_bits(&self, word: &AtomicU64, want: usize) -> u64 {
        // Acquire: pairs with the Release in `give`: what was done with the chunk before lies behind us.
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

    /// A page that we hold has no free chunks, as far as we have seen.
    fn unlist(&self, page: PageId, class: ClassId) {
        // SeqCst, as the look after it, and what `give` does in the opposite order: one of the two sees the other.
        self.descriptor(page).fetch_and(!LISTED, Ordering::SeqCst);
        let geometry = self.classes.geometry(class);
        let has_free =
            (0..geometry.bitmap_words).any(|word| self.bitmap(page, word).load(Ordering::SeqCst) != 0);
        if has_free {
            self.list(page);
        }
    }

    /// Puts a page on the stack of its class, if it is not there.
    fn list(&self, page: PageId) {
        // SeqCst: see `unlist`.
        let before = self.descriptor(page).fetch_or(LISTED, Ordering::SeqCst);
        if before & LISTED == 0
            && let Some(class) = ((before & CLASS_BITS) as u8).checked_sub(1)
        {
            self.share(ClassId(class)).partial.push(self.links(), page);
        }
    }

    /// Gives a chunk back.
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

    /// Adds a page to `class`, of those that are in none. False if there is none, or no memory for it.
    pub fn grow(&self, class: ClassId) -> bool {
        let describe = |pages| self.describe(pages);
        let Some(page) = self.pool.acquire(self.links(), &self.region, &self.budget, self.pages, describe)
        else {
            return false;
        };
        self.serve(page, class);
        true
    }

    /// Sees to it that there is room for the descriptors and links of pages, of which none before them is new. False if there is none.
    fn describe(&self, pages: Range<u32>) -> bool {
        if !pages.clone().any(|page| page.is_multiple_of(DESCRIBED_AT_ONCE)) {
            return true;
        }
        let first = pages.start / DESCRIBED_AT_ONCE * DESCRIBED_AT_ONCE;
        let last = pages.end.next_multiple_of(DESCRIBED_AT_ONCE).min(self.page_count);
        let (from, length) = (first as usize * WORD, (last - first) as usize * WORD);
        [self.descriptors, self.links].iter().all(|at| self.region.back(at.bytes() + from, length))
    }

    /// Sees to it that there is room for all pages that are in classes, and for what is known of them. False if there is none.
    pub fn back_serving(&self) -> bool {
        let Touched { pages, paid } = self.touched();
        let in_use = |page: u32| page >= pages || self.class_of(PageId(page)).is_some();
        self.describe(0..pages + paid)
            && (0..pages + paid)
                .filter(|page| in_use(*page))
                .all(|page| self.region.back(self.start_of(PageId(page)).bytes(), PAGE_BYTES))
    }

    /// Puts a page to use, which is ours alone.
    fn serve(&self, page: PageId, class: ClassId) {
        let geometry = self.classes.geometry(class);
        for word in 0..geometry.bitmap_words {
            self.bitmap(page, word).store(whole_word(geometry, word), Ordering::Relaxed);
        }
        // Release: with the push below, for whoever takes the page.
        self.descriptor(page).store((u64::from(class.0) + 1) | LISTED, Ordering::Release);
        self.share(class).pages.fetch_add(1, Ordering::Relaxed);
        self.share(class).free.fetch_add(u64::from(geometry.chunks), Ordering::Relaxed);
        self.share(class).partial.push(self.links(), page);
    }

    /// Takes the emptiest of the first `choice` pages with free chunks off the stack of `class`, so that it can be emptied. It has to
    /// be given to [`LockFreeSlab::empty`] or [`LockFreeSlab::put_back`].
    pub fn hold_emptiest(&self, class: ClassId, choice: usize) -> Option<Held> {
        let mut best: Option<Held> = None;
        let mut others = Vec::with_capacity(choice);
        for _ in 0..choice {
            let Some(page) = self.share(class).partial.pop(self.links()) else {
                break;
            };
            let held = Held { page, class, free: self.free_in(page, class) };
            match &best {
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

    /// Puts a page back that was held.
    pub fn put_back(&self, held: Held) {
        self.share(held.class).partial.push(self.links(), held.page);
    }

    /// The chunks of a page that are not free.
    pub fn occupied(&self, held: &Held) -> Vec<Offset> {
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

    /// Takes a page out of its class of which all chunks are free; otherwise it is put back.
    pub fn empty(&self, held: Held) -> Option<Emptied> {
        let geometry = self.classes.geometry(held.class);
        // Whoever has all the bits has all the chunks: nobody else can get one any more.
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
            self.put_back(held);
            return None;
        }
        self.descriptor(held.page).store(0, Ordering::Relaxed);
        self.share(held.class).pages.fetch_sub(1, Ordering::Relaxed);
        self.share(held.class).free.fetch_sub(u64::from(geometry.chunks), Ordering::Relaxed);
        Some(Emptied { page: held.page })
    }

    /// Gives an empty page to a class.
    pub fn hand_over(&self, emptied: Emptied, class: ClassId) {
        self.serve(emptied.page, class);
    }

    /// Keeps an empty page for whichever class needs one next.
    pub fn release(&self, emptied: Emptied) {
        self.pool.keep(self.links(), emptied.page);
    }

    /// Gives the memory of an empty page back to the system and to the budget. False if the system refuses: then it is kept for the
    /// next class that needs one.
    pub fn surrender(&self, emptied: Emptied) -> bool {
        self.pool.surrender(self.links(), &self.region, &self.budget, self.pages, emptied.page)
    }

    /// Gives the memory of a page back that is in no class. False if there is none, or the system refuses.
    pub fn surrender_pooled(&self) -> bool {
        match self.pool.take_kept(self.links()) {
            Some(page) => self.surrender(Emptied { page }),
            None => false,
        }
    }

    /// Chunks of a class that are free.
    pub fn free_chunks(&self, class: ClassId) -> u64 {
        (self.share(class).free.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// The class with the most free memory but `except`, and how many bytes that is.
    pub fn richest(&self, except: Option<ClassId>) -> Option<(ClassId, u64)> {
        let others = self.classes.ids().filter(|class| Some(*class) != except && self.pages_of(*class) > 0);
        let free = others
            .map(|class| (class, self.free_chunks(class) * u64::from(self.classes.geometry(class).chunk)));
        free.max_by_key(|(_, bytes)| *bytes)
    }

    /// Pages of a class.
    pub fn pages_of(&self, class: ClassId) -> u64 {
        self.share(class).pages.load(Ordering::Relaxed)
    }

    /// Pages that are committed and in no class.
    pub fn pool_size(&self) -> u64 {
        self.pool.size()
    }
}

/// A page that belongs to no class, on its way to one.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Emptied {
    page: PageId,
}
