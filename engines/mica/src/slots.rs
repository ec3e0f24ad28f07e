//! Choosing the slot of an item (MICA, sections 4.3.2 and 4.3.3).

use crate::index::{Bucket, SLOTS, Tag};
use crate::store::ItemStore;
use crate::writer::{Found, Writer};
use guira_contract::StoreError;
use guira_items::Removal;
use std::cmp::Reverse;

/// How many items of a full bucket are looked at, from the oldest on, for one that was not used.
const CANDIDATES: usize = 4;

pub(crate) enum Slot<'w> {
    Empty(Bucket<'w>, usize),
    /// The slot of this item, which is evicted.
    Displaced(Found<'w>),
    /// The first slot of the spare bucket that this link leads to, which becomes part of the chain.
    Spare(u32),
}

/// Whether an item of the bucket finds a slot.
pub(crate) fn has_slot<S: ItemStore>(writer: &Writer<'_, S>, main: Bucket<'_>) -> bool {
    let index = writer.part().index();
    S::IS_LOSSY
        || main.empty().next().is_some()
        || index.slot_behind(main).is_some()
        || index.may_grow_chain(main) && index.has_spare()
}

/// A slot for an item of the bucket. A full bucket gets a spare bucket (MICA, section 4.3.3). A cache whose log has gone around, or that has no spare bucket
/// left, evicts the item of the bucket that is furthest behind the tail (section 4.3.2).
pub(crate) fn slot_in<'w, S: ItemStore>(
    writer: &'w Writer<'_, S>,
    main: Bucket<'w>,
) -> Result<Slot<'w>, StoreError> {
    if let Some(slot) = main.empty().next() {
        return Ok(Slot::Empty(main, slot));
    }
    let index = writer.part().index();
    if S::IS_LOSSY {
        return Ok(slot_in_cache(writer, main));
    }
    match index.slot_behind(main) {
        Some((bucket, slot)) => Ok(Slot::Empty(bucket, slot)),
        None if !index.may_grow_chain(main) => Err(StoreError::NoMemory),
        None => index.take_spare().map(Slot::Spare).ok_or(StoreError::NoMemory),
    }
}

/// The same for a full bucket of a cache. An item that is not there any more leaves its slot, in the chain too.
#[inline(never)]
fn slot_in_cache<'w, S: ItemStore>(writer: &'w Writer<'_, S>, main: Bucket<'w>) -> Slot<'w> {
    let index = writer.part().index();
    let displaced = match slot_of_oldest(writer, main) {
        Slot::Displaced(displaced) => displaced,
        slot => return slot,
    };
    let free_slot = |bucket: Bucket<'w>| {
        let gone = || bucket.used().find(|slot| writer.entry_at(bucket.offset(*slot)).is_none());
        bucket.empty().next().or_else(gone).map(|slot| Slot::Empty(bucket, slot))
    };
    if let Some(slot) = index.chain_of(main).find_map(free_slot) {
        return slot;
    }
    let part = writer.part();
    let may_chain = !part.store().is_evicting()
        && index.may_grow_chain(main)
        && part.has_room_for_spare(writer.core().sizing.share());
    let spare = may_chain.then(|| index.take_spare()).flatten();
    spare.map_or(Slot::Displaced(displaced), Slot::Spare)
}

/// The slot of the oldest item, unless that was used: then of the next.
fn slot_of_oldest<'w, S: ItemStore>(writer: &'w Writer<'_, S>, bucket: Bucket<'w>) -> Slot<'w> {
    let store = writer.part().store();
    let mut slots: [usize; SLOTS] = std::array::from_fn(|slot| slot);
    slots.sort_unstable_by_key(|slot| Reverse(store.age(bucket.offset(*slot))));
    let mut oldest = None;
    for slot in slots.into_iter().take(CANDIDATES) {
        let offset = bucket.offset(slot);
        match writer.entry_at(offset) {
            None => return Slot::Empty(bucket, slot),
            Some(entry) => {
                let found = Found { main: bucket, bucket, slot, offset, entry };
                if !entry.is_used() {
                    return Slot::Displaced(found);
                }
                oldest.get_or_insert(found);
            }
        }
    }
    oldest.map_or(Slot::Empty(bucket, slots[0]), Slot::Displaced)
}

/// Fills a slot of a bucket that is open.
pub(crate) fn fill<S: ItemStore>(
    writer: &Writer<'_, S>,
    main: Bucket<'_>,
    slot: &Slot<'_>,
    (tag, offset): (Tag, u64),
) {
    match slot {
        Slot::Empty(bucket, slot) => bucket.set(*slot, tag, offset),
        Slot::Displaced(found) => found.bucket.set(found.slot, tag, offset),
        Slot::Spare(link) => writer.part().index().chain(main, *link, |spare| spare.set(0, tag, offset)),
    }
}

/// Inserts an item that comes from another bucket. Both are open. If there is no room and nothing is evicted, the item itself is; a store makes sure
/// beforehand that there is room.
pub(crate) fn take_in<S: ItemStore>(writer: &Writer<'_, S>, main: Bucket<'_>, (tag, offset): (Tag, u64)) {
    let index = writer.part().index();
    let any_spare = |_| index.take_any_spare().map(Slot::Spare).ok_or(StoreError::NoMemory);
    match slot_in(writer, main).or_else(any_spare) {
        Ok(slot) => {
            if let Slot::Displaced(displaced) = &slot {
                writer.bury(displaced, Removal::Displaced);
            }
            fill(writer, main, &slot, (tag, offset));
        }
        Err(_) => {
            if let Some(entry) = writer.entry_at(offset) {
                writer.bury(&Found { main, bucket: main, slot: 0, offset, entry }, Removal::Displaced);
            }
        }
    }
}
