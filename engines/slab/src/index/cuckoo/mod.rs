//! Cuckoo hashing with tags (MemC3, section 3): two candidate buckets for each key, and entries that move to their other
//! bucket when a key finds both of its own full.
//!
//! An insert into two full buckets first searches a *cuckoo path* without locks ([`path`]), then moves entries along it
//! backwards, one at a time, each under the counters of the two buckets that it concerns. A path that is
//! out of date when a step comes is given up and searched anew.

pub(super) mod bucket;
mod pair;
mod path;
#[cfg(feature = "probe")]
pub(super) mod probe;

use bucket::{BUCKET_BYTES, Bucket, Entry, SECOND_AT, SLOTS, Slots};
pub use pair::Cuckoo;
use pair::CuckooPlace;
use pair::SlotAt;

use super::scheme::{First, Neighbour, Scheme, SearchLimits};
use super::table::Table;
use guira_contract::KeyHash;
use guira_memory::{Offset, Region};
use guira_sync::version::Versions;

/// The buckets of a place, and the slots in them whose tags have the right low byte. Both buckets are looked at before
/// anything depends on which of them it is: that is a coin's toss, and a branch on it would be mispredicted half the
/// time, just when the processor could go on to the next lookup.
#[inline(always)]
fn likely<'a>(region: &'a Region, table: Table<Cuckoo>, place: CuckooPlace) -> ([Bucket<'a>; 2], Slots) {
    let buckets = [table.bucket(region, place.first), table.bucket(region, place.second)];
    (buckets, buckets[0].with_low_in_both(buckets[1], place.tag as u8))
}

/// Takes from `slots` up to the next that has the whole tag: which bucket of the two, and which slot.
#[inline(always)]
fn next_with_tag(buckets: &[Bucket<'_>; 2], slots: &mut Slots, tag: u16) -> Option<(usize, usize)> {
    loop {
        let slot = slots.next()?;
        let (which, slot) = (slot / SECOND_AT, slot % SECOND_AT);
        if buckets[which].has_more(slot, tag) {
            return Some((which, slot));
        }
    }
}

#[allow(private_interfaces, reason = "schemes are written in this crate only")]
impl Scheme for Cuckoo {
    const NAME: &'static str = "cuckoo";
    const FORMAT: [u8; 8] = *b"cuckoo03";
    const BUCKET_BYTES: usize = BUCKET_BYTES;
    const LINK_BYTES: usize = 0;
    const FULL_TEN: u64 = 10 * SLOTS as u64;
    const CROWDED_PERCENT: u64 = 90;
    const LOAD_PERCENT: u64 = 95;
    const TELLS_WHEN_FULL: bool = true;
    const CURSORS: usize = SLOTS;

    type Place = CuckooPlace;
    type At = SlotAt;

    #[inline(always)]
    fn place(table: Table<Self>, hash: KeyHash) -> CuckooPlace {
        table.place(hash)
    }

    #[inline(always)]
    fn buckets(place: CuckooPlace) -> [u32; 2] {
        [place.first, place.second]
    }

    #[inline(always)]
    fn bucket_of(_place: CuckooPlace, at: SlotAt) -> u32 {
        at.bucket
    }

    #[inline(always)]
    fn first(region: &Region, table: Table<Self>, place: CuckooPlace) -> First {
        let (buckets, mut slots) = likely(region, table, place);
        match next_with_tag(&buckets, &mut slots, place.tag) {
            Some((which, slot)) => First::Item(buckets[which].item(slot), which),
            None => First::Nothing,
        }
    }

    #[inline(always)]
    fn find<R>(
        region: &Region,
        table: Table<Self>,
        place: CuckooPlace,
        _stands: impl Fn() -> bool,
        mut look: impl FnMut(Offset) -> Option<R>,
    ) -> Option<(SlotAt, R)> {
        let (buckets, mut slots) = likely(region, table, place);
        loop {
            let (which, slot) = next_with_tag(&buckets, &mut slots, place.tag)?;
            if let Some(result) = look(buckets[which].item(slot)) {
                let bucket = if which == 0 { place.first } else { place.second };
                return Some((SlotAt { table, bucket, slot }, result));
            }
        }
    }

    #[inline(always)]
    fn replace(region: &Region, at: SlotAt, _old: Offset, item: Offset) {
        at.table.bucket(region, at.bucket).lead_to(at.slot, item);
    }

    fn remove(region: &Region, at: SlotAt, _item: Offset) {
        at.table.bucket(region, at.bucket).clear(at.slot);
    }

    /// Into a free slot of the emptier bucket.
    fn insert(region: &Region, table: Table<Self>, place: CuckooPlace, item: Offset) -> bool {
        let (first, second) = (table.bucket(region, place.first), table.bucket(region, place.second));
        let (free_first, free_second) = (first.free(), second.free());
        let (bucket, free) = if free_second.count() > free_first.count() {
            (second, free_second)
        } else {
            (first, free_first)
        };
        let Some(slot) = free.first() else {
            return false;
        };
        bucket.put(slot, Entry { tag: place.tag, item });
        true
    }

    fn has_room(region: &Region, table: Table<Self>, place: CuckooPlace) -> bool {
        let first = table.bucket(region, place.first);
        first.with_low_in_both(table.bucket(region, place.second), 0).count() > 0
    }

    fn make_room(
        (region, versions, limits): (&Region, &Versions, SearchLimits),
        table: Table<Self>,
        place: CuckooPlace,
    ) -> Option<u64> {
        let path = path::search(region, table, place, limits)?;
        Some(path::execute((region, versions), table, &path))
    }

    fn neighbours(region: &Region, table: Table<Self>, place: CuckooPlace) -> Vec<Neighbour<SlotAt>> {
        let in_bucket = |bucket| {
            let words = table.bucket(region, bucket);
            (0..SLOTS).filter_map(move |slot| {
                let Entry { tag, item } = words.entry(slot)?;
                let at = SlotAt { table, bucket, slot };
                Some(Neighbour { at, item, same_tag: tag == place.tag })
            })
        };
        in_bucket(place.first).chain(in_bucket(place.second)).collect()
    }

    fn entry(region: &Region, table: Table<Self>, bucket: u32, slot: usize) -> Option<(SlotAt, Offset)> {
        let entry = table.bucket(region, bucket).entry(slot)?;
        Some((SlotAt { table, bucket, slot }, entry.item))
    }

    fn all_of(
        region: &Region,
        table: Table<Self>,
        bucket: u32,
        mut look: impl FnMut(Offset) -> bool,
    ) -> bool {
        let bucket = table.bucket(region, bucket);
        let free = bucket.free();
        (0..SLOTS).all(|slot| free.0 & (1 << slot) != 0 || look(bucket.item(slot)))
    }
}
