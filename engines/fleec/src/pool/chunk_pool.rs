//! Free chunks, and the rules for who may take them.

use guira_items::Eviction;
use guira_memory::slab::lockfree::LockFreeSlab;
use guira_memory::slab::{ClassId, ClassTable, PAGE_BYTES};
use guira_memory::{Budget, MIB, Offset};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::cmp::Reverse;
use std::sync::Arc;

/// Sessions take chunks in batches of up to this many …
const BATCH_CHUNKS: usize = 32;
/// … and up to this many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// In caches below 32 MiB sessions keep no chunks: a page of which every session keeps one cannot be emptied, and each class has only a few pages.
const SCARCE_BELOW: usize = 32 * MIB;
/// Caches below 128 MiB may have more classes than pages …
const FEW_PAGES_BELOW: usize = 128 * MIB;
/// … and a class may use chunks that are larger than its own by one part in this many.
const LENT_PART: u32 = 2;

/// Without eviction this many chunks of a class are reserved for changes, which give back as much as they take …
const RESERVED: u64 = 2;
/// … or as many large ones as make up this many bytes.
const RESERVED_BYTES: u64 = 4096;

/// What a chunk is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// A new item, or one that replaces another as a whole.
    Fresh,
    /// A change of an item, which gives back the item's own chunk.
    Exchange,
}

#[derive(Debug)]
pub(crate) struct ChunkPool {
    slab: LockFreeSlab,
    budget: Arc<Budget>,
    eviction: Eviction,
    /// How often sessions were asked to give back the chunks that they keep: whenever one has found no memory, and from time to time.
    recalls: AtomicU64,
    /// The second of the last recall of those that come from time to time.
    recalled: AtomicU32,
    /// Items moved out of pages that were emptied.
    rescued: AtomicU64,
}

impl ChunkPool {
    pub(crate) fn new(slab: LockFreeSlab, budget: Arc<Budget>, eviction: Eviction) -> Self {
        ChunkPool {
            slab,
            budget,
            eviction,
            recalls: AtomicU64::new(0),
            recalled: AtomicU32::new(0),
            rescued: AtomicU64::new(0),
        }
    }

    /// The allocator, for operations on whole pages.
    pub(crate) fn slab(&self) -> &LockFreeSlab {
        &self.slab
    }

    #[inline(always)]
    pub(crate) fn classes(&self) -> &ClassTable {
        self.slab.classes()
    }

    /// The class of the chunk at `at`, which may come from a racy read.
    #[inline(always)]
    pub(crate) fn class_at(&self, at: Offset) -> Option<ClassId> {
        self.slab.class_at(at)
    }

    /// The class of the chunk at `at`, as shown to users: from 1.
    pub(crate) fn class_number(&self, at: Offset) -> u8 {
        self.slab.class_at(at).map_or(0, |class| class.0 + 1)
    }

    pub(crate) fn free_chunks(&self, class: ClassId) -> u64 {
        self.slab.free_chunks(class)
    }

    pub(crate) fn has_pages(&self, class: ClassId) -> bool {
        self.slab.pages_of(class) > 0
    }

    pub(crate) fn give(&self, at: Offset) {
        self.slab.give(at);
    }

    /// Whether memory is so small that sessions keep nothing.
    pub(crate) fn is_scarce(&self) -> bool {
        self.budget.limit() < SCARCE_BELOW
    }

    /// How many chunks of a class a session takes at once.
    pub(super) fn batch_of(&self, class: ClassId) -> usize {
        let chunk = self.classes().geometry(class).chunk as usize;
        if self.is_scarce() { 1 } else { (BATCH_BYTES / chunk).clamp(1, BATCH_CHUNKS) }
    }

    /// Whether no class has a page, `class` asked first. Then no session can have a chunk.
    pub(crate) fn has_no_page(&self, class: ClassId) -> bool {
        !self.has_pages(class) && !self.classes().ids().any(|class| self.has_pages(class))
    }

    /// How many free chunks of a class may be taken for this.
    pub(super) fn spare(&self, class: ClassId, taking: Taking) -> u64 {
        if self.eviction == Eviction::On || taking == Taking::Exchange {
            return u64::MAX;
        }
        let chunk = u64::from(self.classes().geometry(class).chunk);
        self.slab.free_chunks(class).saturating_sub(RESERVED.min(RESERVED_BYTES / chunk))
    }

    /// A class with slightly larger chunks that can lend one, if there are few pages for each class: that comes before eviction. A class that has pages
    /// borrows only where more than an eighth is free, or it would use larger chunks than it needs for good.
    pub(super) fn lender(&self, class: ClassId) -> Option<ClassId> {
        if self.budget.limit() >= FEW_PAGES_BELOW {
            return None;
        }
        let (classes, has_pages) = (self.classes(), self.has_pages(class));
        let chunk = classes.geometry(class).chunk;
        let is_idle = |other: &ClassId| {
            let all = self.slab.pages_of(*other) * u64::from(classes.geometry(*other).chunks);
            !has_pages || 8 * self.slab.free_chunks(*other) > all
        };
        classes
            .ids()
            .skip(usize::from(class.0) + 1)
            .take_while(|other| classes.geometry(*other).chunk <= chunk + chunk / LENT_PART)
            .find(|other| self.slab.free_chunks(*other) > 0 && is_idle(other))
    }

    /// The class that should give `class` a page before more is evicted: the one with the most free memory, if that makes up a page. Whoever has no page at all
    /// gets one in any case, from the class with the most: the items of a class with one page may be few, and in use.
    pub(crate) fn idle_donor(&self, class: ClassId) -> Option<ClassId> {
        let others = || self.classes().ids().filter(|other| *other != class);
        let idle =
            others().filter(|other| self.is_page_free(*other)).max_by_key(|other| self.free_bytes(*other));
        if idle.is_some() || self.has_pages(class) {
            return idle;
        }
        others().max_by_key(|other| self.slab.pages_of(*other)).filter(|other| self.has_pages(*other))
    }

    /// Whether the free chunks of a class make up a page. In chunks: those of a page seldom make up all of its bytes, and a class with one page would keep it
    /// for ever.
    fn is_page_free(&self, class: ClassId) -> bool {
        self.free_chunks(class) >= u64::from(self.classes().geometry(class).chunks)
    }

    fn free_bytes(&self, class: ClassId) -> u64 {
        self.free_chunks(class) * u64::from(self.classes().geometry(class).chunk)
    }

    /// The classes with pages but `except`, those with the most free memory first, and last those whose items have nowhere to go, since they are in the only page.
    pub(crate) fn donors(&self, except: Option<ClassId>) -> Vec<ClassId> {
        let mut donors: Vec<ClassId> = self.classes().ids().collect();
        donors.retain(|class| Some(*class) != except && self.has_pages(*class));
        // Read once for each class: numbers that change while they are sorted have no order.
        let is_only_page = |class: ClassId| self.slab.pages_of(class) == 1 && !self.is_page_free(class);
        donors.sort_by_cached_key(|class| (is_only_page(*class), Reverse(self.free_bytes(*class))));
        donors
    }

    /// Asks sessions to give back the chunks that they keep. Returns the new number of recalls.
    pub(crate) fn recall(&self) -> u64 {
        self.recalls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether it is time for a recall of those that come once in a second, however many sessions evict. Who is told so does it.
    pub(crate) fn is_recall_due(&self, now: Seconds) -> bool {
        self.recalled.swap(now.0, Ordering::Relaxed) != now.0
    }

    /// How often sessions were asked to give back the chunks that they keep.
    #[inline(always)]
    pub(crate) fn recalls(&self) -> u64 {
        self.recalls.load(Ordering::Relaxed)
    }

    pub(crate) fn count_rescued(&self) {
        self.rescued.fetch_add(1, Ordering::Relaxed);
    }

    /// Items moved out of pages that were emptied.
    pub(crate) fn items_rescued(&self) -> u64 {
        self.rescued.load(Ordering::Relaxed)
    }
}

// A session that empties a page keeps far less than a page.
const _: () = assert!(2 * BATCH_BYTES < PAGE_BYTES);
