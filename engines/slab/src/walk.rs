//! Seeing every item, while others go on working.
//!
//! A walk goes through the pages, not through the buckets of the index: entries move between buckets, and the table may
//! grow, but an item keeps its place as long as it lives. What it finds in a page is looked up in the index, so that it
//! shows only what a reader would find.
//!
//! A key whose item is *replaced* gets another place, which may lie in a page that the walk has left behind. Whoever replaces
//! an item that the walk may not have seen by one that it will not come to says so ([`Walks::moved`]), and these keys are looked
//! up at the end. A key that is stored all the time is therefore shown, however often it is stored anew: at least once, and
//! perhaps twice.

use crate::core::Core;
use crate::index::Scheme;
use crate::index::Visitor;
use crate::session::SlabSession;
use guira_contract::{ItemView, KeyHash, Meta, Walked, WalkedItem};
use guira_items::Item;
use guira_memory::Offset;
use guira_memory::slab::{PageId, PageState};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;
use std::sync::{Arc, Mutex, PoisonError};

/// No walk is under way.
const NOWHERE: u64 = u64::MAX;
/// The walk has seen all pages: whatever it may have missed is noted already.
const PAST_ALL: u64 = u64::MAX - 1;

/// So many keys are noted at most, 8 bytes each, until the walk looks them up.
const MOVED_MAX: usize = 1 << 20;

/// Items of a page that are seen in one step. Whoever goes on with a walk may have little of a processor: between two steps it holds
/// nobody up.
const STEP: usize = 4 * BATCH;

/// Items looked up together, so that their buckets can be asked for ahead.
const BATCH: usize = 32;

/// What sessions and a walk share.
#[derive(Debug)]
pub(crate) struct Walks {
    /// The page that the walk is in.
    cursor: AtomicU64,
    /// LOCK: moved. Leaf; taken while version stripes are held, by whoever replaces an item during a walk.
    moved: Mutex<Moved>,
}

#[derive(Debug, Default)]
struct Moved {
    keys: Vec<KeyHash>,
    /// There were more than can be noted.
    overrun: bool,
}

impl Default for Walks {
    fn default() -> Self {
        Walks { cursor: AtomicU64::new(NOWHERE), moved: Mutex::default() }
    }
}

impl Walks {
    fn moved(&self) -> std::sync::MutexGuard<'_, Moved> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<X: Scheme> Core<X> {
    /// The item at `old` was replaced by the one at `new`, which can be found from now on.
    #[inline(always)]
    pub(crate) fn replaced(&self, hash: KeyHash, old: Offset, new: Offset) {
        // Relaxed: a walk begins only once every session has passed a quiescent point since the word was stored.
        if self.walks.cursor.load(Ordering::Relaxed) != NOWHERE {
            self.note_moved(hash, old, new);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_moved(&self, hash: KeyHash, old: Offset, new: Offset) {
        // SeqCst: pairs with the fence in `SlabWalk::enter`. Either the walk, which is in the page of the new item, finds
        // it, or the cursor is seen here to have come to that page.
        fence(Ordering::SeqCst);
        let cursor = self.walks.cursor.load(Ordering::Relaxed);
        if cursor == NOWHERE {
            return;
        }
        let page_of = |at| self.memory.page_at(at).map_or(0, |page| u64::from(page.0));
        if page_of(old) < cursor || page_of(new) > cursor {
            return;
        }
        let mut moved = self.walks.moved();
        if moved.keys.len() < MOVED_MAX {
            moved.keys.push(hash);
        } else {
            moved.overrun = true;
        }
    }
}

/// A walk that is under way. There is one at a time in an engine.
#[derive(Debug)]
pub struct SlabWalk<X: Scheme> {
    core: Arc<Core<X>>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Not every session knows of it.
    Announced(Ticket),
    /// In this page, these chunks come next.
    In(u32, Vec<Offset>),
    /// These keys come next.
    Moved(Vec<KeyHash>),
}

impl<X: Scheme> SlabWalk<X> {
    /// Begins, unless another is under way.
    pub(crate) fn begin(core: &Arc<Core<X>>) -> Option<Self> {
        // Relaxed: the ticket is taken after it, and orders it before whoever passes a quiescent point.
        let swapped = core.walks.cursor.compare_exchange(NOWHERE, 0, Ordering::Relaxed, Ordering::Relaxed);
        swapped.ok()?;
        *core.walks.moved() = Moved::default();
        let ticket = core.quiescence.ticket();
        Some(SlabWalk { core: core.clone(), stage: Stage::Announced(ticket) })
    }

    /// From now on, whoever replaces an item knows that the walk is in this page.
    fn enter(&self, page: u64) {
        self.core.walks.cursor.store(page, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `Core::note_moved`.
        fence(Ordering::SeqCst);
    }
}

impl<X: Scheme> Drop for SlabWalk<X> {
    fn drop(&mut self) {
        *self.core.walks.moved() = Moved::default();
        // Relaxed: who still believes in the walk notes a key that nobody reads, and the next walk forgets it.
        self.core.walks.cursor.store(NOWHERE, Ordering::Relaxed);
    }
}

/// What a walk looks for under a hash.
struct Seeker<'a, 'b, X: Scheme> {
    core: &'a Core<X>,
    hash: KeyHash,
    /// Only this item.
    only: Option<Offset>,
    now: Seconds,
    key: &'b mut [u8; 256],
}

impl<X: Scheme> Visitor for Seeker<'_, '_, X> {
    type Result = (usize, Meta);

    fn visit(&mut self, at: Offset) -> Option<Self::Result> {
        if self.only.is_some_and(|only| only != at) {
            return None;
        }
        let item: Item<'_> = self.core.item(at, self.now)?;
        let length = item.key(self.key).len();
        // Under the same tag there may be another key.
        if self.core.shell.hash(&self.key[..length]) != self.hash || self.core.dead(&item, self.now).is_some()
        {
            return None;
        }
        Some((length, item.of_class(self.core.class_number(at)).meta()))
    }

    fn undo(&mut self, _result: Self::Result) {}

    fn repeats(&mut self) {}
}

impl<X: Scheme> SlabSession<X> {
    /// Goes on with a walk, by [`STEP`] items at most.
    pub(crate) fn step(
        &mut self,
        walk: &mut SlabWalk<X>,
        now: Seconds,
        see: &mut dyn FnMut(WalkedItem<'_>),
    ) -> Walked {
        self.core.settle_flush(now);
        match &mut walk.stage {
            Stage::Announced(ticket) => {
                if !self.core.quiescence.passed(*ticket) {
                    return Walked::Waiting;
                }
                walk.stage = self.enter_page(walk, 0);
            }
            Stage::In(_, chunks) if !chunks.is_empty() => {
                let rest = chunks.len().saturating_sub(STEP);
                let part = chunks.split_off(rest);
                self.see_chunks(&part, now, see);
            }
            Stage::In(page, _) if *page + 1 < self.core.memory.pages_touched() => {
                let next = *page + 1;
                walk.stage = self.enter_page(walk, next);
            }
            Stage::In(..) => {
                walk.enter(PAST_ALL);
                let moved = std::mem::take(&mut *self.core.walks.moved());
                if moved.overrun {
                    return Walked::Overrun;
                }
                walk.stage = Stage::Moved(moved.keys);
            }
            Stage::Moved(keys) => {
                if keys.is_empty() {
                    return Walked::Done;
                }
                let rest = keys.len().saturating_sub(BATCH);
                for hash in keys.drain(rest..) {
                    self.see_one(hash, None, now, see);
                }
            }
        }
        Walked::More
    }

    /// Comes to a page, and lists its chunks. Until they have all been seen the page may be given to another class: then what is left of
    /// the list leads to nothing, since an item is shown only if the index leads to the same place.
    fn enter_page(&self, walk: &SlabWalk<X>, page: u32) -> Stage {
        walk.enter(u64::from(page));
        let memory = &self.core.memory;
        let chunks = match memory.state_of(PageId(page)) {
            PageState::Serving(class) | PageState::Draining(class) => {
                memory.lock(class).occupied_chunks(PageId(page))
            }
            PageState::Free => Vec::new(),
        };
        Stage::In(page, chunks)
    }

    fn see_chunks(&self, chunks: &[Offset], now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) {
        let core = &self.core;
        for batch in chunks.chunks(BATCH) {
            let hashes: arrayvec::ArrayVec<_, BATCH> = batch
                .iter()
                .filter_map(|at| {
                    // It may be no item, or change while it is read: what counts is what is found under the hash.
                    let hash = core.hash_at(*at)?;
                    core.index.prefetch_buckets(hash);
                    Some((hash, *at))
                })
                .collect();
            for (hash, at) in hashes {
                self.see_one(hash, Some(at), now, see);
            }
        }
    }

    fn see_one(
        &self,
        hash: KeyHash,
        only: Option<Offset>,
        now: Seconds,
        see: &mut dyn FnMut(WalkedItem<'_>),
    ) {
        let mut key = [0; 256];
        let mut seeker = Seeker { core: &self.core, hash, only, now, key: &mut key };
        if let Some((length, meta)) = self.core.index.search(hash, &mut seeker) {
            see(WalkedItem { key: &key[..length], meta });
        }
    }
}
