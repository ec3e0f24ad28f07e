//! Room in the table for a key whose buckets are full.

use super::growth;
use super::removal;
use super::state::SessionState;
use crate::core::Core;
use crate::index::{LockedBuckets, Neighbour, Scheme};
use guira_contract::{Counter, Key, StoreError};
use guira_items::{Eviction, Removal};
use guira_sync::clock::Seconds;

/// If more entries of two buckets than this have the tag of the key, they came in a crowd.
const CROWD: usize = 4;

/// Makes room for `key`: by moving entries, by growing the table, or by evicting an item. The caller looks again: there may
/// still be none.
///
/// # Errors
/// If an item would have to be evicted, and eviction is off.
pub(crate) fn make<X: Scheme>(
    state: &mut SessionState<'_, X>,
    key: Key<'_>,
    now: Seconds,
) -> Result<(), StoreError> {
    let core = state.core;
    let was_growing = core.index.is_growing();
    if let Some(moved) = core.index.make_room(key.hash) {
        state.local.counters.add(Counter::Displacements, moved);
        return Ok(());
    }
    if was_growing && growth::turn_back_if_crowded(core) {
        return Ok(());
    }
    // The new table is full as well: the next growth has to begin, and this one to end before.
    if was_growing && growth::is_crowded(core) && growth::end(state, now) {
        return Ok(());
    }
    // Another session may have begun meanwhile: then there is room in the new table.
    if !was_growing && (core.index.is_growing() || growth::begin(state, now)) {
        return Ok(());
    }
    let held = core.index.lock(key.hash);
    if held.has_room() {
        held.release_unchanged();
        return Ok(());
    }
    let dead = dead_victim(core, &held, now).map(|victim| (victim, Removal::Dead));
    let crowded = || crowd_victim(core, &held).map(|victim| (victim, Removal::Displaced));
    let victim = match core.options.engine.eviction {
        Eviction::On => dead.or_else(crowded),
        Eviction::Off => dead,
    };
    let Some((victim, why)) = victim else {
        held.release_unchanged();
        return Err(StoreError::NoMemory);
    };
    held.remove_neighbour(&victim);
    drop(held);
    removal::account(state, victim.item, why, now);
    removal::free(state, victim.item, now);
    Ok(())
}

/// An entry of two full buckets whose item is dead.
fn dead_victim<X: Scheme>(
    core: &Core<X>,
    held: &LockedBuckets<'_, X>,
    now: Seconds,
) -> Option<Neighbour<X::At>> {
    held.neighbours().into_iter().find(|neighbour| core.items.is_dead(neighbour.item, now))
}

/// Which entry of two full buckets goes: one with the key's own tag if there are several, since they came in a crowd; else
/// one that was not read lately.
fn crowd_victim<X: Scheme>(core: &Core<X>, held: &LockedBuckets<'_, X>) -> Option<Neighbour<X::At>> {
    let all = held.neighbours();
    let crowd = all.iter().filter(|neighbour| neighbour.same_tag);
    if crowd.clone().count() > CROWD {
        return crowd.max_by_key(|neighbour| neighbour.item).copied();
    }
    let unread = all.iter().find(|neighbour| !core.pool.memory().is_recent(neighbour.item));
    unread.or(all.first()).copied()
}
