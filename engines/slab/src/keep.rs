//! What happens instead of eviction when it is off: room is made by what is dead or empty already, and by nothing else.

use crate::core::Core;
use crate::index::{Held, Neighbour, Scheme};
use crate::session::SlabSession;
use crate::stats::Count;
use crate::update::Unlinked;
use guira_contract::Refusal;
use guira_memory::Offset;
use guira_memory::slab::{ClassId, Given, PageId, Source};
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
    ) -> Result<(), Refusal> {
        if self.reclaim_dead(class, batch, now) || self.refill_free(class, batch, Source::Any) {
            return Ok(());
        }
        if (self.drain_empty_page() || self.core.upkeep.is_retiring()) && self.await_page(class, batch) {
            return Ok(());
        }
        Err(Refusal::NoMemory)
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
            self.unlink_all(&chunks, Unlinked::Dead, now);
            if !self.caches[usize::from(class.0)].is_empty() {
                return true;
            }
        }
        false
    }

    /// Takes a page out of its class that holds nothing at all. It can be used when every session has passed a quiescent point.
    pub(crate) fn drain_empty_page(&mut self) -> bool {
        let core = self.core.clone();
        let empty = core.memory.classes().ids().find_map(|class| core.drain_empty(class));
        let Some(page) = empty else {
            return false;
        };
        self.counters.add(Count::PagesMoved, 1);
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

impl<X: Scheme> Core<X> {
    fn drain_empty(&self, class: ClassId) -> Option<PageId> {
        if !self.balance.has_pages(class) {
            return None;
        }
        let mut hand = self.lock_hand(class);
        let mut guard = self.memory.lock(class);
        let index = guard.empty_page()?;
        let (page, given) = guard.drain(index);
        debug_assert_eq!(given, Given::LastOf(page));
        let per_page = guard.geometry().bitmap_words as usize;
        hand.hand.words_removed(index * per_page, per_page);
        self.note_age(class, &hand, &guard);
        self.upkeep.drain_began(page);
        Some(page)
    }
}

/// An entry of two full buckets whose item is dead.
pub(crate) fn dead_victim<X: Scheme>(
    core: &Core<X>,
    held: &Held<'_, X>,
    now: Seconds,
) -> Option<Neighbour<X::At>> {
    let is_dead = |at: Offset| core.item(at, now).is_some_and(|item| core.dead(&item, now).is_some());
    held.neighbours().into_iter().find(|neighbour| is_dead(neighbour.item))
}
