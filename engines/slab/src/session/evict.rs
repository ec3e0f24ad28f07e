//! Making room in a class at the cost of its items.

use super::removal;
use super::state::SessionState;
use crate::index::Scheme;
use guira_contract::Counter;
use guira_items::Removal;
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_sync::clock::Seconds;

/// How many times a store that finds no memory looks for dead items, in as many chunks each time as a batch has; the next
/// store goes on where it ended.
const LOOKS: usize = 4;

/// The next victims of a class.
pub(crate) fn sweep<X: Scheme>(state: &mut SessionState<X>, class: ClassId, batch: usize) -> Vec<Offset> {
    // What this session has stored may be all there is.
    state.flush_events();
    let (victims, steps) = state.core.evictor().victims(class, batch);
    state.counters.add(Counter::HandSteps, steps);
    for at in &victims {
        state.core.items.region().prefetch(at.bytes());
    }
    victims
}

/// Evicts up to `batch` items of `class` into the session's cache. False if it is as empty as before.
pub(crate) fn evict<X: Scheme>(
    state: &mut SessionState<X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
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
        removal::unlink_all(state, &victims, Removal::Evicted, now);
        if !state.cache.is_empty(class) {
            return true;
        }
    }
    false
}

/// A long item goes when the hand comes to its head. Its other chunks lie anywhere: if the hand took it at the first one
/// that it meets, an item of ten chunks would live for a tenth of a round. Only a last chunk that is smaller than the
/// others, and lies in another class, counts there like any other.
fn spare_continuations<X: Scheme>(
    state: &SessionState<X>,
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
    state: &mut SessionState<X>,
    class: ClassId,
    batch: usize,
    now: Seconds,
) -> bool {
    // Memory for a value that arrives in pieces is asked for without the time: then it is as late as it was last seen.
    let now = now.max(state.seen);
    for _ in 0..LOOKS {
        let chunks = sweep(state, class, batch);
        if chunks.is_empty() {
            break;
        }
        removal::unlink_all(state, &chunks, Removal::Dead, now);
        if !state.cache.is_empty(class) {
            return true;
        }
    }
    false
}
