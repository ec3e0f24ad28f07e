//! Emptying the pages of one class for another. Items that were read stay, in other chunks, at the cost of some of their
//! class that were not.

use super::evict;
use super::removal;
use super::state::SessionState;
use crate::core::Core;
use crate::evictor::Emptiness;
use crate::index::Scheme;
use crate::items::Items;
use crate::pool::cache::batch_of;
use crate::pool::drains::Content;
use guira_contract::{Counter, KeyHash};
use guira_items::{CONTINUATION, Continuation, Eviction, Item, Pieces, Removal};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, FirstBit, Given, PageId, PageState};
use guira_sync::atomic::{Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// How often a session follows the chain to a part that it wants to move.
const WAYS: usize = 3;

/// Chunks that are looked at together, so that the misses overlap.
const TOGETHER: usize = 32;

/// Takes one of the next `choice` pages before the hand of `donor` out of service and empties it.
pub(crate) fn begin<X: Scheme>(state: &mut SessionState<'_, X>, donor: ClassId, choice: usize) {
    // The order is to know what this session has stored.
    state.flush_events();
    let Some((page, given)) = state.core.evictor().drain(donor, choice) else {
        return;
    };
    state.local.counters.add(Counter::PagesMoved, 1);
    match given {
        Given::LastOf(page) => state.core.pool.retire(page),
        _ => _ = empty(state, page, Content::Old),
    }
}

/// Takes one of the next `choice` pages out of the class whose hand is slowest; without eviction, an empty one. False if
/// there is none.
pub(crate) fn begin_coldest<X: Scheme>(state: &mut SessionState<'_, X>, choice: usize) -> bool {
    match state.core.options.engine.eviction {
        Eviction::Off => begin_empty(state, Emptiness::Now),
        Eviction::On => {
            let donor = state.core.evictor().oldest_donor(None);
            donor.inspect(|donor| begin(state, *donor, choice)).is_some()
        }
    }
}

/// Takes a page out of its class that holds nothing at all. It can be used when every session has passed a quiescent point.
pub(crate) fn begin_empty<X: Scheme>(state: &mut SessionState<'_, X>, emptiness: Emptiness) -> bool {
    let Some(page) = state.core.evictor().drain_empty(emptiness) else {
        return false;
    };
    state.local.counters.add(Counter::PagesMoved, 1);
    state.core.pool.retire(page);
    true
}

/// Empties draining pages of what is still in them, or has come since they began to drain. Returns how many items were evicted or moved.
pub(crate) fn evict_draining<X: Scheme>(state: &mut SessionState<'_, X>) -> usize {
    let draining = state.core.pool.drains().draining();
    draining.into_iter().map(|(page, content)| empty(state, page, content)).sum()
}

/// Empties a draining page. What was read, or stored a moment ago, is moved, everything else evicted; what cannot be evicted now, because it is not an
/// item yet or is being sent, comes back later. Returns how many items were evicted or moved.
fn empty<X: Scheme>(state: &mut SessionState<'_, X>, page: PageId, content: Content) -> usize {
    let core = state.core;
    let PageState::Draining(class) = core.pool.memory().state_of(page) else {
        return 0;
    };
    // What this session keeps of the page is not to be used for what leaves it.
    state.local.cache.return_draining(&core.pool);
    let now = core.items.shell().time_seen();
    let mut emptied = 0;
    let (chunks, free) = {
        let guard = core.pool.memory().lock(class);
        (guard.occupied_chunks(page), guard.usage().free as usize)
    };
    // What costs nothing else stays whether it was read or not.
    let has_others = core.pool.balance().has_pages(class);
    let all_stay = if has_others {
        content == Content::New || chunks.len() <= free
    } else {
        core.pool.fit_beside(class, chunks.len())
    };
    // Without another page of the class they take chunks of a larger one.
    let most = if has_others { usize::MAX } else { core.pool.room_beside(class) };
    let new = match content {
        _ if all_stay => Vec::new(),
        Content::Old => core.evictor().new_among(class, &chunks, most),
        Content::New => {
            chunks.iter().copied().filter(|at| movable(core, *at, now).is_some()).take(most).collect()
        }
    };
    let is_new = |at: &Offset| new.binary_search(at).is_ok();
    for chunks in chunks.chunks(TOGETHER) {
        chunks.iter().for_each(|at| core.items.region().prefetch(at.bytes()));
        let is_read = |at: &Offset| core.pool.memory().is_recent(*at);
        let stays = |at: &Offset| all_stay || is_read(at) || is_new(at) || evict::is_new(state, *at);
        let (staying, mut others): (Vec<Offset>, Vec<Offset>) = chunks.iter().copied().partition(stays);
        for at in staying {
            if rescue(state, class, at, now) {
                emptied += 1;
            } else {
                others.push(at);
            }
        }
        emptied += removal::unlink_all(state, &others, Removal::Evicted, now);
    }
    core.pool.drains().looked_at(page);
    emptied
}

/// Moves the item at `at`, in a page that drains, to another chunk of its class; if that has lost its only page, of a larger
/// one. A part of a long value is moved alone. False if there is no such item or no chunk.
fn rescue<X: Scheme>(state: &mut SessionState<'_, X>, class: ClassId, at: Offset, now: Seconds) -> bool {
    let core = state.core;
    if Continuation::at(core.items.region(), at).is_some() {
        return rescue_part(state, class, at, now);
    }
    let Some(hash) = movable(core, at, now) else {
        return false;
    };
    let Some(to) = chunk_beside(state, class, now) else {
        return false;
    };
    let Some(moved) = move_item(core, at, to, hash, now) else {
        core.pool.give(to);
        return false;
    };
    core.pool.drains().count_rescued();
    let (from, into) = (core.pool.memory().class_at(at), core.pool.memory().class_at(to));
    if from != into {
        let bytes = Items::bytes_of(&moved);
        state.local.counters.item_taken(from, bytes);
        state.local.counters.items_added(into, 1, bytes);
    }
    core.short_lived.note(state.local.lane, to, moved.expiry(), now);
    if core.evictor.wants_stores() {
        state.local.events.stored_over(to, hash.0 as u32, moved.expiry(), now);
    }
    if moved.chain().is_some() {
        // The chunk still looks like the beginning of the value, of which the other parts are in use. Whoever has pinned it since finds that it has moved.
        state.local.cache.put(&core.pool, at);
    } else {
        removal::free(state, at, now);
    }
    true
}

/// Moves the part of a long value in the chunk at `at` in the same way.
fn rescue_part<X: Scheme>(state: &mut SessionState<'_, X>, class: ClassId, at: Offset, now: Seconds) -> bool {
    let core = state.core;
    let owner = Pieces::owner_of(core.items.region(), at, |at| core.items.at(at, now));
    let Some((head, hash)) = owner.and_then(|item| Some((item.at, movable(core, item.at, now)?))) else {
        return false;
    };
    let Some(to) = chunk_beside(state, class, now) else {
        return false;
    };
    // The way there may be long, so the item's buckets are not locked on it. Another session may move the part
    // before this one at the same time: then the session follows the chain again.
    let is_moved = (0..WAYS).any(|_| {
        let before = core.items.at(head, now).and_then(|item| Pieces::before(core.items.region(), &item, at));
        before.is_some_and(|before| move_part(core, (head, hash), (before, at), to, now))
    });
    if !is_moved {
        core.pool.give(to);
        return false;
    }
    core.pool.drains().count_rescued_part();
    state.local.cache.put(&core.pool, at);
    true
}

/// Copies the part of the item at `head` that lies at `at`, after the chunk at `before`, to the chunk at `to`, and has its chain lead there. False if the item is not
/// there any more, has no such part there, has expired, or is pinned.
fn move_part<X: Scheme>(
    core: &Core<X>,
    (head, hash): (Offset, KeyHash),
    (before, at): (Offset, Offset),
    to: Offset,
    now: Seconds,
) -> bool {
    let held = core.index.lock(hash);
    let is_linked = held.find(|other| (other == head).then_some(())).is_some();
    let item = core.items.at(head, now).filter(|item| is_linked && core.items.dead(item, now).is_none());
    let region = core.items.region();
    let fits = Continuation::at(region, at)
        .is_some_and(|part| part.head == head && CONTINUATION + part.length <= core.pool.chunk_bytes(to));
    // Under the counters: as in `move_item`.
    let Some(item) = item.filter(|_| fits && !core.pins.is_pinned(head)) else {
        held.release_unchanged();
        return false;
    };
    // Release fence: as in `move_item`.
    fence(Ordering::Release);
    let memory = core.pool.memory();
    // A part is as new to the hand as it was.
    let first = if memory.is_recent(at) { FirstBit::Set } else { FirstBit::Clear };
    if !Pieces::move_part(region, &item, (before, at), to) {
        held.release_unchanged();
        return false;
    }
    memory.renew(to, core.pool.chunk_bytes(to), first);
    drop(held);
    true
}

/// The hash of the key of the item at `at`, if there is one that can be moved.
fn movable<X: Scheme>(core: &Core<X>, at: Offset, now: Seconds) -> Option<KeyHash> {
    let item = core.items.at(at, now).filter(|item| core.items.dead(item, now).is_none());
    // What is pinned is being sent, or about to be changed by a session that looks for memory for it.
    let is_item = item.is_some() && !core.pins.is_pinned(at);
    // A free chunk in a session's cache still looks like its last item.
    core.items.hash_at(at).filter(|hash| is_item && is_linked(core, at, *hash))
}

/// Whether the table leads to the item at `at`.
fn is_linked<X: Scheme>(core: &Core<X>, at: Offset, hash: KeyHash) -> bool {
    let held = core.index.lock(hash);
    let is_linked = held.find(|other| (other == at).then_some(())).is_some();
    held.release_unchanged();
    is_linked
}

/// A chunk for an item, or a part of one, of `class` that has to leave its page: one that is free, or that of an item that was not read.
pub(crate) fn chunk_beside<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    now: Seconds,
) -> Option<Offset> {
    let core = state.core;
    let class = if core.pool.balance().has_pages(class) { class } else { core.pool.host_of(class)? };
    let memory = core.pool.memory();
    let batch = batch_of(memory.classes().geometry(class).chunk);
    if state.local.cache.is_empty(class) && state.local.cache.take(class, &mut memory.lock(class), batch) == 0
    {
        evict::evict(state, class, batch, now);
    }
    state.local.cache.pop(class)
}

/// Copies the item at `at` to the chunk at `to` and has the table lead there. `None` if it is not there any more, has
/// expired, or is pinned.
fn move_item<X: Scheme>(
    core: &Core<X>,
    at: Offset,
    to: Offset,
    hash: KeyHash,
    now: Seconds,
) -> Option<Item<'_>> {
    let held = core.index.lock(hash);
    let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
    let generation = core.items.flushes().generation();
    let is_alive = |item: &Item<'_>| core.items.flushes().dead_as_of(generation, item, now).is_none();
    let item = core.items.at(at, now).filter(is_alive);
    let room = core.pool.chunk_bytes(to);
    // Under the counters: a session that pins an item looks once more whether it is still where it was.
    let is_free = |item: &Item<'_>| item.shape().size() <= room && !core.pins.is_pinned(at);
    let Some((slot, item)) = slot.zip(item.filter(is_free)) else {
        held.release_unchanged();
        return None;
    };
    let size = item.shape().size();
    let words =
        |at| core.items.region().words(at, size.div_ceil(WORD)).expect("the chunk is inside the region");
    // Release fence: as in `Writer::fill`: pairs with the Acquire fence of a reader's validation.
    fence(Ordering::Release);
    words(to).iter().zip(words(at)).for_each(|(to, from)| words::store(to, words::load(from)));
    let moved = core.items.at(to, now);
    // The crawler may have passed the new chunk already.
    moved.inspect(|moved| moved.stamp(generation));
    core.pool.memory().renew(to, size, FirstBit::Set);
    if let Some(moved) = moved.filter(|moved| moved.chain().is_some()) {
        Pieces::follow_head(core.items.region(), &moved);
        core.pool.long_moved(at, to);
    }
    held.replace(slot, to);
    core.walks.replaced(core.pool.memory(), hash, at, to);
    drop(held);
    moved
}
