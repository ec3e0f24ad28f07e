//! Where chunks come from and where they go.

pub(crate) mod balance;
pub(crate) mod cache;
pub(crate) mod drains;
pub(crate) mod newest;

use balance::{Balance, ticks};
use drains::Drains;
use guira_items::Arriving;
use guira_memory::slab::{ClassId, Given, PAGE_BYTES, PageId, SlabMemory, Source};
use guira_memory::{Budget, MIB, Offset};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::quiescence::Quiescence;
use newest::NewestLong;
use std::sync::Arc;

/// Memory below this many bytes has few pages for each class.
const SCARCE_BELOW: usize = 128 * MIB;

/// A class without pages may use chunks that are larger than its own by this factor, in halves …
const LODGING_RATIO: u32 = 8;
/// … or by this one, if they are the largest.
const LODGING_IN_LARGEST: u32 = 3;

/// Items of a class that has lost its only page may go to chunks of a larger class if that takes one part in this many of a page.
const LODGERS_PART: usize = 8;

/// A long value is new until one part in this many of what there is memory for was stored since.
const NEW_PART: u32 = 4;

/// Pages and chunks of all classes, the budget that pays for them, and which class gives a page to which.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    memory: SlabMemory,
    budget: Arc<Budget>,
    balance: Balance,
    drains: Drains,
    quiescence: Arc<Quiescence>,
    /// Whether there are few pages for each class.
    scarce: AtomicBool,
    arriving: Arriving,
    newest: NewestLong,
}

impl ChunkPool {
    /// A pool of `memory`, which takes what it commits from `budget`.
    pub(crate) fn new(memory: SlabMemory, budget: Arc<Budget>, quiescence: Arc<Quiescence>) -> Self {
        let (balance, drains) = (Balance::new(memory.classes()), Drains::default());
        let scarce = AtomicBool::new(budget.limit() < SCARCE_BELOW);
        let (arriving, newest) = (Arriving::default(), NewestLong::default());
        ChunkPool { memory, budget, balance, drains, quiescence, scarce, arriving, newest }
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &SlabMemory {
        &self.memory
    }

    /// Whether no class has a page and none is on its way between classes. Then no session can have a chunk.
    pub(crate) fn has_no_page(&self) -> bool {
        self.drains.on_their_way() == (0, 0)
            && self.memory.classes().ids().all(|class| self.memory.lock(class).pages().is_empty())
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn balance(&self) -> &Balance {
        &self.balance
    }

    pub(crate) fn drains(&self) -> &Drains {
        &self.drains
    }

    pub(crate) fn quiescence(&self) -> &Arc<Quiescence> {
        &self.quiescence
    }

    /// Whether no session has been opened, or all are gone: each has a share in this.
    pub(crate) fn has_no_session(&self) -> bool {
        Arc::strong_count(&self.quiescence) == 1
    }

    /// A long value was stored that begins at `head` and has parts at these places, in place of the one at `replaced`.
    pub(crate) fn long_stored(
        &self,
        head: Offset,
        replaced: Option<Offset>,
        parts: impl Iterator<Item = Offset>,
    ) {
        let pages = parts.filter_map(|part| self.memory.page_at(part));
        self.newest.stored((head, self.balance.tick()), replaced, pages);
    }

    /// Whether a long value that was stored at a tick is new.
    fn is_new(&self) -> impl Fn(u32) -> bool + use<> {
        let (now, most) = (self.balance.tick(), self.fill_ticks() / NEW_PART);
        move |tick| now.wrapping_sub(tick) <= most
    }

    /// The pages of the long values that were stored last, unless much was stored since.
    pub(crate) fn pages_of_newest(&self) -> Vec<PageId> {
        self.newest.pages(self.is_new())
    }

    /// Whether there is a long value that is new, or was a moment ago.
    pub(crate) fn has_new_long(&self) -> bool {
        self.newest.has_new(self.is_new())
    }

    /// A long value that began at `from` begins at `to` now.
    pub(crate) fn long_moved(&self, from: Offset, to: Offset) {
        self.newest.moved(from, to);
    }

    /// Whether a long value that is new begins at `at`.
    pub(crate) fn is_new_long(&self, at: Offset) -> bool {
        self.newest.is_new(at, self.is_new())
    }

    /// The values that are still arriving, in all sessions.
    pub(crate) fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    /// `memory` bytes may be committed from now on.
    pub(crate) fn set_limit(&self, memory: usize) {
        self.budget.set_limit(memory);
        // Relaxed: which class an item goes to is a matter of economy.
        self.scarce.store(memory < SCARCE_BELOW, Ordering::Relaxed);
    }

    /// The class that an item of `size` bytes goes to: the smallest that holds it. Small memory may have fewer pages than
    /// there are classes; then a class without a page uses chunks of one that is a little larger.
    #[inline]
    pub(crate) fn class_for(&self, size: usize) -> Option<ClassId> {
        let class = self.memory.classes().class_for(size)?;
        if !self.scarce.load(Ordering::Relaxed) || self.balance.has_pages(class) {
            return Some(class);
        }
        Some(self.lender(class))
    }

    #[cold]
    fn lender(&self, class: ClassId) -> ClassId {
        if self.budget.left() >= PAGE_BYTES {
            return class;
        }
        let classes = self.memory.classes();
        let chunk = classes.geometry(class).chunk;
        let fill = self.fill_ticks();
        match self.lodging_of(class) {
            Some(lender) if !self.balance.wasted(class, classes.geometry(lender).chunk - chunk, fill) => {
                lender
            }
            _ => class,
        }
    }

    /// The next larger class that has pages: where items go that are to stay when their class has lost its only page.
    pub(crate) fn host_of(&self, class: ClassId) -> Option<ClassId> {
        let larger = self.memory.classes().ids().skip(usize::from(class.0) + 1);
        larger.into_iter().find(|other| self.balance.has_pages(*other))
    }

    /// The next larger class that has pages, if its chunks are not so much larger that items would stay much less long there, and not full of pieces of
    /// long values.
    fn lodging_of(&self, class: ClassId) -> Option<ClassId> {
        let classes = self.memory.classes();
        let chunk = |class| classes.geometry(class).chunk;
        let most = |host| if host == classes.largest() { LODGING_IN_LARGEST } else { LODGING_RATIO };
        self.host_of(class).filter(|host| 2 * chunk(*host) <= most(*host) * chunk(class))
    }

    /// Whether so many items of `class` would find room beside others for good if it had no page.
    pub(crate) fn would_lodge(&self, class: ClassId, items: usize) -> bool {
        self.lodging_of(class).is_some() && self.fit_beside(class, items)
    }

    /// Whether so many items of `class` take one part in some of a page only, in chunks of the next larger class that has pages.
    pub(crate) fn fit_beside(&self, class: ClassId, items: usize) -> bool {
        items <= self.room_beside(class)
    }

    pub(crate) fn room_beside(&self, class: ClassId) -> usize {
        let chunk = |class| self.memory.classes().geometry(class).chunk as usize;
        self.host_of(class).map_or(0, |host| PAGE_BYTES / LODGERS_PART / chunk(host))
    }

    /// The time in which as much is stored as there is memory for.
    pub(crate) fn fill_ticks(&self) -> u32 {
        ticks(self.budget.limit())
    }

    /// Where `class` may take a new page from. A page that another class has given is meant for the class that asked for
    /// it: it comes free some time later, and the busy classes would be the first to take it.
    pub(crate) fn source_for(&self, class: ClassId) -> Source {
        if self.balance.is_waiting(class) || self.memory.pool_size() > self.balance.waiting() {
            Source::Any
        } else {
            Source::Fresh
        }
    }

    /// Gives a chunk back to its page.
    pub(crate) fn give(&self, at: Offset) {
        let Some(class) = self.memory.class_at(at) else {
            return;
        };
        let given = self.memory.lock(class).give(at);
        if let Given::LastOf(page) = given {
            self.retire(page);
        }
    }

    /// An empty page waits for every session to pass a quiescent point.
    pub(crate) fn retire(&self, page: PageId) {
        self.drains.retire(page, self.quiescence.ticket());
    }

    /// Whether a page that comes free goes back to the system. A page that a class has asked for stays even while memory
    /// shrinks: another one goes instead.
    pub(crate) fn has_to_surrender(&self) -> bool {
        let shrinks = self.budget.excess() > 0 && self.memory.pool_size() >= self.balance.waiting();
        shrinks || self.budget.left() < self.budget.kept()
    }

    /// Bytes of the chunk at `at`; 0 if its page is in no class.
    pub(crate) fn chunk_bytes(&self, at: Offset) -> usize {
        self.memory.class_at(at).map_or(0, |class| self.memory.classes().geometry(class).chunk as usize)
    }

    /// The class of the item at `at`, as shown to users: from 1. 0 if it is in none.
    pub(crate) fn class_number(&self, at: Offset) -> u8 {
        self.memory.class_at(at).map_or(0, |class| class.0 + 1)
    }

    /// The class that users know by this number.
    pub(crate) fn class_of_number(&self, number: u32) -> Option<ClassId> {
        self.memory.classes().ids().find(|class| u32::from(class.0) + 1 == number)
    }
}
