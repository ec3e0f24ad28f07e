//! Items of a page that another class gets: those that were read stay, in other chunks, at the cost of some of their class that were not.

use crate::core::Core;
use crate::index::Scheme;
use crate::queue::{self, Event, What};
use crate::reclaim::batch_of;
use crate::session::SlabSession;
use crate::turn::Wants;
use guira_contract::KeyHash;
use guira_items::{Item, Pieces, Removal};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, FirstBit, PageId, PageState};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// Chunks that are looked at together, so that the misses overlap.
const TOGETHER: usize = 32;

impl<X: Scheme> SlabSession<X> {
    /// Empties a draining page. What was read is moved, everything else evicted; what cannot be evicted now, because it is not an item yet or is
    /// being sent, comes back later. Returns how many items were evicted or moved.
    pub(crate) fn empty_page(&mut self, page: PageId) -> usize {
        let core = self.core.clone();
        let PageState::Draining(class) = core.memory.state_of(page) else {
            return 0;
        };
        let now = core.shell.time_seen();
        let mut emptied = 0;
        let chunks = core.memory.lock(class).occupied_chunks(page);
        for chunks in chunks.chunks(TOGETHER) {
            chunks.iter().for_each(|at| core.shell.region().prefetch(at.bytes()));
            let (read, mut others): (Vec<Offset>, Vec<Offset>) =
                chunks.iter().copied().partition(|at| core.memory.is_recent(*at));
            for at in read {
                if self.rescue(class, at, now) {
                    emptied += 1;
                } else {
                    others.push(at);
                }
            }
            emptied += self.unlink_all(&others, Removal::Evicted, now);
        }
        emptied
    }

    /// Moves the item at `at`, in a page that drains, to another chunk of its class; if that has lost its only page, of a larger one. False if there is
    /// no such item or no chunk. The chunks of a long value name the first, which therefore stays where it is.
    fn rescue(&mut self, class: ClassId, at: Offset, now: Seconds) -> bool {
        let core = self.core.clone();
        let is_whole = |item: &Item<'_>| item.chain().is_none() && core.dead(item, now).is_none();
        let item = core.item(at, now).filter(is_whole);
        // What is pinned is being sent, or about to be changed by whoever looks for memory for it: it stays where it is meanwhile.
        if item.is_none() || core.pins.is_pinned(at) || Pieces::head_of(core.shell.region(), at).is_some() {
            return false;
        }
        let Some((hash, to)) = core.hash_at(at).zip(self.chunk_beside(class, now)) else {
            return false;
        };
        let Some(moved) = core.move_item(at, to, hash, now) else {
            core.give_chunk(to);
            return false;
        };
        core.upkeep.rescued();
        let (from, into) = (core.memory.class_at(at), core.memory.class_at(to));
        if from != into {
            let bytes = Core::<X>::bytes_of(&moved);
            self.counters.item_taken(from, bytes);
            self.counters.items_added(into, 1, bytes);
        }
        if core.turn.wants().has(Wants::STORES) {
            let arrival = queue::arrival(hash.0 as u32, moved.expiry(), now);
            self.queue.push(Event { at: to, what: What::StoredOver(arrival) });
        }
        self.free_item(at, now);
        true
    }

    /// A chunk for an item of `class` that has to leave its page: one that is free, or that of an item that was not read.
    fn chunk_beside(&mut self, class: ClassId, now: Seconds) -> Option<Offset> {
        let core = self.core.clone();
        let class = if core.balance.has_pages(class) { class } else { core.host_of(class)? };
        let cache = &mut self.caches[usize::from(class.0)];
        let batch = batch_of(core.memory.classes().geometry(class).chunk);
        if cache.is_empty() && core.memory.lock(class).take(batch, cache) == 0 {
            self.evict(class, batch, now);
        }
        self.caches[usize::from(class.0)].pop()
    }
}

impl<X: Scheme> Core<X> {
    /// Copies the item at `at` to the chunk at `to` and has the table lead there. `None` if it is not there any more, has expired, or is pinned.
    fn move_item(&self, at: Offset, to: Offset, hash: KeyHash, now: Seconds) -> Option<Item<'_>> {
        let held = self.index.lock(hash);
        let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
        let item = self.item(at, now).filter(|item| item.chain().is_none() && self.dead(item, now).is_none());
        let room = self.chunk_bytes(to);
        // Under the counters: whoever pins an item looks once more whether it is still where it was.
        let is_free = |item: &Item<'_>| item.shape().size() <= room && !self.pins.is_pinned(at);
        let Some((slot, item)) = slot.zip(item.filter(is_free)) else {
            held.release_unchanged();
            return None;
        };
        let size = item.shape().size();
        let words =
            |at| self.shell.region().words(at, size.div_ceil(WORD)).expect("a chunk lies in the Region");
        // Release fence: as in `Writer::fill`: pairs with the Acquire fence of a reader's validation.
        fence(Ordering::Release);
        words(to).iter().zip(words(at)).for_each(|(to, from)| words::store(to, words::load(from)));
        self.memory.renew(to, size, FirstBit::Set);
        held.replace(slot, to);
        self.replaced(hash, at, to);
        drop(held);
        self.item(to, now)
    }
}
