//! Seeing every item, while others go on working.
//!
//! A walk goes through the pages, not through the buckets of the index: entries move between buckets, and the table may
//! grow, but an item keeps its place as long as it lives. What it finds in a page is looked up in the index, so that it
//! shows only what a reader would find.
//!
//! A key whose item is *replaced* gets another place, which may lie in a page that the walk has left behind. The session that replaces
//! an item that the walk may not have seen by one that it will not come to says so ([`Walks::replaced`](crate::walks::Walks::replaced)), and these keys are looked
//! up at the end. A key that is stored all the time is therefore shown, however often it is stored anew: at least once, and
//! perhaps twice.

use crate::core::Core;
use crate::flush;
use crate::index::{Scheme, Visitor};
use guira_contract::{ItemView, KeyHash, Meta, Walked, WalkedItem};
use guira_items::Item;
use guira_memory::Offset;
use guira_memory::slab::{PageId, PageState};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;
use std::sync::Arc;

/// Items of a page that are seen in one step. A walk may run on a busy processor: between two steps it holds
/// no thread up.
const STEP: usize = 4 * BATCH;

/// Items looked up together, so that their buckets can be asked for ahead.
const BATCH: usize = 32;

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
    Moved(Vec<KeyHash>),
}

impl<X: Scheme> SlabWalk<X> {
    /// Begins, unless another is under way.
    pub(crate) fn begin(core: &Arc<Core<X>>) -> Option<Self> {
        let began = core.walks.begin();
        // The ticket is taken after the walk is announced: when it has passed, every session knows of the walk.
        began.then(|| SlabWalk {
            core: core.clone(),
            stage: Stage::Announced(core.pool.quiescence().ticket()),
        })
    }

    /// Goes on with a walk, by [`STEP`] items at most.
    pub(crate) fn step(&mut self, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        let core = &*self.core;
        flush::settle(core, now);
        match &mut self.stage {
            Stage::Announced(ticket) => {
                if !core.pool.quiescence().passed(*ticket) {
                    return Walked::Waiting;
                }
                self.stage = enter_page(core, 0);
            }
            Stage::In(_, chunks) if !chunks.is_empty() => {
                let rest = chunks.len().saturating_sub(STEP);
                let part = chunks.split_off(rest);
                see_chunks(core, &part, now, see);
            }
            Stage::In(page, _) if *page + 1 < core.pool.memory().pages_touched() => {
                let next = *page + 1;
                self.stage = enter_page(core, next);
            }
            Stage::In(..) => {
                let Some(keys) = core.walks.leave_pages() else {
                    return Walked::Overrun;
                };
                self.stage = Stage::Moved(keys);
            }
            Stage::Moved(keys) => {
                if keys.is_empty() {
                    return Walked::Done;
                }
                let rest = keys.len().saturating_sub(BATCH);
                for hash in keys.drain(rest..) {
                    see_one(core, hash, None, now, see);
                }
            }
        }
        Walked::More
    }
}

impl<X: Scheme> Drop for SlabWalk<X> {
    fn drop(&mut self) {
        self.core.walks.end();
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
        let item: Item<'_> = self.core.items.at(at, self.now)?;
        let length = item.key(self.key).len();
        // Under the same tag there may be another key.
        if self.core.items.shell().hash(&self.key[..length]) != self.hash
            || self.core.items.dead(&item, self.now).is_some()
        {
            return None;
        }
        Some((length, item.of_class(self.core.pool.class_number(at)).meta()))
    }

    fn undo(&mut self, _result: Self::Result) {}

    fn repeats(&mut self) {}
}

/// Comes to a page, and lists its chunks. Until they have all been seen the page may be given to another class: then what is left of
/// the list leads to nothing, since an item is shown only if the index leads to the same place.
fn enter_page<X: Scheme>(core: &Core<X>, page: u32) -> Stage {
    core.walks.enter(page);
    let memory = core.pool.memory();
    let chunks = match memory.state_of(PageId(page)) {
        PageState::Serving(class) | PageState::Draining(class) => {
            memory.lock(class).occupied_chunks(PageId(page))
        }
        PageState::Free => Vec::new(),
    };
    Stage::In(page, chunks)
}

fn see_chunks<X: Scheme>(
    core: &Core<X>,
    chunks: &[Offset],
    now: Seconds,
    see: &mut dyn FnMut(WalkedItem<'_>),
) {
    for batch in chunks.chunks(BATCH) {
        let hashes: arrayvec::ArrayVec<_, BATCH> = batch
            .iter()
            .filter_map(|at| {
                // It may be no item, or change while it is read: what counts is what is found under the hash.
                let hash = core.items.hash_at(*at)?;
                core.index.prefetch_buckets(hash);
                Some((hash, *at))
            })
            .collect();
        for (hash, at) in hashes {
            see_one(core, hash, Some(at), now, see);
        }
    }
}

fn see_one<X: Scheme>(
    core: &Core<X>,
    hash: KeyHash,
    only: Option<Offset>,
    now: Seconds,
    see: &mut dyn FnMut(WalkedItem<'_>),
) {
    let mut key = [0; 256];
    let mut seeker = Seeker { core, hash, only, now, key: &mut key };
    if let Some((length, meta)) = core.index.search(hash, &mut seeker) {
        see(WalkedItem { key: &key[..length], meta });
    }
}
