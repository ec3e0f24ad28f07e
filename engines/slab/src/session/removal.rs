//! Taking items out of the table, and freeing them.

use super::state::{Local, SessionState};
use crate::index::Scheme;
use crate::items::Items;
use guira_contract::{ItemView, KeyHash};
use guira_items::{INLINE_MAX, Pieces, Removal};
use guira_memory::Offset;
use guira_sync::clock::Seconds;

/// Removes the items at `victims`, for this reason if it holds. Their buckets are prefetched together, so that the misses
/// overlap. Returns how many were removed.
pub(crate) fn unlink_all<X: Scheme>(
    state: &mut SessionState<'_, X>,
    victims: &[Offset],
    why: Removal,
    now: Seconds,
) -> usize {
    let core = state.core;
    let region = core.items.shell().region();
    let mut hashed: Vec<(Offset, KeyHash)> = Vec::with_capacity(victims.len());
    for at in victims {
        let Some(item) = Pieces::owner_of(region, *at, |at| core.items.at(at, now)) else {
            continue;
        };
        if let Some(hash) = core.items.hash_at(item.at) {
            core.index.prefetch_buckets(hash);
            hashed.push((item.at, hash));
        }
    }
    let mut unlinked = 0;
    for (at, hash) in hashed {
        if unlink(state, at, hash, why, now) {
            unlinked += 1;
        } else if core.evictor.wants_stores() {
            state.local.events.stuck(at);
        }
    }
    unlinked
}

/// Removes the item at `at` from the table, if it is there under this hash, and frees it. A pinned item is not evicted:
/// that would cost an item and give no memory.
pub(crate) fn unlink<X: Scheme>(
    state: &mut SessionState<'_, X>,
    at: Offset,
    hash: KeyHash,
    why: Removal,
    now: Seconds,
) -> bool {
    let core = &state.core;
    if why == Removal::Evicted && core.pins.is_pinned(at) {
        return false;
    }
    let (held, slot) = match core.index.lock_entry_of(hash, at) {
        Some((held, slot)) => (held.among(), Some(slot)),
        None => {
            let held = core.index.lock(hash);
            let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
            (held, slot)
        }
    };
    let dead = core.items.is_dead(at, now);
    match slot {
        Some(slot) if why != Removal::Dead || dead => held.remove(slot),
        _ => {
            held.release_unchanged();
            return false;
        }
    }
    drop(held);
    account(state, at, if dead { Removal::Dead } else { why }, now);
    free(state, at, now);
    true
}

/// Counts an item that was unlinked and is not freed yet, and reports an eviction.
pub(crate) fn account<X: Scheme>(state: &SessionState<'_, X>, at: Offset, why: Removal, now: Seconds) {
    let core = &state.core;
    let Some(item) = core.items.at(at, now) else {
        return;
    };
    let class = core.pool.memory().class_at(at);
    state.local.counters.item_removed(why, &item.removed(class, Items::bytes_of(&item), now));
    if why.is_eviction()
        && let Some((watcher, now)) = core.items.shell().watcher()
    {
        let item = core.items.at(at, now).unwrap_or(item).of_class(core.pool.class_number(at));
        watcher.evicted(item.key(&mut [0; 256]), &item.meta(), now);
    }
}

/// Frees the chunks of an unlinked item, or leaves that to the last unpin.
pub(crate) fn free<X: Scheme>(state: &mut SessionState<'_, X>, at: Offset, now: Seconds) {
    let SessionState { core, local: Local { cache, .. } } = state;
    let Some(item) = core.items.at(at, now) else {
        return;
    };
    if item.value_len() > INLINE_MAX {
        if !core.pins.unlinked(at) {
            return;
        }
        for chunk in Pieces::freed(core.items.region(), &item) {
            cache.put(&core.pool, chunk);
        }
    }
    cache.put(&core.pool, at);
}
