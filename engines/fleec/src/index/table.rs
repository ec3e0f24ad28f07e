//! The table: buckets on the one list, and a CLOCK value for each.
//!
//! A bucket is a link in an array, and a node of the list before its items. There is no second table: with each item too many the table gets
//! one more bucket, inserted into the middle of another's part of the list ([`Index::grow`]). A search that does not know of it yet begins at the older
//! bucket and passes the new one.
//!
//! The CLOCK values of all buckets lie next to each other (FLeeC, "Design"), a byte each. A read of an item raises the value of its bucket, up to a maximum;
//! the hand lowers it, and evicts the items of a bucket with 0.

use super::bucket_clock;
use super::gate::Gate;
use super::link::Link;
use super::list::{self, Found, NewBucket, Nodes, Scanned, Search, Visit};
use super::order::{BUCKETS_FIRST, bucket_after, bucket_of, parent_of};
use crate::options::{Buckets, LINK_BYTES};
use guira_memory::{Budget, Offset, Region};
use guira_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, Padded};
use guira_sync::lock::MutexGuard;
use guira_sync::waits::Waits;
use guira_sync::words::WORD;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Index {
    region: Arc<Region>,
    links_at: usize,
    clock_at: usize,
    /// The most buckets there can be.
    most: u64,
    /// The system commits memory in steps of this many bytes.
    commit_step: usize,
    buckets: Padded<AtomicU64>,
    /// About how many items there are: sessions add their changes now and then. Wraps.
    items: Padded<AtomicU64>,
    /// The next bucket that the hand visits, modulo their number.
    hand: Padded<AtomicU64>,
    paid: AtomicU64,
    /// The last attempt to add a bucket found no memory. Relaxed.
    wanting: AtomicBool,
    clock_max: AtomicU8,
    gate: Gate,
}

/// Where the parts of an index lie, and how far it can grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSpec {
    pub(crate) links_at: usize,
    pub(crate) clock_at: usize,
    pub(crate) buckets_max: u64,
    /// The system commits memory in steps of this many bytes.
    pub(crate) commit_step: usize,
    pub(crate) clock_max: u8,
    pub(crate) buckets: Buckets,
}

/// The state that a restart needs beside the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedIndex {
    pub(crate) buckets: u64,
    /// The next bucket that the hand visits.
    pub(crate) hand: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// There are enough buckets, or as many as there can be.
    Enough,
    /// There is one more, or another thread is adding it.
    Grown,
    NoMemory,
}

/// The nodes of the list as readers see them, who take nothing off.
#[derive(Clone, Copy, Debug)]
struct ReadNodes<'n>(&'n Index);

impl<'n> Nodes<'n> for ReadNodes<'n> {
    #[inline(always)]
    fn link(&self, at: Offset) -> Option<&'n AtomicU64> {
        self.0.link_at(at)
    }

    #[inline(always)]
    fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.0.bucket_at(at)
    }

    fn hash_at(&self, _at: Offset) -> Option<u64> {
        None
    }

    fn unlinked(&mut self, _at: Offset) {}

    fn left_behind(&mut self) {}
}

impl Index {
    /// Bytes of `buckets` links, and of as many CLOCK values.
    pub(crate) const fn bytes(buckets: u64) -> [usize; 2] {
        [buckets as usize * WORD, buckets as usize]
    }

    /// An index to be begun or restored. `None` if `budget` has no memory for the first buckets.
    pub(crate) fn new(region: Arc<Region>, spec: IndexSpec, budget: &Budget) -> Option<Self> {
        let first = BUCKETS_FIRST.min(spec.buckets_max);
        let index = Index {
            region,
            links_at: spec.links_at,
            clock_at: spec.clock_at,
            most: spec.buckets_max,
            commit_step: spec.commit_step,
            buckets: Padded(AtomicU64::new(first)),
            items: Padded::default(),
            hand: Padded::default(),
            paid: AtomicU64::new(0),
            wanting: AtomicBool::new(false),
            clock_max: AtomicU8::new(spec.clock_max),
            gate: Gate::new(spec.buckets),
        };
        while index.paid.load(Ordering::Relaxed) < first {
            if !index.pay(budget) {
                return None;
            }
        }
        Some(index)
    }

    /// Links the first buckets, in a Region that reads as zero.
    pub(crate) fn begin(&self) {
        for bucket in 0..self.buckets() {
            let link = Link(0).leading_to(self.place_after(bucket));
            self.head(bucket).store(link.0, Ordering::Relaxed);
        }
    }

    /// The node after the last item of a bucket: the next bucket, or place 0 at the end of the list.
    pub(super) fn place_after(&self, bucket: u64) -> Offset {
        bucket_after(bucket, self.buckets()).map_or(Offset::from_bytes(0), |next| self.place_of(next))
    }

    #[inline(always)]
    pub(crate) fn buckets(&self) -> u64 {
        // Acquire: pairs with the Release in `add`: a thread that knows of a bucket finds it on the list.
        self.buckets.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn bucket_of(&self, hash: u64) -> u64 {
        bucket_of(hash, self.buckets())
    }

    #[inline(always)]
    pub(super) fn head(&self, bucket: u64) -> &AtomicU64 {
        self.region.word(self.place_of(bucket))
    }

    /// Where the link of a bucket is.
    #[inline(always)]
    fn place_of(&self, bucket: u64) -> Offset {
        Offset::from_bytes((self.links_at + bucket as usize * WORD) as u64)
    }

    /// The bucket whose link is at `at`.
    #[inline(always)]
    pub(super) fn bucket_at(&self, at: Offset) -> Option<u64> {
        self.has(at).then(|| ((at.bytes() - self.links_at) / WORD) as u64)
    }

    /// Whether the link of a bucket is at `at`.
    #[inline(always)]
    fn has(&self, at: Offset) -> bool {
        at.bytes().wrapping_sub(self.links_at) < self.most as usize * WORD
    }

    /// The link of the item at `at`, which may come from a racy read.
    #[inline(always)]
    pub(crate) fn link_of_item(&self, at: Offset) -> Option<&AtomicU64> {
        let link = Offset::from_bytes((at.bytes() as u64).wrapping_sub(LINK_BYTES as u64));
        Some(&self.region.window::<1>(link)?[0])
    }

    /// The link of the node at `at`.
    #[inline(always)]
    pub(super) fn link_at(&self, at: Offset) -> Option<&AtomicU64> {
        match self.bucket_at(at) {
            Some(bucket) => Some(self.head(bucket)),
            None => self.link_of_item(at),
        }
    }

    /// Enters a bucket, or that of a hash: if buckets are locked it is the caller's until the guard is dropped.
    #[inline(always)]
    pub(super) fn enter(&self, bucket_or_hash: u64) -> Option<MutexGuard<'_, ()>> {
        self.gate.enter(bucket_or_hash)
    }

    /// How often an operation waited for a bucket.
    pub(crate) fn waits(&self) -> &Waits {
        self.gate.waits()
    }

    /// Shows `visitor` the items of a bucket until it takes one. `buckets` is how many there were a moment ago.
    #[inline(always)]
    pub(crate) fn find<V: Visit>(&self, bucket: u64, buckets: u64, visitor: &mut V) -> Found<'_, V::Taken> {
        let nodes = ReadNodes(self);
        let pass = self.gate.enter(bucket);
        let found = list::find(&nodes, self.head(bucket), buckets, visitor);
        drop(pass);
        found
    }

    /// Appends to `out` what `look` takes of all items between a bucket and the next one on the list. Returns that one.
    pub(crate) fn scan_bucket<R>(
        &self,
        bucket: u64,
        out: &mut Vec<R>,
        mut look: impl FnMut(Offset) -> Option<R>,
    ) -> Option<u64> {
        loop {
            match list::scan(&ReadNodes(self), self.head(bucket), out, &mut look) {
                Scanned::Next(bucket) => return Some(bucket),
                Scanned::End => return None,
                Scanned::Torn => out.clear(),
            }
        }
    }

    /// Prefetches the item at `at`.
    #[inline(always)]
    pub(crate) fn prefetch_item(&self, at: Offset) {
        self.region.prefetch(at.bytes() - LINK_BYTES);
        self.region.prefetch(at.bytes() + 48);
    }

    /// The item after the one at `at`, or that one if it is the last of its bucket: a guess, good enough to prefetch.
    #[inline(always)]
    pub(crate) fn after_item(&self, at: Offset) -> Offset {
        let Some(link) = self.link_of_item(at) else {
            return at;
        };
        let next = Link(link.load(Ordering::Relaxed)).next();
        // A branch would be mispredicted half of the time, which costs more than to prefetch the same item again.
        select_unpredictable(self.has(next) || next.bytes() == 0, at, next)
    }

    /// Prefetches a bucket's link and CLOCK value.
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

    /// Counts a read of an item of the bucket. Relaxed, as all CLOCK values, and no read-modify-write: of two at once one may be lost.
    #[inline(always)]
    pub(crate) fn touch(&self, bucket: u64) {
        let clock = self.clock(bucket);
        let value = clock.load(Ordering::Relaxed);
        if let Some(value) = bucket_clock::touched(value, self.clock_max.load(Ordering::Relaxed)) {
            clock.store(value, Ordering::Relaxed);
        }
    }

    /// Whether an item of the bucket was read or inserted since the hand's last visit.
    pub(crate) fn is_touched(&self, bucket: u64) -> bool {
        self.clock(bucket).load(Ordering::Relaxed) > 0
    }

    /// Counts an insert into the bucket.
    #[inline(always)]
    pub(crate) fn on_insert(&self, bucket: u64) {
        let clock = self.clock(bucket);
        if let Some(value) = bucket_clock::inserted(clock.load(Ordering::Relaxed)) {
            clock.store(value, Ordering::Relaxed);
        }
    }

    /// The hand visits the bucket: its new value. `None` if its items are to be evicted.
    pub(crate) fn decay(&self, bucket: u64) -> Option<u8> {
        let clock = self.clock(bucket);
        let value = bucket_clock::faded(clock.load(Ordering::Relaxed));
        if let Some(value) = value {
            clock.store(value, Ordering::Relaxed);
        }
        value
    }

    /// The next `count` buckets that the hand visits: the caller's alone until the hand's next round.
    pub(crate) fn turn_hand(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let from = self.hand.fetch_add(count, Ordering::Relaxed);
        let buckets = self.buckets();
        (0..count.min(buckets)).map(move |step| (from.wrapping_add(step)) % buckets)
    }

    pub(crate) fn clock_max(&self) -> u8 {
        self.clock_max.load(Ordering::Relaxed)
    }

    /// Caps CLOCK values at `max` from now on. Higher ones stay until the hand lowers them.
    pub(crate) fn set_clock_max(&self, max: u8) {
        self.clock_max.store(max, Ordering::Relaxed);
    }

    /// Adds a session's inserts less its removals.
    pub(crate) fn count_items(&self, items: i64) {
        self.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Whether there are too many items for the buckets.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        let items = self.items.load(Ordering::Relaxed) as i64;
        let buckets = self.buckets.load(Ordering::Relaxed);
        items > 0 && bucket_clock::is_crowded(items as u64, buckets) && buckets < self.most
    }

    /// Committed bytes.
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
            // Read first: the line stays shared.
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

    /// Backs the memory of these buckets; those before them are backed. False if there is none.
    fn back(&self, buckets: Range<u64>) -> bool {
        let ends = Self::bytes(buckets.start).into_iter().zip(Self::bytes(buckets.end));
        [self.links_at, self.clock_at].into_iter().zip(ends).all(|(at, (from, to))| {
            let [from, to] = [from, to].map(|bytes| bytes.next_multiple_of(self.commit_step));
            self.region.back(at + from, to - from)
        })
    }

    /// Backs the memory of all buckets that are paid for. False if there is none.
    pub(crate) fn back_paid(&self) -> bool {
        self.back(0..self.paid.load(Ordering::Relaxed))
    }

    /// The most bytes that growth takes at once.
    pub(crate) fn step_bytes(&self) -> usize {
        2 * self.commit_step
    }

    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) && self.is_crowded()
    }

    /// Adds a bucket if there are too many items. Threads that do so at the same time help each other, and none waits.
    pub(super) fn grow<'n, N: Nodes<'n>>(
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

    /// The state of a settled index that a restart needs beside the Region.
    pub(crate) fn saved(&self) -> SavedIndex {
        let buckets = self.buckets();
        SavedIndex { buckets, hand: self.hand.load(Ordering::Relaxed) % buckets }
    }

    /// Completes the insert of a bucket that a session left half done. No other thread uses the index.
    pub(super) fn settle<'n, N: Nodes<'n>>(&'n self, nodes: &mut N, search: &mut Search<'_>) {
        let bucket = self.buckets();
        let has_begun = |bucket| {
            bucket < self.paid.load(Ordering::Relaxed).min(self.most)
                && !Link(self.head(bucket).load(Ordering::Relaxed)).is_blank()
        };
        while has_begun(bucket) && self.buckets() == bucket {
            self.add(bucket, nodes, search);
        }
    }

    /// Restores the state and charges the buckets to `budget`. The index is not in use yet. False if there can be no such index.
    pub(crate) fn restore(&self, saved: SavedIndex, budget: &Budget) -> bool {
        if !(self.buckets()..=self.most).contains(&saved.buckets) || saved.hand >= saved.buckets {
            return false;
        }
        let before = self.paid.load(Ordering::Relaxed);
        let paid = saved.buckets.next_multiple_of((self.commit_step / WORD) as u64);
        budget.charge(self.committed_for(paid) - self.committed_for(before));
        self.paid.store(paid, Ordering::Relaxed);
        self.buckets.store(saved.buckets, Ordering::Relaxed);
        self.hand.store(saved.hand, Ordering::Relaxed);
        // A link that is not blank says that its bucket is on the list, or being inserted.
        (saved.buckets..paid).for_each(|bucket| self.head(bucket).store(0, Ordering::Relaxed));
        let unpaid = self.place_of(paid).bytes();
        // Without support for holes it reads as zero all the same, unless another process has written there.
        let _ = self.region.discard(unpaid, self.clock_at - unpaid);
        true
    }

    /// Tries to add the next bucket, with this number.
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
