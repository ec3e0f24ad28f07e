//! The slab allocator of memc3 and classic: pages in classes, chunks in pages.

mod ahead;
mod census;
mod recency;
mod restore;

pub use census::PageCensus;
pub use recency::FirstBit;
pub use restore::NoPages;

use recency::RECENCY_BYTES;

use super::classes::{ClassId, ClassTable, Geometry};
use super::page::{Descriptor, PAGE_BYTES, PageId, PageState};
use crate::budget::Budget;
use crate::region::{Offset, Region};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::waits::Waits;
use guira_sync::words::{self, WORD};
use std::ops::Range;
use std::sync::Arc;

/// The slab allocator: a range of a Region divided into pages.
#[derive(Debug)]
pub struct SlabMemory {
    region: Arc<Region>,
    budget: Arc<Budget>,
    classes: ClassTable,
    descriptors: Offset,
    /// One bit for every 32 bytes of pages.
    recency: Offset,
    pages: Offset,
    page_count: u32,
    /// The number of pages that the system commits at once: a power of two that divides the number of pages.
    commit_pages: u32,
    /// LOCK: slab class. May be held while the pool's lock is taken; never while a version stripe is held.
    states: Vec<Mutex<ClassState>>,
    waits: Waits,
    /// LOCK: page pool. Leaf.
    pool: Mutex<Pool>,
    /// The number of serving pages without allocated chunks. Changed under the locks of their classes. Relaxed: a
    /// hint.
    empty: AtomicU32,
}

#[derive(Debug, Default)]
struct ClassState {
    /// The serving pages, in the order in which the CLOCK hand visits them.
    pages: Vec<PageId>,
    partial: Vec<PageId>,
    free: u64,
}

#[derive(Debug)]
struct Pool {
    /// Committed pages that belonged to a class and are free again.
    free: Vec<PageId>,
    /// Pages that were never used.
    fresh: Range<u32>,
    /// The number of fresh pages that are committed and charged: the system commits several at once, and some are
    /// committed ahead.
    paid: u32,
    /// The pages behind these that are charged, and being committed ahead. Nobody has them yet.
    coming: Range<u32>,
    /// The pages that a thread is committing ahead at the moment, whether somebody has them by now or not.
    touching: Range<u32>,
    /// Pages whose memory was given back to the system.
    surrendered: Vec<PageId>,
    /// How often a range of pages was excluded from the system's huge pages.
    split: u32,
}

/// The most ranges of pages that are excluded from the system's huge pages when their memory is given back, since
/// each may cost the process two of its 65,530 mappings. Beyond that the system may later commit an empty page again
/// together with full ones.
const SPLIT_MAX: u32 = 16_384;

/// Metadata of pages is allocated for as many at once: 64 KiB of recency bits.
const DESCRIBED_AT_ONCE: u32 = 64;

/// The source of a new page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Memory that was never used.
    Fresh,
    /// That, or the pool of pages that other classes have released.
    Any,
}

/// The result of freeing a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The chunk can be allocated again.
    Free,
    /// Its page is draining and still holds other chunks.
    Drained,
    /// Its page is draining and now empty: the caller owns the page, and has to [`SlabMemory::release`] it.
    LastOf(PageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassUse {
    pub pages: u64,
    pub chunks: u64,
    pub free: u64,
}

impl SlabMemory {
    /// Bytes of the descriptors and recency bits of `page_count` pages.
    pub const fn metadata_bytes(page_count: usize) -> usize {
        page_count * (WORD + RECENCY_BYTES)
    }

    /// How many of these bytes are touched while at most `used` pages are in use at once: those of the descriptors,
    /// and those of the recency bits behind them.
    pub const fn metadata_touched(used: usize) -> [usize; 2] {
        [used * WORD, used * RECENCY_BYTES]
    }

    /// An allocator for the `page_count` pages that begin at `pages`, with their metadata at `metadata`. Pages are
    /// charged to `budget` when they are committed; the system commits `commit_pages` at once.
    pub fn new(
        region: Arc<Region>,
        budget: Arc<Budget>,
        classes: ClassTable,
        metadata: Offset,
        pages: Offset,
        page_count: u32,
        commit_pages: u32,
    ) -> Self {
        let (descriptors, recency) = (metadata, metadata.plus(page_count as usize * WORD));
        let states = classes.ids().map(|_| Mutex::new(ClassState::default())).collect();
        let pool = Mutex::new(Pool {
            free: Vec::new(),
            fresh: 0..page_count,
            paid: 0,
            coming: 0..0,
            touching: 0..0,
            surrendered: Vec::new(),
            split: 0,
        });
        SlabMemory {
            region,
            budget,
            classes,
            descriptors,
            recency,
            pages,
            page_count,
            commit_pages,
            states,
            waits: Waits::default(),
            pool,
            empty: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub fn region(&self) -> &Region {
        &self.region
    }

    #[inline(always)]
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }

    #[inline(always)]
    fn descriptor_word(&self, page: PageId) -> &AtomicU64 {
        self.region.word(self.descriptors.plus(page.0 as usize * WORD))
    }

    #[inline(always)]
    fn descriptor(&self, page: PageId) -> Descriptor {
        // Relaxed: a reader that acts on an old descriptor is covered by quiescence, not by this load.
        Descriptor(self.descriptor_word(page).load(Ordering::Relaxed))
    }

    fn set_descriptor(&self, page: PageId, descriptor: Descriptor) {
        self.descriptor_word(page).store(descriptor.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn state_of(&self, page: PageId) -> PageState {
        self.descriptor(page).state()
    }

    #[inline(always)]
    pub fn start_of(&self, page: PageId) -> Offset {
        self.pages.plus(page.0 as usize * PAGE_BYTES)
    }

    /// The page and chunk that `at` lies in, if the page belongs to a class. `at` may come from a racy read.
    #[inline(always)]
    pub fn locate(&self, at: Offset) -> Option<(PageId, &Geometry, u32)> {
        let in_pages = at.bytes().wrapping_sub(self.pages.bytes());
        let page = in_pages / PAGE_BYTES;
        if page >= self.page_count as usize {
            return None;
        }
        let page = PageId(page as u32);
        let geometry = self.classes.get(self.descriptor(page).class()?)?;
        let chunk = geometry.chunk_at(in_pages % PAGE_BYTES);
        (chunk < geometry.chunks).then_some((page, geometry, chunk))
    }

    /// The page that `at` lies in, in any state.
    #[inline(always)]
    pub fn page_at(&self, at: Offset) -> Option<PageId> {
        let page = at.bytes().checked_sub(self.pages.bytes())? / PAGE_BYTES;
        (page < self.page_count as usize).then_some(PageId(page as u32))
    }

    #[inline(always)]
    pub fn class_at(&self, at: Offset) -> Option<ClassId> {
        let page = at.bytes().checked_sub(self.pages.bytes())? / PAGE_BYTES;
        if page >= self.page_count as usize {
            return None;
        }
        self.descriptor(PageId(page as u32)).class()
    }

    /// The word of the occupied bitmap of `page` with bits `word * 64 ..`. The bitmap lies at the end of the page.
    /// Written under the lock of the class.
    #[inline(always)]
    pub fn occupied(&self, page: PageId, word: u32) -> &AtomicU64 {
        self.region.word(self.occupied_at(page, word))
    }

    #[inline(always)]
    fn occupied_at(&self, page: PageId, word: u32) -> Offset {
        self.start_of(page).plus(PAGE_BYTES - (word as usize + 1) * WORD)
    }

    /// Prefetches the word that [`SlabMemory::occupied`] returns.
    #[inline(always)]
    pub fn prefetch_occupied(&self, page: PageId, word: u32) {
        self.region.prefetch(self.occupied_at(page, word).bytes());
    }

    /// Locks a class, to allocate and free its chunks, or to visit its pages.
    pub fn lock(&self, class: ClassId) -> ClassGuard<'_> {
        let state = self.waits.lock(&self.states[usize::from(class.0)]);
        ClassGuard { memory: self, class, geometry: *self.classes.geometry(class), state }
    }

    /// The number of waits for the locks of classes.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    fn lock_pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Takes a page out of the pool or the budget; in addition takes `beside` bytes from the budget.
    fn acquire(&self, source: Source, beside: usize) -> Option<PageId> {
        let mut pool = self.lock_pool();
        if source == Source::Any
            && let Some(page) = pool.free.pop()
        {
            if beside == 0 || self.budget.take_unkept(beside) {
                return Some(page);
            }
            // The page is committed already, but the budget does not allow the extra bytes, and exceeding it would
            // only make another page be drained, again and again. So this page is given back to make room for the
            // next one.
            if !self.give_up(&mut pool, page) {
                self.budget.charge(beside);
                return Some(page);
            }
        }
        if pool.paid == 0 {
            self.take_coming(&mut pool);
        }
        if pool.paid > 0 {
            let is_paid = beside == 0 || self.budget.take_unkept(beside);
            // If there is no room beside it, pages that are ready make some: the next is taken as if none were.
            if is_paid || !self.give_back_paid(&mut pool) {
                if !is_paid {
                    self.budget.charge(beside);
                }
                pool.paid -= 1;
                return pool.fresh.next().map(PageId);
            }
        }
        if let Some(page) = pool.surrendered.last().copied()
            && self.budget.take_unkept(PAGE_BYTES + beside)
        {
            if !self.region.back(self.start_of(page).bytes(), PAGE_BYTES) {
                self.budget.give(PAGE_BYTES + beside);
                return None;
            }
            return pool.surrendered.pop();
        }
        self.acquire_fresh(&mut pool, beside)
    }

    /// Takes a page that was never used. If the system commits several at once, all of them are charged; if the
    /// budget does not allow that, the system is asked to commit them one by one.
    fn acquire_fresh(&self, pool: &mut Pool, beside: usize) -> Option<PageId> {
        let step = self.commit_pages.min(pool.fresh.len() as u32).max(1);
        let next = pool.fresh.start;
        let begins = next.is_multiple_of(self.commit_pages);
        let many = begins
            && step == self.commit_pages
            && self.budget.take_unkept(step as usize * PAGE_BYTES + beside);
        if !many && (pool.fresh.is_empty() || !self.budget.take_unkept(PAGE_BYTES + beside)) {
            return None;
        }
        let count = if many { step } else { 1 };
        if !self.back_fresh(next..next + count) {
            self.budget.give(count as usize * PAGE_BYTES + beside);
            return None;
        }
        pool.paid = count - 1;
        if !many && begins && self.commit_pages > 1 {
            self.region.commit_finely(self.start_of(PageId(next)).bytes(), step as usize * PAGE_BYTES);
        }
        pool.fresh.next().map(PageId)
    }

    /// Allocates the file space of pages that were never used, and of their metadata. False if the file system is
    /// full.
    fn back_fresh(&self, pages: Range<u32>) -> bool {
        let (first, count) = (PageId(pages.start), pages.len());
        let is_described = !pages.clone().any(|page| page.is_multiple_of(DESCRIBED_AT_ONCE))
            || self.back_metadata(pages.start / DESCRIBED_AT_ONCE * DESCRIBED_AT_ONCE..pages.end);
        is_described && self.region.back(self.start_of(first).bytes(), count * PAGE_BYTES)
    }

    /// Allocates the file space of the descriptors and recency bits of pages, the first of which is a multiple of
    /// [`DESCRIBED_AT_ONCE`]. False if the file system is full.
    fn back_metadata(&self, pages: Range<u32>) -> bool {
        let last = pages.end.next_multiple_of(DESCRIBED_AT_ONCE).min(self.page_count);
        let (first, count) = (pages.start as usize, (last - pages.start) as usize);
        let parts = [(self.descriptors, WORD), (self.recency, RECENCY_BYTES)];
        parts.iter().all(|(at, each)| self.region.back(at.bytes() + first * each, count * each))
    }

    /// Allocates the file space of the serving pages among the first `touched`, and of their metadata. False if the
    /// file system is full.
    pub fn back_serving(&self, touched: u32) -> bool {
        let serves = |page: u32| matches!(self.state_of(PageId(page)), PageState::Serving(_));
        self.back_metadata(0..touched)
            && (0..touched)
                .filter(|page| serves(*page))
                .all(|page| self.region.back(self.start_of(PageId(page)).bytes(), PAGE_BYTES))
    }

    /// Puts a drained page back into the pool. Every reader has passed a quiescent point since it was drained.
    pub fn release(&self, page: PageId) {
        debug_assert!(matches!(self.state_of(page), PageState::Draining(_)));
        self.set_descriptor(page, Descriptor::FREE);
        self.lock_pool().free.push(page);
    }

    /// Gives the memory of a drained page back to the system and to the budget. Every reader has passed a quiescent
    /// point since it was drained.
    pub fn surrender(&self, page: PageId) {
        debug_assert!(matches!(self.state_of(page), PageState::Draining(_)));
        self.set_descriptor(page, Descriptor::FREE);
        let mut pool = self.lock_pool();
        if !self.give_up(&mut pool, page) {
            pool.free.push(page);
        }
    }

    /// Gives the memory of a page in no class back. False if the system refuses.
    fn give_up(&self, pool: &mut Pool, page: PageId) -> bool {
        if pool.touching.contains(&page.0)
            || self.region.discard(self.start_of(page).bytes(), PAGE_BYTES).is_err()
        {
            return false;
        }
        self.split(pool, page);
        self.budget.give(PAGE_BYTES);
        pool.surrendered.push(page);
        true
    }

    /// Tells the system not to commit `page` with its neighbours as one huge page.
    fn split(&self, pool: &mut Pool, page: PageId) {
        if self.commit_pages > 1 && pool.split < SPLIT_MAX {
            pool.split += 1;
            let first = page.0 / self.commit_pages * self.commit_pages;
            let length = self.commit_pages.min(self.page_count - first) as usize * PAGE_BYTES;
            self.region.commit_finely(self.start_of(PageId(first)).bytes(), length);
        }
    }

    /// Gives memory of no class back: a page of the pool, if it has more than `kept`, or pages that were committed
    /// along with others and never used. False if there is none.
    pub fn give_back(&self, kept: usize) -> bool {
        let mut pool = self.lock_pool();
        if self.give_back_paid(&mut pool) {
            return true;
        }
        if pool.free.len() <= kept {
            return false;
        }
        let Some(page) = pool.free.pop() else {
            return false;
        };
        let given = self.give_up(&mut pool, page);
        if !given {
            pool.free.push(page);
        }
        given
    }

    /// An estimate of the number of serving pages without allocated chunks.
    pub fn empty_pages(&self) -> u32 {
        self.empty.load(Ordering::Relaxed)
    }

    /// Pages in the pool, which are committed.
    pub fn pool_size(&self) -> usize {
        self.lock_pool().free.len()
    }

    /// The number of pages that were ever used; only these may hold items.
    pub fn pages_touched(&self) -> u32 {
        self.lock_pool().fresh.start
    }
}

#[derive(Debug)]
pub struct ClassGuard<'a> {
    memory: &'a SlabMemory,
    class: ClassId,
    geometry: Geometry,
    state: MutexGuard<'a, ClassState>,
}

impl ClassGuard<'_> {
    pub fn class(&self) -> ClassId {
        self.class
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The serving pages, in the order in which the CLOCK hand visits them.
    pub fn pages(&self) -> &[PageId] {
        &self.state.pages
    }

    pub fn usage(&self) -> ClassUse {
        let pages = self.state.pages.len() as u64;
        ClassUse { pages, chunks: pages * u64::from(self.geometry.chunks), free: self.state.free }
    }

    /// Adds a page to the class, at `index` of [`ClassGuard::pages`]. `beside` bytes are committed elsewhere with
    /// each page, and charged with it: if the budget does not allow both, no memory is committed. False if no page is
    /// left.
    pub fn grow(&mut self, index: usize, stamp: u32, source: Source, beside: usize) -> bool {
        let Some(page) = self.memory.acquire(source, beside) else {
            return false;
        };
        for word in 0..self.geometry.bitmap_words {
            words::store(self.memory.occupied(page, word), 0);
        }
        self.memory.set_descriptor(page, Descriptor::serving(self.class, self.geometry.chunks, stamp));
        self.state.pages.insert(index, page);
        self.state.partial.push(page);
        self.state.free += u64::from(self.geometry.chunks);
        self.memory.empty.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Allocates up to `want` chunks, appending them to `out`. Returns their number.
    pub fn take(&mut self, want: usize, out: &mut Vec<Offset>) -> usize {
        let mut taken = 0;
        while taken < want {
            let Some(&page) = self.state.partial.last() else {
                break;
            };
            let got = self.take_from(page, want - taken, out);
            debug_assert!(got > 0, "a partial page has free chunks");
            taken += got;
        }
        self.state.free -= taken as u64;
        taken
    }

    fn take_from(&mut self, page: PageId, want: usize, out: &mut Vec<Offset>) -> usize {
        let start = self.memory.start_of(page);
        let mut taken = 0;
        for word in 0..self.geometry.bitmap_words {
            let cell = self.memory.occupied(page, word);
            let mut bits = words::load(cell);
            while taken < want {
                let bit = (!bits).trailing_zeros();
                let chunk = word * 64 + bit;
                if bit == 64 || chunk >= self.geometry.chunks {
                    break;
                }
                bits |= 1 << bit;
                let at = start.plus(self.geometry.start_of(chunk));
                self.memory.forget(at, self.geometry.chunk as usize);
                out.push(at);
                taken += 1;
            }
            words::store(cell, bits);
            if taken == want {
                break;
            }
        }
        let descriptor = self.memory.descriptor(page);
        if descriptor.free() == self.geometry.chunks {
            self.memory.empty.fetch_sub(1, Ordering::Relaxed);
        }
        let free = descriptor.free() - taken as u32;
        self.memory.set_descriptor(page, descriptor.with_free(free));
        if free == 0 {
            self.state.partial.pop();
        }
        taken
    }

    /// Frees a chunk of this class.
    ///
    /// # Panics
    /// If `at` lies in no page of a class; in debug builds also if its chunk is not allocated, or belongs to another
    /// class.
    pub fn give(&mut self, at: Offset) -> Given {
        let (page, geometry, chunk) = self.memory.locate(at).expect("a chunk that was handed out");
        debug_assert_eq!(*geometry, self.geometry);
        let cell = self.memory.occupied(page, chunk / 64);
        let bit = 1u64 << (chunk % 64);
        let bits = words::load(cell);
        debug_assert!(bits & bit != 0, "a chunk is given back once");
        words::store(cell, bits & !bit);
        let descriptor = self.memory.descriptor(page);
        let free = descriptor.free() + 1;
        self.memory.set_descriptor(page, descriptor.with_free(free));
        if let PageState::Draining(_) = descriptor.state() {
            return if free == self.geometry.chunks { Given::LastOf(page) } else { Given::Drained };
        }
        self.state.free += 1;
        if free == self.geometry.chunks {
            self.memory.empty.fetch_add(1, Ordering::Relaxed);
        }
        if free == 1 {
            self.state.partial.push(page);
        }
        Given::Free
    }

    /// The time at which `page` was last stamped.
    pub fn stamp(&self, page: PageId) -> u32 {
        self.memory.descriptor(page).stamp()
    }

    pub fn set_stamp(&self, page: PageId, stamp: u32) {
        let descriptor = self.memory.descriptor(page);
        self.memory.set_descriptor(page, descriptor.with_stamp(stamp));
    }

    /// Drains the page at `index` of [`ClassGuard::pages`]: no more of its chunks are allocated. `LastOf` if it is
    /// empty already.
    pub fn drain(&mut self, index: usize) -> (PageId, Given) {
        let page = self.state.pages.remove(index);
        self.state.partial.retain(|other| *other != page);
        let descriptor = self.memory.descriptor(page);
        self.state.free -= u64::from(descriptor.free());
        self.memory.set_descriptor(page, descriptor.draining());
        if descriptor.free() < self.geometry.chunks {
            return (page, Given::Drained);
        }
        self.memory.empty.fetch_sub(1, Ordering::Relaxed);
        (page, Given::LastOf(page))
    }

    /// The index in [`ClassGuard::pages`] of a page without allocated chunks.
    pub fn empty_page(&self) -> Option<usize> {
        if self.state.free < u64::from(self.geometry.chunks) {
            return None;
        }
        let is_empty = |page: &&PageId| self.memory.descriptor(**page).free() == self.geometry.chunks;
        let empty = *self.state.partial.iter().find(is_empty)?;
        self.state.pages.iter().position(|page| *page == empty)
    }

    /// The bits that are set in `chunks`, each with its chunk.
    fn each(&self, page: PageId, word: u32, mut chunks: u64) -> impl Iterator<Item = (u64, Offset)> {
        let (start, geometry) = (self.memory.start_of(page), self.geometry);
        std::iter::from_fn(move || {
            let bit = (chunks != 0).then(|| chunks.trailing_zeros())?;
            chunks &= chunks - 1;
            Some((1 << bit, start.plus(geometry.start_of(word * 64 + bit))))
        })
    }

    pub fn occupied_chunks(&self, page: PageId) -> Vec<Offset> {
        (0..).map_while(|part| self.occupied_of(page, part)).flatten().collect()
    }

    /// The chunks in use of one of the parts of a page, which have up to 64 chunks each. `None` if it has no such part.
    pub fn occupied_of(&self, page: PageId, part: u32) -> Option<impl Iterator<Item = Offset>> {
        let has_part = part < self.geometry.bitmap_words;
        let bits = has_part.then(|| words::load(self.memory.occupied(page, part)))?;
        Some(self.each(page, part, bits).map(|(_, chunk)| chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::HugePages;
    use std::collections::HashSet;

    pub(super) fn memory(pages: u32) -> SlabMemory {
        let region = Arc::new(Region::anonymous((pages as usize + 1) * PAGE_BYTES, HugePages::No).unwrap());
        let budget = Arc::new(Budget::new(pages as usize * PAGE_BYTES));
        let start = Offset::from_bytes(PAGE_BYTES as u64);
        SlabMemory::new(region, budget, ClassTable::new(1.08, 24), Offset::from_bytes(64), start, pages, 1)
    }

    #[test]
    fn pages_are_paid_for_as_they_are_committed() {
        let region = Arc::new(Region::anonymous(64 * PAGE_BYTES, HugePages::Requested).unwrap());
        let budget = Arc::new(Budget::new(11 * PAGE_BYTES));
        let start = Offset::from_bytes(8 * PAGE_BYTES as u64);
        let (classes, metadata) = (ClassTable::new(1.08, 24), Offset::from_bytes(64));
        let memory = SlabMemory::new(region, budget.clone(), classes, metadata, start, 32, 8);
        let class = memory.classes().class_for(1000).unwrap();
        let mut guard = memory.lock(class);
        assert!(guard.grow(0, 0, Source::Any, 0));
        assert_eq!(budget.used(), 8 * PAGE_BYTES, "eight are committed at once");
        for _ in 0..7 {
            assert!(guard.grow(0, 0, Source::Any, 0));
        }
        assert_eq!(budget.used(), 8 * PAGE_BYTES);
        for _ in 0..3 {
            assert!(guard.grow(0, 0, Source::Any, 0), "there is not enough for eight: one by one");
        }
        assert!(!guard.grow(0, 0, Source::Any, 0));
        assert_eq!((budget.used(), guard.pages().len()), (11 * PAGE_BYTES, 11));
    }

    #[test]
    fn all_chunks_of_a_page_are_handed_out_once_and_come_back() {
        let memory = memory(2);
        let class = memory.classes().class_for(56).unwrap();
        let mut guard = memory.lock(class);
        assert!(guard.grow(0, 0, Source::Any, 0));
        let total = guard.geometry().chunks as usize;
        let mut out = Vec::new();
        assert_eq!(guard.take(total + 5, &mut out), total);
        assert_eq!(out.iter().collect::<HashSet<_>>().len(), total);
        for at in &out {
            let (_, geometry, chunk) = memory.locate(*at).unwrap();
            assert_eq!(at.bytes() % PAGE_BYTES, geometry.start_of(chunk));
        }
        for at in out.drain(..) {
            assert_eq!(guard.give(at), Given::Free);
        }
        assert_eq!(guard.usage().free, total as u64);
        assert_eq!(guard.take(3, &mut out), 3);
    }

    #[test]
    fn a_drained_page_goes_to_another_class() {
        let memory = memory(1);
        let small = memory.classes().class_for(24).unwrap();
        let large = memory.classes().class_for(30_000).unwrap();
        let mut out = Vec::new();
        let mut guard = memory.lock(small);
        assert!(guard.grow(0, 0, Source::Any, 0));
        guard.take(2, &mut out);
        assert!(!memory.lock(large).grow(0, 0, Source::Any, 0), "the budget is spent");
        let (page, given) = guard.drain(0);
        assert_eq!(given, Given::Drained);
        assert_eq!(guard.take(1, &mut out), 0);
        assert_eq!(guard.give(out[0]), Given::Drained);
        assert_eq!(guard.give(out[1]), Given::LastOf(page));
        memory.release(page);
        assert!(memory.lock(large).grow(0, 0, Source::Any, 0));
        assert_eq!(memory.state_of(page), PageState::Serving(large));
    }
}
