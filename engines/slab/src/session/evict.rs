//! Making room in a class at the cost of its items.

use super::removal;
use super::state::SessionState;
use crate::index::Scheme;
use guira_contract::Counter;
use guira_items::{Continuation, Removal};
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_sync::clock::Seconds;

/// How many times a store that finds no memory looks for dead items, in as many chunks each time as a batch has; the next
/// store goes on where it ended.
const LOOKS: usize = 4;

/// The next victims of a class.
pub(crate) fn sweep<X: Scheme>(state: &mut SessionState<'_, X>, class: ClassId, batch: usize) -> Vec<Offset> {
    // What this session has stored may be all there is.
    state.flush_events();
    let (victims, steps) = state.core.evictor().victims(class, batch);
    state.local.counters.add(Counter::HandSteps, steps);
    for at in &victims {
        state.core.items.region().prefetch(at.bytes());
    }
    victims
}

/// Evicts up to `batch` items of `class` into the session's cache. False if it is as empty as before.
pub(crate) fn evict<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
) -> bool {
    // Those that are spared come back into the order only when this is done: it would offer them again at once.
    let mut spared = Vec::new();
    if !state.core.pool.has_new_long() {
        return turn(state, class, batch, now, None);
    }
    let is_evicted = turn(state, class, batch, now, Some(&mut spared));
    put_back(state, &spared, now);
    // If all that there is is new it goes all the same.
    is_evicted || !spared.is_empty() && turn(state, class, batch, now, None)
}

/// Turns the hand of `class` until the session's cache has a chunk. What is new is taken into `spared`, if that is given. False if there is none.
fn turn<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
    mut spared: Option<&mut Vec<Offset>>,
) -> bool {
    // A victim may turn out to be no item: a chunk in some session's cache, one that is being filled, or one whose item is
    // pinned. Then the hand goes on, once around the class.
    let chunks = state.core.pool.memory().lock(class).usage().chunks as usize;
    for _ in 0..=chunks / batch {
        let mut victims = sweep(state, class, batch);
        if victims.is_empty() {
            break;
        }
        spare_continuations(state, class, &mut victims, now);
        if let Some(spared) = &mut spared {
            spared.extend(victims.extract_if(.., |at| is_new(state, *at)));
        }
        removal::unlink_all(state, &victims, Removal::Evicted, now);
        if !state.local.cache.is_empty(class) {
            return true;
        }
    }
    false
}

/// Whether a long value that was stored a moment ago begins in this chunk, or ends there. Short ones are not looked for: so many of them lie in a page that none is
/// met soon after it was stored.
pub(crate) fn is_new<X: Scheme>(state: &SessionState<'_, X>, at: Offset) -> bool {
    let core = &state.core;
    match Continuation::at(core.items.region(), at) {
        Some(part) => core.pool.is_new_long(part.head),
        None => {
            let item = core.items.at(at, Seconds(0));
            item.is_some_and(|item| item.chain().is_some()) && core.pool.is_new_long(at)
        }
    }
}

/// Reports items that stay to the orders that have let them go: not as stores, as their keys are among those that were evicted and would count as
/// asked for again.
fn put_back<X: Scheme>(state: &mut SessionState<'_, X>, spared: &[Offset], now: Seconds) {
    let core = state.core;
    if !core.evictor.wants_stores() {
        return;
    }
    let stays = |at: &&Offset| core.items.at(**at, now).is_some();
    spared.iter().filter(stays).for_each(|at| state.local.events.spared(*at));
}

/// A long item goes when the hand comes to its head. Its other chunks lie anywhere: if the hand took it at the first one
/// that it meets, an item of ten chunks would live for a tenth of a round. Only a last chunk that is smaller than the
/// others, and lies in another class, counts there like any other.
fn spare_continuations<X: Scheme>(
    state: &SessionState<'_, X>,
    class: ClassId,
    victims: &mut Vec<Offset>,
    now: Seconds,
) {
    if state.core.pool.memory().classes().largest() == class {
        victims.retain(|at| state.core.items.at(*at, now).is_some());
    }
}

/// Looks for items of `class` that have expired or were flushed, for a while. True if the cache has a chunk then.
pub(crate) fn reclaim_dead<X: Scheme>(
    state: &mut SessionState<'_, X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
) -> bool {
    // Memory for a value that arrives in pieces is asked for without the time: then it is as late as it was last seen.
    let now = now.max(state.local.seen);
    for _ in 0..LOOKS {
        let chunks = sweep(state, class, batch);
        if chunks.is_empty() {
            break;
        }
        removal::unlink_all(state, &chunks, Removal::Dead, now);
        if !state.local.cache.is_empty(class) {
            return true;
        }
    }
    false
}
