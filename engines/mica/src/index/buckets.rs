//! The index of a partition. A full bucket gets a spare one behind it (MICA, section 4.3.3); in a cache whose log has gone around, it evicts (section 4.3.2).
//!
//! **It grows.** The paper's index has a fixed size. Here the size of items is not known beforehand, so an index begins small and grows with their
//! number. A key belongs to bucket `place · buckets / 2^32`, where its *place* is 32 bits of its hash: with more buckets every key moves up, and the
//! keys of one bucket move to two or three neighbours. So buckets move one by one, from the last to the first, within the same memory: when a bucket
//! moves, the buckets that its items go to are empty. Buckets from the cursor on are numbered by the new size.
//!
//! The place of an item lies in its entry.

use super::bucket::{BUCKET_BYTES, Bucket};
use crate::owned::Owned;
use guira_memory::Region;
use guira_sync::atomic::{AtomicU64, Ordering, Padded};
use std::ops::Range;
use std::sync::Arc;

/// A store may have one spare bucket for this many others.
pub(crate) const SPARE_PART: u64 = 10;

/// Spare buckets are backed this many at a time: 64 KiB.
const SPARES_AT_ONCE: u64 = 512;

pub(crate) const FIRST_BUCKETS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Index {
    region: Arc<Region>,
    /// Where it begins, in pairs of lines from the start of the Region.
    first_pair: usize,
    extent: Padded<AtomicU64>,
    /// The number of buckets after the growth under way; that of now if there is none.
    next: AtomicU64,
    /// The most buckets that it ever had: their memory is committed.
    reached: Owned,
    /// It grows from this many items on.
    crowded_from: Owned,
    /// Memory is reserved for this many buckets.
    claimed: Owned,
    /// Where spare buckets begin, in pairs of lines from the start of the Region, and how many there can be.
    first_spare: usize,
    spares_max: u32,
    /// How many spare buckets were ever used and are in use, and the link to the first free one.
    spares: Owned,
    spares_used: Owned,
    free_spare: Owned,
}

/// The number of buckets, and the cursor: buckets from there on are numbered by the size that the index is growing to. Without growth they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent(u64);

impl Extent {
    fn new(buckets: u32, cursor: u32) -> Self {
        Extent(u64::from(buckets) << 32 | u64::from(cursor))
    }

    #[inline(always)]
    fn buckets(self) -> u64 {
        self.0 >> 32
    }

    #[inline(always)]
    fn cursor(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    pub(crate) fn is_growing(self) -> bool {
        self.cursor() != self.buckets()
    }
}

/// The state of an index that a restart needs.
pub(crate) type SavedIndex = [u64; 6];

impl Index {
    /// An empty index in the memory that begins `base` bytes from the start of the Region.
    ///
    /// Spare buckets, up to `spares_max` of them, lie from `spares_at` on.
    pub(crate) fn new(region: Arc<Region>, base: usize, spares_at: usize, spares_max: u64) -> Self {
        Index {
            region,
            first_pair: base / BUCKET_BYTES,
            extent: Padded(AtomicU64::new(Extent::new(FIRST_BUCKETS, FIRST_BUCKETS).0)),
            next: AtomicU64::new(u64::from(FIRST_BUCKETS)),
            reached: Owned::default(),
            crowded_from: Owned::default(),
            claimed: Owned::default(),
            first_spare: spares_at / BUCKET_BYTES,
            spares_max: spares_max as u32,
            spares: Owned::default(),
            spares_used: Owned::default(),
            free_spare: Owned::default(),
        }
    }

    /// Whether it should begin or continue to grow with this many items.
    #[inline(always)]
    pub(crate) fn is_crowded(&self, items: u64) -> bool {
        items >= self.crowded_from.get() || self.to_move().is_some()
    }

    /// Lets it grow from this many items on.
    pub(crate) fn set_crowded_from(&self, items: u64) {
        // Upkeep does this in each round: a line that other workers read is written only if it changes.
        if self.crowded_from.get() != items {
            self.crowded_from.set(items);
        }
    }

    #[inline(always)]
    pub(crate) fn extent(&self) -> Extent {
        // Acquire: pairs with the Release in `set_extent`.
        Extent(self.extent.load(Ordering::Acquire))
    }

    fn set_extent(&self, buckets: u32, cursor: u32) {
        // Release: pairs with the Acquire in `extent`: a reader that sees that the index is growing knows to which size.
        self.extent.store(Extent::new(buckets, cursor).0, Ordering::Release);
    }

    /// The bucket that a place belongs to.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, place: u32, extent: Extent) -> u32 {
        let bucket = (u64::from(place) * extent.buckets()) >> 32;
        if bucket < extent.cursor() { bucket as u32 } else { self.grown(place) }
    }

    #[cold]
    fn grown(&self, place: u32) -> u32 {
        // Acquire: pairs with the Release in `begin_growth`. A reader with an extent of the growth before, which has ended,
        // may find the size of the next one here: then it finds another extent when it looks again.
        ((u64::from(place) * self.next.load(Ordering::Acquire)) >> 32) as u32
    }

    /// The first place beyond those that belong to a place's bucket; `None` if that was the last bucket.
    pub(crate) fn beyond(&self, place: u32) -> Option<u32> {
        let extent = self.extent();
        let bucket = (u64::from(place) * extent.buckets()) >> 32;
        let (bucket, buckets) = if bucket < extent.cursor() {
            (bucket, extent.buckets())
        } else {
            (u64::from(self.grown(place)), self.next.load(Ordering::Relaxed))
        };
        u32::try_from(((bucket + 1) << 32).div_ceil(buckets)).ok()
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, number: u32) -> Bucket<'_> {
        Bucket::new(self.region.line_pair(self.first_pair + number as usize))
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, number: u32) {
        let at = self.place_of(number);
        self.region.prefetch(at);
        self.region.prefetch(at + BUCKET_BYTES / 2);
    }

    /// The spare bucket that a link leads to. The link may be torn.
    #[inline(always)]
    pub(crate) fn linked(&self, link: u32) -> Option<Bucket<'_>> {
        let number = link.wrapping_sub(1);
        (number < self.spares_max)
            .then(|| Bucket::new(self.region.line_pair(self.first_spare + number as usize)))
    }

    /// How many spare buckets may be in use: a tenth of the others (MICA, section 4.3.3).
    fn spares_allowed(&self) -> u64 {
        (self.buckets() / SPARE_PART).clamp(1, u64::from(self.spares_max))
    }

    /// Takes a spare bucket. Returns the link to it.
    pub(crate) fn take_spare(&self) -> Option<u32> {
        (self.spares_used.get() < self.spares_allowed()).then(|| self.take_any_spare()).flatten()
    }

    /// Whether there is a spare bucket left.
    pub(crate) fn has_spare(&self) -> bool {
        let is_one_free = self.free_spare.get() != 0 || self.spares.get() < u64::from(self.spares_max);
        self.spares_used.get() < self.spares_allowed() && is_one_free
    }

    /// As [`Index::take_spare`], even if more than a tenth is in use: while buckets move.
    pub(crate) fn take_any_spare(&self) -> Option<u32> {
        let free = self.free_spare.get() as u32;
        let link = match self.linked(free) {
            Some(bucket) => {
                self.free_spare.set(u64::from(bucket.link()));
                free
            }
            None if self.spares.get() < u64::from(self.spares_max) && self.has_room_for_spare() => {
                self.spares.add(1);
                self.spares.get() as u32
            }
            None => return None,
        };
        self.spares_used.add(1);
        self.linked(link).inspect(|bucket| bucket.set_link(0)).map(|_| link)
    }

    /// Backs a spare bucket that was never used. False if there is no memory.
    fn has_room_for_spare(&self) -> bool {
        let next = self.spares.get();
        !next.is_multiple_of(SPARES_AT_ONCE) || self.back_spares(next..next + SPARES_AT_ONCE)
    }

    /// Backs the memory of these spare buckets. False if there is none.
    pub(crate) fn back_spares(&self, spares: Range<u64>) -> bool {
        let at = (self.first_spare + spares.start as usize) * BUCKET_BYTES;
        let last = spares.end.next_multiple_of(SPARES_AT_ONCE).min(u64::from(self.spares_max));
        self.region.back(at, last.saturating_sub(spares.start) as usize * BUCKET_BYTES)
    }

    /// Backs these of its bytes. False if there is no memory.
    pub(crate) fn back(&self, bytes: Range<usize>) -> bool {
        self.region.back(self.place_of(0) + bytes.start, bytes.len())
    }

    /// How many spare buckets are left while buckets move.
    pub(crate) fn spares_left(&self) -> u64 {
        u64::from(self.spares_max) - self.spares_used.get()
    }

    /// Frees a spare bucket. Nothing leads there any more.
    pub(crate) fn give_spare(&self, link: u32) {
        if let Some(bucket) = self.linked(link) {
            bucket.used().for_each(|slot| bucket.clear(slot));
            bucket.set_link(self.free_spare.get() as u32);
            self.free_spare.set(u64::from(link));
            self.spares_used.add(1u64.wrapping_neg());
        }
    }

    /// The link to the first free spare bucket; 0 if there is none.
    pub(crate) fn first_free(&self) -> u32 {
        self.free_spare.get() as u32
    }

    /// How many spare buckets were ever used.
    pub(crate) fn spares_reached(&self) -> u64 {
        self.spares.get()
    }

    /// How many spare buckets are in use.
    pub(crate) fn spares_in_use(&self) -> u64 {
        self.spares_used.get()
    }

    /// Where a bucket lies, in bytes from the start of the Region.
    pub(crate) fn place_of(&self, number: u32) -> usize {
        (self.first_pair + number as usize) * BUCKET_BYTES
    }

    /// How many buckets there are, with those of a growth under way.
    pub(crate) fn buckets(&self) -> u64 {
        self.extent().buckets().max(self.next.load(Ordering::Relaxed))
    }

    /// Reserves memory for this many buckets.
    pub(crate) fn claim(&self, buckets: u32) {
        self.claimed.set(u64::from(buckets));
    }

    /// The most buckets that it ever had, or that memory is reserved for.
    pub(crate) fn claimed(&self) -> u64 {
        self.reached().max(self.claimed.get())
    }

    /// The most buckets that it ever had.
    pub(crate) fn reached(&self) -> u64 {
        self.reached.get().max(self.buckets())
    }

    /// Begins to grow to `buckets`. The caller holds the partition, the index is not growing, and the memory is there.
    pub(crate) fn begin_growth(&self, buckets: u32) {
        let extent = self.extent();
        debug_assert!(!extent.is_growing() && u64::from(buckets) > extent.buckets());
        self.reached.set(self.reached().max(u64::from(buckets)));
        // Release: pairs with the Acquire in `grown`. Who sees this size sees the extent by which the growth before has ended.
        self.next.store(u64::from(buckets), Ordering::Release);
        let now = extent.buckets() as u32;
        // From now on it is growing, and nothing has moved yet.
        self.move_on(now, now);
    }

    /// The next bucket to move, if the index is growing.
    pub(crate) fn to_move(&self) -> Option<u32> {
        let extent = self.extent();
        let next = self.next.load(Ordering::Relaxed);
        (next > extent.buckets()).then(|| (extent.cursor() as u32).saturating_sub(1))
    }

    /// Moves the cursor to `bucket`, which is empty: from now on its items are looked for where they have moved. The versions of both buckets are odd.
    pub(crate) fn moved(&self, bucket: u32) {
        let buckets = self.extent().buckets() as u32;
        self.move_on(buckets, bucket);
    }

    fn move_on(&self, buckets: u32, cursor: u32) {
        if cursor == 0 {
            let grown = self.next.load(Ordering::Relaxed) as u32;
            self.set_extent(grown, grown);
        } else {
            self.set_extent(buckets, cursor);
        }
    }

    /// The bucket that a place belongs to once the index has grown.
    pub(crate) fn bucket_when_grown(&self, place: u32) -> u32 {
        self.grown(place)
    }

    pub(crate) fn saved(&self) -> SavedIndex {
        let spares = [&self.spares, &self.spares_used, &self.free_spare].map(Owned::get);
        [self.extent().0, self.next.load(Ordering::Relaxed), self.reached(), spares[0], spares[1], spares[2]]
    }

    /// Restores the state. False if there can be no such index of at most `most` buckets.
    pub(crate) fn restore(&self, saved: SavedIndex, most: u64) -> bool {
        let [extent, next, reached, spares, spares_used, free_spare] = saved;
        let extent = Extent(extent);
        let is_sound = extent.buckets() >= u64::from(FIRST_BUCKETS)
            && extent.cursor() <= extent.buckets()
            && extent.cursor() > 0
            && (extent.buckets()..=most).contains(&next)
            && (next > extent.buckets() || !extent.is_growing())
            && (next..=most).contains(&reached)
            && spares <= u64::from(self.spares_max)
            && spares_used <= spares
            && free_spare <= spares;
        if is_sound {
            self.next.store(next, Ordering::Relaxed);
            self.reached.set(reached);
            self.spares.set(spares);
            self.spares_used.set(spares_used);
            self.free_spare.set(free_spare);
            self.extent.store(extent.0, Ordering::Relaxed);
        }
        is_sound
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_memory::HugePages;

    /// While an index grows every place belongs to one bucket, places in order to buckets in order, and buckets that were moved have been left.
    #[test]
    fn places_belong_to_buckets_in_order_however_far_the_index_has_grown() {
        let region = Arc::new(Region::anonymous(4 << 20, HugePages::No).unwrap());
        let index = Index::new(region, 1 << 20, 2 << 20, 0);
        let places: Vec<u32> = (0..4096u32).map(|step| (step << 20) | (0xfffff * (step & 1))).collect();
        for next in [32, 40, 50, 100] {
            index.begin_growth(next);
            while let Some(bucket) = index.to_move() {
                let before: Vec<u32> =
                    places.iter().map(|place| index.bucket_of(*place, index.extent())).collect();
                assert!(before.is_sorted(), "{before:?}");
                let going = places.iter().zip(&before).filter(|(_, number)| **number == bucket);
                for (place, _) in going {
                    let goal = index.bucket_when_grown(*place);
                    assert!(goal >= bucket && (goal == bucket || !before.contains(&goal) || goal > bucket));
                }
                for (place, number) in places.iter().zip(&before) {
                    let beyond = index.beyond(*place);
                    assert!(beyond.is_none_or(|beyond| beyond > *place));
                    let next = beyond.map(|beyond| index.bucket_of(beyond, index.extent()));
                    assert!(next.is_none_or(|next| next > *number), "{place:x}: {number}, then {next:?}");
                }
                index.moved(bucket);
            }
            assert!(!index.extent().is_growing());
            assert_eq!(index.buckets(), u64::from(next));
        }
    }
}
