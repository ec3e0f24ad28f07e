//! What happens instead of eviction when it is off: room is made by what is dead or empty already, and by nothing else.

use crate::core::Core;
use crate::index::{LockedBuckets, Neighbour, Scheme};
use crate::session::SlabSession;
use guira_contract::Counter;
use guira_contract::StoreError;
use guira_items::Removal;
use guira_memory::Offset;
use guira_memory::slab::{ClassId, Given, PAGE_BYTES, PageId, Source};
use guira_sync::atomic::Backoff;
use guira_sync::clock::{Seconds, Stopwatch};
use std::time::Duration;

/// A store that finds no memory looks for dead items so many times, in as many chunks each time as a batch has; the next store
/// goes on where it ended.
const LOOKS: usize = 4;

/// How long a session waits for others to end their batches when an empty page changes its class.
const PATIENCE: Duration = Duration::from_millis(100);

impl<X: Scheme> SlabSession<X> {
    /// Fills the session's cache of `class` without removing anything that is alive.
    pub(crate) fn refill_keeping(
        &mut self,
        class: ClassId,
        batch: usize,
        now: Seconds,
    ) -> Result<(), StoreError> {
        if self.reclaim_dead(class, batch, now) || self.refill_free(class, batch, Source::Any) {
            return Ok(());
        }
        // The first ones may go to a table that waits for memory.
        while self.drain_empty_page() || self.core.upkeep.is_retiring() {
            if self.await_page(class, batch) {
                return Ok(());
            }
            if self.core.upkeep.is_retiring() {
                // Somebody has not ended his batch for all that time.
                break;
            }
        }
        self.crawl_for_memory(now);
        Err(StoreError::NoMemory)
    }

    /// Looks for items of `class` that have expired or were flushed, for a while.
    fn reclaim_dead(&mut self, class: ClassId, batch: usize, now: Seconds) -> bool {
        // Memory for a value that arrives in pieces is asked for without the time: then it is as late as it was last seen.
        let now = now.max(self.seen);
        for _ in 0..LOOKS {
            let chunks = self.sweep(class, batch);
            if chunks.is_empty() {
                break;
            }
            self.unlink_all(&chunks, Removal::Dead, now);
            if !self.caches[usize::from(class.0)].is_empty() {
                return true;
            }
        }
        false
    }

    /// Before anything is evicted, a page that holds nothing goes from the class that has it to the one that needs it. False if there is none,
    /// or if it is not there yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_over_empty_page(&mut self, class: ClassId, batch: usize) -> bool {
        if !self.core.upkeep.is_retiring() {
            self.core.balance.claim(class);
            if !self.drain_page(Emptiness::ForGood) {
                return false;
            }
        }
        guira_contract::Session::quiesce(self);
        self.core.release_drained();
        self.refill_free(class, batch, self.core.source_for(class))
    }

    /// Takes a page out of its class that holds nothing at all. It can be used when every session has passed a quiescent point.
    pub(crate) fn drain_empty_page(&mut self) -> bool {
        self.drain_page(Emptiness::Now)
    }

    /// Gives the memory of empty pages to the table that waits for it. False if there is none.
    pub(crate) fn free_empty_pages(&mut self) -> bool {
        let wanted = self.core.budget.kept().saturating_sub(self.core.budget.left()).div_ceil(PAGE_BYTES);
        let drained = (0..wanted).take_while(|_| self.drain_page(Emptiness::Now)).count();
        guira_contract::Session::quiesce(self);
        self.core.release_drained();
        drained > 0 || self.core.upkeep.is_retiring()
    }

    fn drain_page(&mut self, emptiness: Emptiness) -> bool {
        let core = self.core.clone();
        let empty = core.memory.classes().ids().find_map(|class| core.drain_empty(class, emptiness));
        let Some(page) = empty else {
            return false;
        };
        self.counters.add(Counter::PagesMoved, 1);
        core.retire(page);
        true
    }

    /// Waits for a page that is on its way into the pool. As in `steal`, this session holds nothing that it found without a lock.
    fn await_page(&mut self, class: ClassId, batch: usize) -> bool {
        let watch = Stopwatch::start();
        let mut backoff = Backoff::default();
        loop {
            guira_contract::Session::quiesce(self);
            self.core.release_drained();
            if self.refill_free(class, batch, Source::Any) {
                return true;
            }
            if !self.core.upkeep.is_retiring() || watch.elapsed() >= PATIENCE {
                return false;
            }
            backoff.wait();
        }
    }
}

/// When a page counts as empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptiness {
    /// When nothing is in it.
    Now,
    /// The same; but the only page of a class, when that has had it for a while: it would ask for another a moment later.
    ForGood,
}

/// The only page of a class is left to it for so many ticks: 4 MiB.
const ONLY_PAGE_TICKS: u32 = 1024;

impl<X: Scheme> Core<X> {
    fn drain_empty(&self, class: ClassId, emptiness: Emptiness) -> Option<PageId> {
        if !self.balance.has_pages(class) {
            return None;
        }
        let mut hand = self.lock_order(class);
        let mut guard = self.memory.lock(class);
        let index = guard.empty_page()?;
        let had = self.balance.tick().wrapping_sub(guard.stamp(guard.pages()[index]));
        if emptiness == Emptiness::ForGood && guard.pages().len() == 1 && had < ONLY_PAGE_TICKS {
            return None;
        }
        let (page, given) = guard.drain(index);
        debug_assert_eq!(given, Given::LastOf(page));
        let per_page = guard.geometry().bitmap_words as usize;
        hand.hand.words_removed(index * per_page, per_page);
        self.budget.give(self.note_bytes(&hand, guard.geometry()));
        self.note_age(class, &hand, &guard);
        self.upkeep.drain_began(page);
        Some(page)
    }
}

/// An entry of two full buckets whose item is dead.
pub(crate) fn dead_victim<X: Scheme>(
    core: &Core<X>,
    held: &LockedBuckets<'_, X>,
    now: Seconds,
) -> Option<Neighbour<X::At>> {
    let is_dead = |at: Offset| core.item(at, now).is_some_and(|item| core.dead(&item, now).is_some());
    held.neighbours().into_iter().find(|neighbour| is_dead(neighbour.item))
}
