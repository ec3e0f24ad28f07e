//! Growth of the index, and the end of the store that gives way to it.

use crate::index::Open;
use crate::partition::Fullness;
use crate::slots;
use crate::store::ItemStore;
use crate::writer::Writer;
use guira_sync::atomic::Ordering;

/// The items of a bucket move to at most this many, if the index doubles or grows by a quarter.
const GOALS: usize = 3;

/// Moves the end of the store to where it should be, if memory has become more or less, or the index wants more.
#[inline]
pub(crate) fn adjust<S: ItemStore>(writer: &mut Writer<'_, S>) {
    if !writer.part().is_sized_for(writer.core().sizing.share()) {
        move_end(writer);
    }
}

#[cold]
fn move_end<S: ItemStore>(writer: &mut Writer<'_, S>) {
    let part = writer.part();
    if let Some(before) = part.move_end(writer.core().sizing.share()) {
        part.store().end_moved(writer, before);
    }
}

/// Looks for memory for a store that ends early because the Region had none.
pub(crate) fn end_shortage<S: ItemStore>(writer: &mut Writer<'_, S>) {
    let (core, part) = (writer.core(), writer.part());
    if part.is_short() && part.end_shortage(core.shell.region(), core.sizing.share()) {
        move_end(writer);
    }
}

/// Continues the growth of the index by a bucket, or begins it. False if there is nothing to do, or no memory.
#[cold]
#[inline(never)]
pub(crate) fn grow<S: ItemStore>(writer: &mut Writer<'_, S>) -> bool {
    let (core, part) = (writer.core(), writer.part());
    let (index, share) = (part.index(), core.sizing.share());
    if let Some(bucket) = index.to_move() {
        return move_bucket(writer, bucket);
    }
    let fullness = if S::IS_LOSSY { Fullness::LOSSY } else { Fullness::CHAINED };
    let (items, crowded_from) = (part.items(), part.crowded_from(share, fullness));
    if items < crowded_from {
        index.set_crowded_from(crowded_from);
        return false;
    }
    let wanted = part.wanted_buckets(share, fullness, core.plan.buckets_max);
    let Some(wanted) = wanted.filter(|wanted| part.make_room_for(*wanted, share)) else {
        // Not before there are more items. If the log has all the memory it gives some of it back.
        index.set_crowded_from(items + items / 64 + 1);
        if let Some(wanted) = wanted.filter(|_| part.store().is_evicting()) {
            index.claim(wanted);
        }
        return false;
    };
    core.growths.fetch_add(1, Ordering::Relaxed);
    index.begin_growth(wanted);
    adjust(writer);
    true
}

/// Moves the items of a bucket to where they belong when the index has grown. False if there are too few spare buckets for it.
fn move_bucket<S: ItemStore>(writer: &mut Writer<'_, S>, number: u32) -> bool {
    let (part, region) = (writer.part(), writer.core().shell.region());
    let index = part.index();
    let bucket = index.bucket(number);
    if !S::IS_LOSSY && index.spares_left() < GOALS as u64 {
        return false;
    }
    let items: Vec<_> = index
        .slots_of(number)
        .filter_map(|(bucket, slot)| {
            let offset = bucket.offset(slot);
            writer.entry_at(offset).map(|entry| (offset, entry.place(), bucket.tag(slot)))
        })
        .collect();
    // Readers of these items wait until all have moved: at the old bucket, or at the new one once the cursor has moved.
    let opened = bucket.open();
    let mut goals: [Option<(u32, Open<'_>)>; GOALS] = Default::default();
    for (_, place, _) in &items {
        let goal = index.bucket_when_grown(*place);
        let is_open = goal == number || goals.iter().flatten().any(|(open, _)| *open == goal);
        if let Some(free) = goals.iter_mut().find(|free| free.is_none()).filter(|_| !is_open) {
            *free = Some((goal, index.bucket(goal).open()));
        }
    }
    index.empty(bucket);
    index.moved(number);
    for (offset, place, tag) in items {
        slots::take_in(writer, index.bucket(index.bucket_when_grown(place)), (tag, offset));
    }
    drop((opened, goals));
    let before = number.wrapping_sub(1);
    if number > 0 {
        let bucket = index.bucket(before);
        bucket.used().for_each(|slot| region.prefetch(part.store().at(bucket.offset(slot)).bytes()));
        region.prefetch(index.place_of(before.saturating_sub(1)));
    }
    true
}
