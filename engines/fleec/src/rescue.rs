//! What becomes of the items of a page that is emptied: those in use move to other chunks of the class, the others are evicted.
//!
//! A page is chosen for its free chunks, and what is in it is as good as what is elsewhere. Without this, a cache whose limit is lowered would lose
//! what it is asked for most along with the rest.

use crate::core::Core;
use crate::list::Target;
use crate::session::FleecSession;
use guira_contract::ItemState;
use guira_items::{Item, Pieces, Removal};
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_memory::slab::lockfree::HeldPage;
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words;

/// So many times the hand is turned to find chunks for what one page has in use.
const SWEEPS_A_PAGE: u32 = 64;

/// So often an item is tried to be moved.
const ATTEMPTS: usize = 8;

/// What came of an attempt to move an item.
enum Moved {
    /// It was moved, as of this flush generation.
    As(u32),
    /// Somebody has announced it, or changed its link.
    NotYet,
    /// It is not there any more, or not in use.
    Gone,
}

/// A page whose items are on their way out.
struct Leaving<'h> {
    held: &'h HeldPage,
    class: ClassId,
    sweeps: u32,
}

impl FleecSession {
    /// Takes all items out of a page that is held: moves those in use, evicts the others.
    pub(crate) fn clear_page(&mut self, held: &HeldPage, now: Seconds) {
        let core = self.core.clone();
        let mut leaving = Leaving { held, class: held.class(), sweeps: SWEEPS_A_PAGE };
        for at in core.memory.occupied(held) {
            // What is not free may be anything: an item, a part of one, what has been left of one.
            let head = Pieces::head_of(core.shell.region(), at).unwrap_or(at);
            let Some(item) = core.item(head, now) else {
                continue;
            };
            let hash = core.shell.hash(item.key(&mut [0; 256])).0;
            if head == at && core.is_used(&item, hash) && self.rescue(at, hash, &mut leaving, now) {
                continue;
            }
            self.remove_at(head, hash, Removal::Evicted, now);
        }
    }

    /// Moves the item at `at` to a chunk elsewhere. False if there is none, or the item has gone or changed.
    fn rescue(&mut self, at: Offset, hash: u64, leaving: &mut Leaving<'_>, now: Seconds) -> bool {
        let Some(to) = self.chunk_elsewhere(leaving, now) else {
            return false;
        };
        // Who passes by announces the item for a moment, and who changes its neighbour changes its link.
        let attempts = (0..ATTEMPTS).map(|_| self.try_to_move(at, hash, to, now));
        let moved = attempts.into_iter().find(|moved| !matches!(moved, Moved::NotYet));
        let Some(Moved::As(generation)) = moved else {
            self.caches[usize::from(leaving.class.0)].push(to);
            return false;
        };
        let core = self.core.clone();
        core.upkeep.count_rescued();
        // If there was a flush meanwhile the crawler may have passed already: see [`Flushes::is_still`].
        if !core.flushes.is_still(generation) {
            self.remove_at(to, hash, Removal::Dead, now);
        }
        true
    }

    fn try_to_move(&mut self, at: Offset, hash: u64, to: Offset, now: Seconds) -> Moved {
        let core = self.core.clone();
        let bucket = core.table.bucket_of(hash);
        let is_it = |other| other == at;
        self.at_spot(bucket, Target::Item(hash), is_it, |nodes, spot| {
            let (Some(node), Some(word)) = (spot.node, core.link_of_item(to)) else {
                return Moved::Gone;
            };
            let generation = core.flushes.generation();
            // It is looked at anew: while a chunk was looked for, this one may have come to another item, the head of a chain even.
            let item = core.item(at, now).filter(|item| core.is_used(item, hash));
            let Some(item) = item.filter(|item| core.dead(item, now).is_none()) else {
                return Moved::Gone;
            };
            if core.is_held(&item, nodes.hazard) {
                return Moved::NotYet;
            }
            core.copy_item(&item, to);
            if spot.replace(nodes, node, to, word) { Moved::As(generation) } else { Moved::NotYet }
        })
    }

    /// A free chunk of the class that is in another page. Turns the hand for one.
    fn chunk_elsewhere(&mut self, leaving: &mut Leaving<'_>, now: Seconds) -> Option<Offset> {
        let core = self.core.clone();
        let class = leaving.class;
        loop {
            let cache = &mut self.caches[usize::from(class.0)];
            if cache.is_empty() {
                core.memory.take(class, 1, cache);
            }
            while let Some(at) = cache.pop() {
                if core.memory.page_at(at) != Some(leaving.held.page()) {
                    return Some(at);
                }
                core.memory.give(at);
            }
            leaving.sweeps = leaving.sweeps.checked_sub(1)?;
            if self.sweep(now) == 0 {
                leaving.sweeps = 0;
            }
            self.reclaim();
        }
    }
}

impl Core {
    /// Whether an item whose key has this hash lies in one chunk, and would be missed.
    fn is_used(&self, item: &Item<'_>, hash: u64) -> bool {
        let is_used = item.header.state().has(ItemState::FETCHED) || item.header.overwrote();
        is_used
            && item.chain().is_none()
            && self.table.is_touched(self.table.bucket_of(hash))
            && self.shell.hash(item.key(&mut [0; 256])).0 == hash
    }

    /// Copies an item, which is announced, into a chunk that is ours. The link is not part of it.
    fn copy_item(&self, item: &Item<'_>, to: Offset) {
        // Release fence: pairs with the Acquire fence of `find`, as in `Writer::make`.
        fence(Ordering::Release);
        let (from, _) = item.value_words();
        let to = self.shell.region().words(to, from.len()).expect("a chunk lies in the Region");
        for (from, to) in from.iter().zip(to) {
            words::store(to, words::load(from));
        }
    }
}
