//! Which items a log keeps when its head comes by: those that were used since they were stored.

use super::holder::Holder;
use super::item_store::ItemStore;
use super::log::{Log, Passed};
use crate::entry::{Anchor, Entry};
use guira_items::Removal;
use guira_memory::Region;
use guira_sync::words;

/// How many used items a search for room may keep: enough that hot items stored one after the other all stay, and few enough that a store takes no longer than
/// some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keeps {
    items: u32,
    words: u64,
}

impl Keeps {
    /// Outside of searches nothing is kept.
    pub(super) const NONE: Self = Keeps { items: 0, words: 0 };
    pub(super) const OF_A_SEARCH: Self = Keeps { items: 16 << 10, words: 1 << 20 };
}

/// Lets go of the oldest entry, at `head`. If that is `replaced`, it counts as replaced, and `replaced` becomes `None`.
pub(super) fn pass(
    log: &Log,
    region: &Region,
    holder: &impl Holder,
    head: u64,
    (keeps, replaced): (&mut Keeps, &mut Option<u64>),
) -> Passed {
    let anchor = Anchor::load(region, log.at(head));
    let units = anchor.units() as u64;
    let is_live = !anchor.is_dead() && !log.is_before_flush(head);
    if let Some(entry) = is_live.then(|| Entry::at(region, log.at(head), holder.now())).flatten() {
        let is_replaced = replaced.take_if(|replaced| *replaced == head).is_some();
        let why = if is_replaced { Removal::Gone } else { Removal::Evicted };
        let is_dead = holder.is_dead(&entry);
        if entry.is_used()
            && !is_replaced
            && !is_dead
            && let Some(kept) = keep(log, region, holder, (head, &entry), keeps)
        {
            return kept;
        }
        holder.account_removed(&entry, if is_dead { Removal::Dead } else { why });
        Anchor::bury(region, log.at(head));
    }
    holder.count_passed();
    if holder.is_pinned(head) {
        // It may have been flushed. When the log comes by again it lies before no flush.
        Anchor::bury(region, log.at(head));
        return Passed::Needed(units);
    }
    Passed::Free(units)
}

/// Keeps the oldest entry, which is at `head` and was used: copies it to the tail if the gap before it has room. If there is no gap, or the entry is pinned or
/// too long to copy, it stays where it is as the newest: then the gap is lost until the log comes round. `None` if enough was kept.
fn keep(
    log: &Log,
    region: &Region,
    holder: &impl Holder,
    (head, entry): (u64, &Entry<'_>),
    left: &mut Keeps,
) -> Option<Passed> {
    let units = entry.units() as u64;
    let items = left.items.checked_sub(1)?;
    let index = holder.index();
    let number = index.bucket_of(entry.place(), index.extent());
    let main = index.bucket(number);
    let (bucket, slot) = index.slots_of(number).find(|(bucket, slot)| bucket.offset(*slot) == head)?;
    left.items = items;
    let gap = log.gap();
    if gap == 0 || units > Keeps::OF_A_SEARCH.words || holder.is_pinned(head) {
        entry.anchor().moved_to(entry.room()).store(region, log.at(head));
        main.change(|| bucket.set(slot, bucket.tag(slot), log.as_newest(head)));
        return Some(Passed::Needed(entry.room() as u64));
    }
    left.words = left.words.checked_sub(units)?;
    let to = log.take_of_gap(units);
    let (anchor, room) = (entry.anchor(), entry.room() as u64);
    let copy = || {
        let words = region.words(log.at(to), entry.units()).expect("the log is inside the region");
        // From the first word on: where the gap is shorter than the entry, the two overlap.
        words.iter().zip(entry.words()).for_each(|(to, from)| words::store(to, words::load(from)));
        anchor.moved_to(entry.units()).store(region, log.at(to));
    };
    if gap >= units {
        copy();
        main.change(|| bucket.set(slot, bucket.tag(slot), to));
        Anchor::bury(region, log.at(head));
    } else {
        // The copy overwrites the place where readers have found the entry: the version of its bucket is odd meanwhile.
        main.change(|| {
            copy();
            bucket.set(slot, bucket.tag(slot), to);
        });
    }
    Some(Passed::Free(room))
}
