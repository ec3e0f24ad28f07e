//! Giving memory back: items beyond the end of the store move to before it.

use crate::anew;
use crate::store::{ItemStore, Relocated};
use crate::writer::{Found, Writer};
use guira_items::Removal;
use guira_sync::words::WORD;

const SLICE: u64 = 16;

/// Does a step to give memory back, if items take more than they may. False if there is nothing to do, or it cannot be done.
pub(crate) fn shrink<S: ItemStore>(writer: &mut Writer<'_, S>) -> bool {
    let store = writer.part().store();
    store.reached() > store.end()
        && store.give_back(writer, relocate_some, |writer| {
            writer.part().discard_beyond_end(writer.core().shell.region(), writer.core().sizing.share())
        })
}

/// Moves some items that lie beyond the end.
fn relocate_some<S: ItemStore>(writer: &mut Writer<'_, S>) -> Relocated {
    let part = writer.part();
    let (from, buckets) = (part.relocated(), part.index().buckets());
    let to = buckets.min(from + SLICE);
    for number in from..to {
        // One at a time: the search for room may remove others, and change the bucket.
        while let Some(found) = find_beyond(writer, number as u32) {
            if writer.is_dead(&found) {
                writer.remove(found, Removal::Dead);
                continue;
            }
            let copied = anew::copied(writer, &found);
            if !anew::move_to_tail(writer, copied) {
                return Relocated::Stuck;
            }
        }
    }
    // When all were looked at none is looked at again: nothing is stored there any more.
    part.set_relocated(to);
    if to == part.index().buckets() { Relocated::All } else { Relocated::Some }
}

/// An item of the bucket that lies beyond the end of the store.
fn find_beyond<'w, S: ItemStore>(writer: &'w Writer<'_, S>, number: u32) -> Option<Found<'w>> {
    let (index, store) = (writer.part().index(), writer.part().store());
    let main = index.bucket(number);
    let is_beyond = |found: &Found<'_>| {
        let start = store.at(found.offset).bytes() - store.at(0).bytes();
        start / WORD + found.entry.room() > store.end() as usize
    };
    index.slots_of(number).filter_map(|slot| writer.found_in(main, slot)).find(is_beyond)
}
