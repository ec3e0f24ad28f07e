//! The store of a short value, whatever is there: what most sets are.
//!
//! It does what [`super::update`] does for such a decision. Nobody decides here, and memory is at hand, or it is left to the other: so
//! all that is known beforehand is computed before anything is locked, and there is one attempt.

use super::state::{Local, SessionState};
use super::update::{self, Present};
use super::{growth, removal};
use crate::core::Core;
use crate::flush;
use crate::index::{Guess, LockedBuckets, Scheme};
use crate::items::Items;
use guira_contract::{
    Counter, Decision, Expiry, ItemSpec, ItemView, Key, KeyHash, NewItem, Provision, StoreError, Value,
    counted_size,
};
use guira_items::hooks::{self, Window};
use guira_items::{INLINE_MAX, ItemHeaderSpec, Removal, Shape};
use guira_memory::Offset;
use guira_memory::slab::FirstBit;
use guira_sync::clock::Seconds;

/// Stores an item in place of whatever is there.
///
/// # Errors
/// If there is no memory, or the item is too large.
#[inline(never)]
pub(crate) fn put<X: Scheme>(
    state: &mut SessionState<'_, X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
    new: &NewItem<'_>,
) -> Result<(), StoreError> {
    flush::settle(state.core, now);
    match new.value {
        Value::Bytes(value) if is_put(state, (key, guess), now, new, value) => Ok(()),
        _ => otherwise(state, (key, guess), now, new),
    }
}

/// The same, whatever is in the way.
#[cold]
#[inline(never)]
fn otherwise<X: Scheme>(
    state: &mut SessionState<'_, X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
    new: &NewItem<'_>,
) -> Result<(), StoreError> {
    update::update(state, (key, guess), now, Provision::of(new), |_| Decision::Put(*new))
}

/// Whether it was stored: false if the value is long, the session has no chunk for it, the buckets are full, or the table grows.
#[inline(always)]
fn is_put<X: Scheme>(
    state: &mut SessionState<'_, X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
    new: &NewItem<'_>,
    value: &[u8],
) -> bool {
    let SessionState { core, local: Local { cache, .. } } = state;
    let counted = counted_size(key.bytes.len(), new.flags, value.len());
    if value.len() > INLINE_MAX || counted > core.options.engine.max_item_size {
        return false;
    }
    let fields = core.items.fields_of(&ItemSpec::of(new, value.len()));
    let shape = Shape { key_len: key.bytes.len() as u8, value_len: value.len() as u32, fields };
    let Some(class) = core.pool.class_for(shape.size()) else {
        return false;
    };
    let Some(at) = cache.pop(class) else {
        return false;
    };
    let Some(old) = link(core, (key, guess), now, (new, value), (at, shape)) else {
        cache.put_back(class, at);
        return false;
    };
    let stored = if let Old::Overwritten(item) = old { item } else { at };
    note(state, (stored, key.hash), (new.expiry, now), old);
    state.local.counters.add(Counter::ItemsStored, 1);
    match old {
        Old::None => {
            state.local.counters.item_put(Some(class), shape.size() as u64);
            if state.core.index.is_growing() {
                growth::help(state, now);
            }
        }
        Old::Overwritten(_) => state.local.cache.put_back(class, at),
        Old::Short(at, bytes) => {
            let old_class = state.local.cache.put(&state.core.pool, at);
            state.local.counters.item_replaced((Some(class), shape.size() as u64), (old_class, bytes));
        }
        Old::Other(at, why) => {
            state.local.counters.item_put(Some(class), shape.size() as u64);
            removal::account(state, at, why, now);
            removal::free(state, at, now);
        }
    }
    true
}

/// What was there before.
#[derive(Clone, Copy)]
enum Old {
    None,
    /// A live item at this place, which the new one has overwritten.
    Overwritten(Offset),
    /// A live item in one chunk, with its size.
    Short(Offset, u64),
    /// An item that was dead, or is long.
    Other(Offset, Removal),
}

impl Old {
    fn first_bit(self) -> FirstBit {
        match self {
            Old::Overwritten(_) | Old::Short(..) | Old::Other(_, Removal::Gone) => FirstBit::Set,
            Old::None | Old::Other(..) => FirstBit::Clear,
        }
    }
}

/// Writes the item into its chunk and puts it into the table. Returns what it has replaced; `None` if there is no room in the
/// buckets, or the table grows.
#[inline(always)]
fn link<X: Scheme>(
    core: &Core<X>,
    (key, guess): (Key<'_>, &Guess),
    now: Seconds,
    new: (&NewItem<'_>, &[u8]),
    place: (Offset, Shape),
) -> Option<Old> {
    hooks::pause(Window::Locking);
    // An entry that is there already is replaced under the counter of its bucket.
    if let Some(held) = core.index.lock_entry(key.hash, guess) {
        // Under the counter, as in an update.
        let generation = core.items.flushes().generation();
        match update::present(core, &held, key, (generation, now)) {
            Some(present) if held.covers(present.slot) => {
                return Some(replace(core, &held, (key, generation, now), present, new, place));
            }
            _ => held.release_unchanged(),
        }
    }
    let held = core.index.lock_in_one_table(key.hash)?;
    let generation = core.items.flushes().generation();
    let present = update::present(core, &held, key, (generation, now));
    if let Some(present) = present {
        return Some(replace(core, &held, (key, generation, now), present, new, place));
    }
    hooks::pause(Window::Judged);
    if !held.has_room() {
        held.release_unchanged();
        return None;
    }
    let (at, shape) = place;
    write(core, (key, generation, now), new, place);
    core.pool.memory().renew(at, shape.size(), FirstBit::Clear);
    let inserted = held.insert(at);
    debug_assert!(inserted, "room was seen under the same lock");
    Some(Old::None)
}

/// Writes the item over the present one if that has the same lengths and fields; otherwise into its chunk, and lets the
/// entry lead there.
#[inline(always)]
fn replace<X: Scheme, const N: usize>(
    core: &Core<X>,
    held: &LockedBuckets<'_, X, N>,
    (key, generation, now): (Key<'_>, u32, Seconds),
    present: Present<'_, X>,
    new: (&NewItem<'_>, &[u8]),
    (at, shape): (Offset, Shape),
) -> Old {
    hooks::pause(Window::Judged);
    let item = present.item;
    // Neither the entry nor the lines of another chunk are written to. No order of stores has to be told of it.
    if present.dead.is_none() && item.shape() == shape && !core.evictor.wants_stores() {
        write(core, (key, generation, now), new, (item.at, shape));
        core.pool.memory().renew(item.at, shape.size(), FirstBit::Set);
        return Old::Overwritten(item.at);
    }
    write(core, (key, generation, now), new, (at, shape));
    let old = match present.dead {
        None if item.value_len() <= INLINE_MAX => Old::Short(item.at, Items::bytes_of(&item)),
        None => Old::Other(item.at, Removal::Gone),
        Some(_) => Old::Other(item.at, Removal::Dead),
    };
    core.pool.memory().renew(at, shape.size(), old.first_bit());
    held.replace(present.slot, at);
    core.walks.replaced(core.pool.memory(), key.hash, item.at, at);
    old
}

#[inline(always)]
fn write<X: Scheme>(
    core: &Core<X>,
    (key, generation, now): (Key<'_>, u32, Seconds),
    (new, value): (&NewItem<'_>, &[u8]),
    (at, shape): (Offset, Shape),
) {
    let header_spec = ItemHeaderSpec::of(key.bytes, new, generation, now);
    update::write_item(core, &header_spec, at, shape, value);
}

/// Has those hear of a new item who want to.
#[inline(always)]
fn note<X: Scheme>(
    state: &mut SessionState<'_, X>,
    (at, hash): (Offset, KeyHash),
    (expiry, now): (Expiry, Seconds),
    old: Old,
) {
    let core = state.core;
    core.short_lived.note(state.local.lane, at, expiry, now);
    // For an order, an item that was overwritten is where it was.
    if core.evictor.wants_stores() && !matches!(old, Old::Overwritten(_)) {
        match old.first_bit() {
            FirstBit::Clear => state.local.events.stored(at, hash.0 as u32, expiry, now),
            FirstBit::Set => state.local.events.stored_over(at, hash.0 as u32, expiry, now),
        }
        state.flush_many_events();
    }
}
