//! The table: buckets on the one list, and a CLOCK value for each.
//!
//! A bucket is a link in an array, and a node of the list before its items. There is no second table: with each item that is one too many the
//! table gets one more bucket, which is put into the middle of another's part of the list ([`Table::grow`]). Whoever comes too
//! late to know of it begins at the older bucket and passes by the new one.
//!
//! The CLOCK values of all buckets lie next to each other (FLeeC, "Design"), a byte each. A read of an item raises that of its bucket, unless it is as
//! high as it can be; the hand lowers it, and where it finds 0 the items go.

use crate::bucket_clock;
use crate::link::Link;
use crate::list::{NewBucket, Nodes, Search};
use crate::order::{bucket_after, bucket_of, parent_of};
use guira_memory::{Budget, Offset, Region};
use guira_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, Padded};
use guira_sync::words::WORD;
use std::ops::Range;
use std::sync::Arc;

/// Buckets of an empty table, at the least.
pub(crate) const BUCKETS_FIRST: u64 = 512;

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    region: Arc<Region>,
    links_at: usize,
    clock_at: usize,
    /// The most buckets there can be.
    most: u64,
    /// The system commits so many bytes at once.
    commit_step: usize,
    /// How many buckets there are.
    buckets: Padded<AtomicU64>,
    /// About how many items there are: sessions add what they have stored and removed now and then. Wraps.
    items: Padded<AtomicU64>,
    /// The next bucket that the hand looks at, modulo their number.
    hand: Padded<AtomicU64>,
    /// So many buckets have memory.
    paid: AtomicU64,
    /// A bucket could not be added for want of memory, and none was since. Relaxed.
    wanting: AtomicBool,
    /// The highest CLOCK value.
    clock_max: AtomicU8,
}

/// What has to be known to go on with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedTable {
    pub(crate) buckets: u64,
    /// The next bucket that the hand looks at.
    pub(crate) hand: u64,
}

/// What a table has been asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// There are enough buckets, or as many as there can be.
    Enough,
    /// There is one more, or somebody else is adding it.
    Grown,
    /// There is no memory for more.
    NoMemory,
}

impl Table {
    /// Bytes of `buckets` links, and of as many CLOCK values.
    pub(crate) const fn bytes(buckets: u64) -> [usize; 2] {
        [buckets as usize * WORD, buckets as usize]
    }

    /// A table whose links begin at `links_at` and whose CLOCK values at `clock_at`, and which can have up to `most` buckets, to be begun or restored. `None`
    /// if `budget` has no memory for the first.
    pub(crate) fn new(
        region: Arc<Region>,
        [links_at, clock_at]: [usize; 2],
        most: u64,
        commit_step: usize,
        clock_max: u8,
        budget: &Budget,
    ) -> Option<Self> {
        let first = BUCKETS_FIRST.min(most);
        let table = Table {
            region,
            links_at,
            clock_at,
            most,
            commit_step,
            buckets: Padded(AtomicU64::new(first)),
            items: Padded::default(),
            hand: Padded::default(),
            paid: AtomicU64::new(0),
            wanting: AtomicBool::new(false),
            clock_max: AtomicU8::new(clock_max),
        };
        while table.paid.load(Ordering::Relaxed) < first {
            if !table.pay(budget) {
                return None;
            }
        }
        Some(table)
    }

    /// Links the first buckets, in a Region that reads as zero.
    pub(crate) fn begin(&self) {
        for bucket in 0..self.buckets() {
            let link = Link(0).leading_to(self.place_after(bucket));
            self.head(bucket).store(link.0, Ordering::Relaxed);
        }
    }

    /// The node after the last item of a bucket: the next bucket, or place 0, the end of the list.
    pub(crate) fn place_after(&self, bucket: u64) -> Offset {
        bucket_after(bucket, self.buckets()).map_or(Offset::from_bytes(0), |next| self.place_of(next))
    }

    /// How many buckets there are.
    #[inline(always)]
    pub(crate) fn buckets(&self) -> u64 {
        // Acquire: pairs with the Release in `grow`: whoever knows of a bucket finds it on the list.
        self.buckets.load(Ordering::Acquire)
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, hash: u64) -> u64 {
        bucket_of(hash, self.buckets())
    }

    /// The link of a bucket.
    #[inline(always)]
    pub(crate) fn head(&self, bucket: u64) -> &AtomicU64 {
        self.region.word(self.place_of(bucket))
    }

    /// Where the link of a bucket is.
    #[inline(always)]
    fn place_of(&self, bucket: u64) -> Offset {
        Offset::from_bytes((self.links_at + bucket as usize * WORD) as u64)
    }

    /// Which bucket's link is at `at`.
    #[inline(always)]
    pub(crate) fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.has(at).then(|| ((at.bytes() - self.links_at) / WORD) as u64)
    }

    /// Whether the link of a bucket is at `at`.
    #[inline(always)]
    pub(crate) fn has(&self, at: Offset) -> bool {
        at.bytes().wrapping_sub(self.links_at) < self.most as usize * WORD
    }

    /// Asks for a bucket's link and CLOCK value.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bucket: u64) {
        self.region.prefetch(self.place_of(bucket).bytes());
        self.region.prefetch(self.clock_at + bucket as usize);
    }

    /// The first node after a bucket, if it may be an item.
    #[inline(always)]
    pub(crate) fn first_of(&self, bucket: u64) -> Option<Offset> {
        let at = Link(self.head(bucket).load(Ordering::Relaxed)).next();
        (at.bytes() != 0 && !self.has(at)).then_some(at)
    }

    fn clock(&self, bucket: u64) -> &AtomicU8 {
        self.region.byte(self.clock_at + bucket as usize)
    }

    /// An item of the bucket was read. Relaxed, as all CLOCK values, and no read-modify-write: of two that come together, one may be forgotten.
    #[inline(always)]
    pub(crate) fn touch(&self, bucket: u64) {
        let clock = self.clock(bucket);
        let value = clock.load(Ordering::Relaxed);
        if let Some(value) = bucket_clock::touched(value, self.clock_max.load(Ordering::Relaxed)) {
            clock.store(value, Ordering::Relaxed);
        }
    }

    /// Whether an item of the bucket was read, or came, since the hand last came by.
    pub(crate) fn is_touched(&self, bucket: u64) -> bool {
        self.clock(bucket).load(Ordering::Relaxed) > 0
    }

    /// An item has come into the bucket.
    #[inline(always)]
    pub(crate) fn greet(&self, bucket: u64) {
        let clock = self.clock(bucket);
        if let Some(value) = bucket_clock::greeted(clock.load(Ordering::Relaxed)) {
            clock.store(value, Ordering::Relaxed);
        }
    }

    /// The hand comes by: the value that the bucket has from now on. `None` if its items are to go.
    pub(crate) fn fade(&self, bucket: u64) -> Option<u8> {
        let clock = self.clock(bucket);
        let value = bucket_clock::faded(clock.load(Ordering::Relaxed));
        if let Some(value) = value {
            clock.store(value, Ordering::Relaxed);
        }
        value
    }

    /// The next `count` buckets that the hand looks at: the caller's alone, until it comes by again.
    pub(crate) fn turn_hand(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let from = self.hand.fetch_add(count, Ordering::Relaxed);
        let buckets = self.buckets();
        (0..count.min(buckets)).map(move |step| (from.wrapping_add(step)) % buckets)
    }

    /// The highest CLOCK value.
    pub(crate) fn clock_max(&self) -> u8 {
        self.clock_max.load(Ordering::Relaxed)
    }

    /// From now on CLOCK values go up to `max`. Higher ones count down as they are.
    pub(crate) fn set_clock_max(&self, max: u8) {
        self.clock_max.store(max, Ordering::Relaxed);
    }

    /// A session has stored so many items more than it has removed.
    pub(crate) fn count(&self, items: i64) {
        self.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Whether there are so many items that there should be more buckets.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        let items = self.items.load(Ordering::Relaxed) as i64;
        let buckets = self.buckets.load(Ordering::Relaxed);
        items > 0 && bucket_clock::is_crowded(items as u64, buckets) && buckets < self.most
    }

    /// Bytes that are committed.
    pub(crate) fn committed(&self) -> usize {
        self.committed_for(self.paid.load(Ordering::Relaxed))
    }

    fn committed_for(&self, buckets: u64) -> usize {
        Self::bytes(buckets).into_iter().map(|bytes| bytes.next_multiple_of(self.commit_step)).sum()
    }

    /// Takes memory for more buckets. False if there is none.
    fn pay(&self, budget: &Budget) -> bool {
        let paid = self.paid.load(Ordering::Relaxed);
        let after = paid + (self.commit_step / WORD) as u64;
        let bytes = self.committed_for(after) - self.committed_for(paid);
        let is_paid = budget.take(bytes);
        if !is_paid || !self.back(paid..after) {
            budget.give(if is_paid { bytes } else { 0 });
            // Looked at first: it stays as it is for long.
            if !self.wanting.load(Ordering::Relaxed) {
                self.wanting.store(true, Ordering::Relaxed);
            }
            return false;
        }
        if self.paid.compare_exchange(paid, after, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            budget.give(bytes);
        }
        self.wanting.store(false, Ordering::Relaxed);
        true
    }

    /// Sees to it that there is room for buckets, of which those before them have some. False if there is none.
    fn back(&self, buckets: Range<u64>) -> bool {
        let ends = Self::bytes(buckets.start).into_iter().zip(Self::bytes(buckets.end));
        [self.links_at, self.clock_at].into_iter().zip(ends).all(|(at, (from, to))| {
            let [from, to] = [from, to].map(|bytes| bytes.next_multiple_of(self.commit_step));
            self.region.back(at + from, to - from)
        })
    }

    /// Sees to it that there is room for all buckets that are paid for. False if there is none.
    pub(crate) fn back_paid(&self) -> bool {
        self.back(0..self.paid.load(Ordering::Relaxed))
    }

    /// The most bytes that it asks for at once.
    pub(crate) fn step_bytes(&self) -> usize {
        2 * self.commit_step
    }

    /// Whether a bucket is needed and could not be added for want of memory.
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) && self.is_crowded()
    }

    /// Adds a bucket if there are too many items for those that there are. Whoever comes while another is at it helps: nobody waits.
    pub(crate) fn grow<'n, N: Nodes<'n>>(
        &'n self,
        nodes: &mut N,
        search: &mut Search<'_>,
        budget: &Budget,
    ) -> Growth {
        if !self.is_crowded() {
            return Growth::Enough;
        }
        let bucket = self.buckets();
        if bucket >= self.most {
            return Growth::Enough;
        }
        if bucket >= self.paid.load(Ordering::Relaxed) && !self.pay(budget) {
            return Growth::NoMemory;
        }
        self.add(bucket, nodes, search);
        Growth::Grown
    }

    /// What has to be known of a table that is settled, beside what lies in the Region.
    pub(crate) fn saved(&self) -> SavedTable {
        let buckets = self.buckets();
        SavedTable { buckets, hand: self.hand.load(Ordering::Relaxed) % buckets }
    }

    /// Adds the bucket that somebody has begun to add, if there is one. Nobody else uses the table any more.
    pub(crate) fn settle<'n, N: Nodes<'n>>(&'n self, nodes: &mut N, search: &mut Search<'_>) {
        let bucket = self.buckets();
        let has_begun = |bucket| {
            bucket < self.paid.load(Ordering::Relaxed).min(self.most)
                && !Link(self.head(bucket).load(Ordering::Relaxed)).is_blank()
        };
        while has_begun(bucket) && self.buckets() == bucket {
            self.add(bucket, nodes, search);
        }
    }

    /// Goes on with a table, whose buckets are charged to `budget`. Nobody uses it yet. False if there can be no such table.
    pub(crate) fn restore(&self, saved: SavedTable, budget: &Budget) -> bool {
        if !(self.buckets()..=self.most).contains(&saved.buckets) || saved.hand >= saved.buckets {
            return false;
        }
        let before = self.paid.load(Ordering::Relaxed);
        let paid = saved.buckets.next_multiple_of((self.commit_step / WORD) as u64);
        budget.charge(self.committed_for(paid) - self.committed_for(before));
        self.paid.store(paid, Ordering::Relaxed);
        self.buckets.store(saved.buckets, Ordering::Relaxed);
        self.hand.store(saved.hand, Ordering::Relaxed);
        // A link that is not blank says that its bucket is on the list, or on its way.
        (saved.buckets..paid).for_each(|bucket| self.head(bucket).store(0, Ordering::Relaxed));
        let unpaid = self.place_of(paid).bytes();
        // If holes cannot be made it reads as zero all the same, unless somebody else has written there.
        let _ = self.region.discard(unpaid, self.clock_at - unpaid);
        true
    }

    /// Adds the bucket with this number, the next one; or as much of that as others let us.
    fn add<'n, N: Nodes<'n>>(&'n self, bucket: u64, nodes: &mut N, search: &mut Search<'_>) {
        let parent = parent_of(bucket);
        let added = NewBucket { bucket, at: self.place_of(bucket), word: self.head(bucket) };
        if search.add_bucket(nodes, self.head(parent), &added) {
            self.clock(bucket).store(self.clock(parent).load(Ordering::Relaxed), Ordering::Relaxed);
            // Release: pairs with the Acquire in `buckets`.
            let _ = self.buckets.compare_exchange(bucket, bucket + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
