//! What the crawler does to the items of a page, and when a store asks for it.

use super::removal;
use super::state::SessionState;
use crate::core::Core;
use crate::flush;
use crate::index::Scheme;
use guira_contract::{Counter, KeyHash};
use guira_items::{Item, Removal};
use guira_memory::Offset;
use guira_memory::slab::{PageId, PageState};
use guira_sync::clock::Seconds;

/// Chunks that are looked at together, so that the misses overlap.
const TOGETHER: usize = 32;

/// Steps for a store that was refused: a page of items of 256 bytes.
const STEPS_FOR_MEMORY: usize = 16;

/// Looks at some items for a store that was refused: what has expired in other classes comes free when the crawler has been
/// there, and it sets out at once.
#[cold]
pub(crate) fn step_for_memory<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) {
    let now = now.max(state.core.items.shell().time_seen());
    state.core.crawler.ask_for_memory(now);
    (0..STEPS_FOR_MEMORY).take_while(|_| step(state, now)).count();
}

/// Looks at some tens of items. False if there is nothing to do for now.
pub(crate) fn step<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) -> bool {
    let core = state.core;
    flush::settle(core, now);
    let pages = core.pool.memory().pages_touched();
    let marks = (core.items.flushes(), &**core.pool.quiescence());
    core.crawler.step(now, pages, marks, |page, part| crawl(state, page, part, now))
}

/// Looks at a part of a page. Returns how many chunks of it are in use, or `None` if there is no such part.
fn crawl<X: Scheme>(state: &mut SessionState<'_, X>, page: PageId, part: u32, now: Seconds) -> Option<usize> {
    let core = state.core;
    let memory = core.pool.memory();
    let (PageState::Serving(class) | PageState::Draining(class)) = memory.state_of(page) else {
        return None;
    };
    let chunks: Vec<Offset> = memory.lock(class).occupied_of(page, part)?.collect();
    let reclaimed = chunks.chunks(TOGETHER).map(|chunks| crawl_chunks(state, chunks, now)).sum();
    state.local.counters.crawled(Some(class), chunks.len() as u64, reclaimed);
    Some(chunks.len())
}

/// Removes some of the short-lived items that have expired. False if there are none left.
pub(crate) fn remove_short_lived<X: Scheme>(state: &mut SessionState<'_, X>, now: Seconds) -> bool {
    let Some(due) = state.core.short_lived.take_due(now) else {
        return false;
    };
    let removed = due.chunks(TOGETHER).map(|due| crawl_chunks(state, due, now)).sum();
    state.local.counters.add(Counter::ShortLivedReclaimed, removed);
    true
}

/// Removes what is dead and stamps what was stored before a flush and lives. Returns how many items were removed.
fn crawl_chunks<X: Scheme>(state: &mut SessionState<'_, X>, chunks: &[Offset], now: Seconds) -> u64 {
    let core = state.core;
    let mut found = [(Offset::from_bytes(0), KeyHash(0), Fate::Stamp); TOGETHER];
    let mut count = 0;
    for at in chunks {
        let fate = match () {
            () if core.items.is_dead(*at, now) => Fate::Remove,
            () if core.items.is_of_before(*at) => Fate::Stamp,
            () => continue,
        };
        if let Some(hash) = core.items.hash_at(*at) {
            core.index.prefetch_buckets(hash);
            found[count] = (*at, hash, fate);
            count += 1;
        }
    }
    let mut removed = 0;
    for (at, hash, fate) in &found[..count] {
        match fate {
            Fate::Remove => removed += u64::from(removal::unlink(state, *at, *hash, Removal::Dead, now)),
            // It may have died since: nobody would look at it again.
            Fate::Stamp if stamp(core, *at, *hash, now) => {}
            Fate::Stamp => removed += u64::from(removal::unlink(state, *at, *hash, Removal::Dead, now)),
        }
    }
    removed
}

#[derive(Clone, Copy)]
enum Fate {
    Remove,
    Stamp,
}

/// Stamps the item at `at` with the generation of new items, if it is in the table. False if it is dead.
fn stamp<X: Scheme>(core: &Core<X>, at: Offset, hash: KeyHash, now: Seconds) -> bool {
    let held = core.index.lock(hash);
    let is_there = held.find(|other| (other == at).then_some(())).is_some();
    // Loaded before the item is judged.
    let generation = core.items.flushes().generation();
    let is_alive = |item: &Item<'_>| core.items.flushes().dead_as_of(generation, item, now).is_none();
    let item = core.items.at(at, now).filter(|_| is_there);
    let is_dead = item.is_some_and(|item| !is_alive(&item));
    item.filter(|_| !is_dead).inspect(|item| item.stamp(generation));
    held.release_unchanged();
    !is_dead
}
