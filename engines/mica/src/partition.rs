//! A partition: a store of items, and their index.

use crate::entry::PLACE_MASK;
use crate::flush::Flushes;
use crate::index::{BUCKET_BYTES, FIRST_BUCKETS, Index, SLOTS, SPARE_PART, SavedIndex};
use crate::options::LogPolicy;
use crate::owned::Owned;
use crate::pins::Pins;
use crate::plan::{Plan, Share};
use crate::store::{ItemStore, SavedStore};
use guira_contract::KeyHash;
use guira_items::{ClassUsage, GENERATIONS};
use guira_memory::Region;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::words::WORD;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Partition<S> {
    store: S,
    index: Index,
    pins: Pins,
    /// The flushes that have taken effect here: see [`crate::flush`].
    flushes: AtomicU64,
    /// How many flushes of prefixes there were when all items here were found alive. They were stored, or stamped, since.
    clean_since: AtomicU64,
    /// Items that the index leads to.
    items: Owned,
    /// Their bytes.
    bytes: Owned,
    /// What the end of the store was last computed from: the share, and what the index wants.
    sized_for: Owned,
    /// 1 if the store ends where it has come because the Region has no more memory; otherwise 0.
    is_short: Owned,
    /// How far items have been moved to before the end: the next bucket plus one; 0 if that has not begun.
    relocated: Owned,
}

/// How full an index may be before it grows, in percent of its slots.
///
/// Of items at random in buckets of 15, 0.1 % find a full one if half of all slots are used, 0.9 % at 65 % and 2.3 % at 75 %; the index costs 17, 13 and 11
/// bytes more for an item of 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fullness {
    /// While it takes a small part of memory: hardly any bucket is ever full.
    small: u64,
    growing: u64,
    when_memory_is_full: u64,
    /// Before it takes memory from items.
    most: u64,
}

impl Fullness {
    pub(crate) const LOSSY: Fullness = Fullness { small: 20, growing: 45, when_memory_is_full: 65, most: 75 };
    /// Where full buckets get spare ones: at 72 % of the slots 8 % of the buckets do.
    pub(crate) const CHAINED: Fullness =
        Fullness { small: 40, growing: 65, when_memory_is_full: 72, most: 72 };
}

/// An index grows freely up to one part of the partition in this many.
const FREELY: usize = 16;

/// The store is backed in pieces of this many words: 256 KiB.
const BACKED_AT_ONCE: u64 = (256 << 10) / WORD as u64;

impl<S: ItemStore> Partition<S> {
    /// An empty partition where `plan` says.
    pub(crate) fn new(region: &Arc<Region>, plan: &Plan, number: usize, offset_bits: u32) -> Self {
        Partition {
            store: S::new(region.clone(), plan.store_at(number), plan.ring, offset_bits),
            index: Index::new(region.clone(), plan.index_at(number), plan.spares_at(number), plan.spares_max),
            pins: Pins::default(),
            flushes: AtomicU64::new(0),
            clean_since: AtomicU64::new(0),
            items: Owned::default(),
            bytes: Owned::default(),
            sized_for: Owned::default(),
            is_short: Owned::default(),
            relocated: Owned::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    #[inline(always)]
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Whether the value of the item at `offset` is being sent.
    #[inline(always)]
    pub(crate) fn is_pinned(&self, offset: u64) -> bool {
        !self.pins.is_empty() && self.pins.has(self.store.at(offset))
    }

    #[inline(always)]
    pub(crate) fn items(&self) -> u64 {
        self.items.get()
    }

    pub(crate) fn usage(&self) -> ClassUsage {
        ClassUsage { items: self.items.get(), bytes: self.bytes.get() }
    }

    pub(crate) fn set_usage(&self, usage: ClassUsage) {
        self.items.set(usage.items);
        self.bytes.set(usage.bytes);
    }

    /// Adds to the usage. The numbers wrap.
    #[inline(always)]
    pub(crate) fn add_usage(&self, more: ClassUsage) {
        self.items.add(more.items);
        self.bytes.add(more.bytes);
    }

    /// The flushes that have taken effect here.
    #[inline(always)]
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Notes the flushes that have taken effect here.
    pub(crate) fn flushed(&self, flushes: u64) {
        // Release: pairs with the Acquire in `flushes`: a reader that sees the number sees what is gone.
        self.flushes.store(flushes, Ordering::Release);
    }

    /// How many flushes of prefixes need not be thought of here.
    #[inline(always)]
    pub(crate) fn clean_since(&self) -> u64 {
        // Relaxed: who sees an old number only looks more closely. Who sees a new one has an Acquire fence after it, before it looks
        // whether the items that have gone were what it has read (`Bucket::is_still`), or forgets prefixes (`Flushes::flush_prefixes`).
        self.clean_since.load(Ordering::Relaxed)
    }

    /// All items here were stored, or stamped, after this many flushes of prefixes. A crawl may end after a flush of everything that knows of more.
    pub(crate) fn cleaned(&self, flushes: u64) {
        // Release: pairs with the Acquire fences of those who see the number: they see what the crawl has removed.
        self.clean_since.fetch_max(flushes, Ordering::Release);
    }

    /// Committed bytes of the index.
    pub(crate) fn index_bytes(&self, share: Share) -> usize {
        let spares = self.index.spares_reached() as usize * BUCKET_BYTES;
        bytes_of(self.index.reached(), share) + spares.next_multiple_of(share.step)
    }

    /// Committed bytes of the store.
    pub(crate) fn store_bytes(&self, share: Share) -> usize {
        (self.store.reached() as usize * WORD).next_multiple_of(share.step)
    }

    /// How many words the store may use beside what the index takes and wants.
    pub(crate) fn store_end(&self, share: Share) -> u64 {
        let left = share.bytes.saturating_sub(self.cost_of(self.index.claimed(), share));
        let end = (left / share.step * share.step / WORD) as u64;
        if self.is_short.get() == 0 { end } else { end.min(self.store.backed()) }
    }

    /// Backs the memory of this many buckets. False if there is none.
    fn back_buckets(&self, buckets: u32, share: Share) -> bool {
        let reached = bytes_of(self.index.reached(), share);
        self.index.back(reached..bytes_of(u64::from(buckets), share))
    }

    /// Bytes that it has ever used.
    pub(crate) fn bytes_reached(&self, share: Share) -> usize {
        let spares = self.index.spares_reached() as usize * BUCKET_BYTES;
        bytes_of(self.index.reached(), share) + spares + self.store.reached() as usize * WORD
    }

    /// Backs everything that it has ever used. False if there is no memory.
    pub(crate) fn back_reached(&self, region: &Region, share: Share) -> bool {
        self.index.back(0..bytes_of(self.index.reached(), share))
            && self.index.back_spares(0..self.index.spares_reached())
            && region.back(self.store.at(0).bytes(), self.store.reached() as usize * WORD)
    }

    /// Bytes of this many buckets and their spare ones. A cache that needs more spare ones lets its log end earlier; a store could not.
    fn cost_of(&self, buckets: u64, share: Share) -> usize {
        let spares = if S::IS_LOSSY { 0 } else { buckets / SPARE_PART + 1 };
        let spares = spares.max(self.index.spares_reached()) as usize * BUCKET_BYTES;
        bytes_of(buckets, share) + spares.next_multiple_of(share.step)
    }

    /// Whether another spare bucket of a cache fits into the share. At most half of the share is index, as when the index grows.
    pub(crate) fn has_room_for_spare(&self, share: Share) -> bool {
        let spares = (self.index.spares_reached() + 1) as usize * BUCKET_BYTES;
        let cost = bytes_of(self.index.claimed(), share) + spares.next_multiple_of(share.step);
        cost <= share.bytes / 2 && cost + self.store_bytes(share) <= share.bytes
    }

    /// Whether the end of the store has to be computed for this share.
    #[inline(always)]
    pub(crate) fn is_sized_for(&self, share: Share) -> bool {
        self.sized_for.get() == self.sized_from(share)
    }

    fn sized_from(&self, share: Share) -> u64 {
        let spares = if S::IS_LOSSY { self.index.spares_reached() << 32 } else { 0 };
        (share.bytes as u64).wrapping_add(self.index.claimed()).wrapping_add(spares)
    }

    /// Computes the end of the store for this share. Returns the end before, if it has moved.
    pub(crate) fn move_end(&self, share: Share) -> Option<u64> {
        self.sized_for.set(self.sized_from(share));
        let (before, end) = (self.store.end(), self.store_end(share));
        if end == before {
            return None;
        }
        self.store.set_end(end);
        self.index.set_crowded_from(0);
        // Other items lie beyond the end now.
        self.relocated.set(0);
        Some(before)
    }

    /// How many buckets have been relocated from; 0 if that has not begun.
    pub(crate) fn relocated(&self) -> u64 {
        self.relocated.get().max(1) - 1
    }

    /// Nothing lies beyond the end in the first `buckets` buckets.
    pub(crate) fn set_relocated(&self, buckets: u64) {
        self.relocated.set(buckets + 1);
    }

    /// Gives the memory beyond the end back to the system: nothing lies there any more. False if it is not taken.
    pub(crate) fn discard_beyond_end(&self, region: &Region, share: Share) -> bool {
        let kept = self.store.end() as usize * WORD;
        let backed = self.store.backed() as usize * WORD;
        let length = self.store_bytes(share).max(backed) - kept;
        // A value that is being sent may lie there.
        let is_given = self.pins.is_empty() && region.discard(self.store_at() + kept, length).is_ok();
        if is_given {
            self.relocated.set(0);
        }
        is_given
    }

    /// Where the store begins in the Region.
    fn store_at(&self) -> usize {
        self.store.at(0).bytes()
    }

    /// Whether the store ends early because the Region has no more memory.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.get() != 0
    }

    /// Backs the first `words` words of the store, and some more. If there is no memory the store ends until further notice where it has come: false.
    #[cold]
    pub(crate) fn back_store(&self, region: &Region, share: Share, words: u64) -> bool {
        let goal = (self.store.backed() + BACKED_AT_ONCE).max(words).next_multiple_of(BACKED_AT_ONCE);
        if self.back_until(region, goal.min(self.store.end())) {
            return true;
        }
        self.is_short.set(1);
        self.store.set_end(self.store_end(share));
        false
    }

    /// Tries to back more of a store that ends early. False if there is still no memory.
    #[cold]
    pub(crate) fn end_shortage(&self, region: &Region, share: Share) -> bool {
        self.is_short.set(0);
        let goal = (self.store.backed() + BACKED_AT_ONCE).min(self.store_end(share));
        let is_backed = self.back_until(region, goal);
        self.is_short.set(u64::from(!is_backed));
        is_backed
    }

    fn back_until(&self, region: &Region, goal: u64) -> bool {
        let from = self.store.backed();
        let at = self.store_at() + from as usize * WORD;
        let has_room = region.back(at, goal.saturating_sub(from) as usize * WORD);
        if has_room {
            self.store.set_backed(goal.max(from));
        }
        has_room
    }

    /// How many buckets the index should have next, if there may be more. While memory is not full, no more than it will have then.
    pub(crate) fn wanted_buckets(&self, share: Share, fullness: Fullness, most: u64) -> Option<u32> {
        let buckets = self.index.buckets();
        let wanted = if is_small(buckets, share) {
            2 * buckets
        } else if self.store.is_evicting() {
            buckets + buckets / 4
        } else {
            let used = self.index_bytes(share) + self.store_bytes(share);
            let items = u128::from(self.items.get()) * share.bytes as u128 / used.max(1) as u128;
            let slots = items as u64 * 100 / fullness.when_memory_is_full;
            (buckets + buckets / 4).min(slots / SLOTS as u64)
        };
        let is_worth_it = wanted >= buckets + buckets / 16;
        // Everything that is committed is used, unless that is more than a quarter more.
        let whole = (bytes_of(wanted, share) / BUCKET_BYTES) as u64;
        let wanted = if whole <= wanted + wanted / 4 { whole } else { wanted };
        (is_worth_it && self.cost_of(wanted, share) <= share.bytes / 2 && wanted <= most)
            .then_some(wanted as u32)
    }

    /// From how many items on the index should grow.
    pub(crate) fn crowded_from(&self, share: Share, fullness: Fullness) -> u64 {
        let buckets = self.index.buckets();
        let percent = if is_small(buckets, share) {
            fullness.small
        } else if self.store.is_evicting() {
            fullness.most
        } else {
            fullness.growing
        };
        buckets * SLOTS as u64 * percent / 100
    }

    /// Whether this many buckets fit into the share beside the items. Backs their memory.
    pub(crate) fn make_room_for(&self, buckets: u32, share: Share) -> bool {
        self.cost_of(u64::from(buckets), share) + self.store_bytes(share) <= share.bytes
            && self.back_buckets(buckets, share)
    }

    /// Whether a use of the item at `offset` has to be noted, so that `policy` keeps it when the head of the log comes by.
    #[inline(always)]
    pub(crate) fn is_use_news(&self, policy: impl FnOnce() -> LogPolicy, offset: u64, is_used: bool) -> bool {
        !is_used
            && self.store.has_older_half()
            && match policy() {
                LogPolicy::Fifo => false,
                LogPolicy::ApproxLru => self.store.is_in_older_half(offset),
                LogPolicy::Lru => true,
            }
    }

    /// The state that a restart needs.
    pub(crate) fn saved(&self) -> SavedPartition {
        SavedPartition {
            store: self.store.saved(),
            index: self.index.saved(),
            flushes: self.flushes(),
            clean_since: self.clean_since(),
        }
    }

    /// Restores the state. False if there can be no such partition.
    pub(crate) fn restore(&self, saved: &SavedPartition, plan: &Plan, flushes: &Flushes) -> bool {
        self.flushed(saved.flushes);
        self.cleaned(saved.clean_since);
        let behind = flushes.of_prefixes().checked_sub(saved.clean_since);
        behind.is_some_and(|behind| behind < u64::from(GENERATIONS))
            && self.store.restore(saved.store)
            && self.store.reached() <= plan.ring
            && self.index.restore(saved.index, plan.buckets_max)
    }

    /// What a process that continues at once needs beside. The store is settled.
    pub(crate) fn handed(&self) -> HandedPartition {
        HandedPartition { usage: self.usage(), store: self.store.handed() }
    }

    /// Continues with that, after the state was restored. False if there can be no such partition.
    pub(crate) fn go_on(&self, handed: &HandedPartition) -> bool {
        self.set_usage(handed.usage);
        self.store.go_on(&handed.store)
    }
}

/// What a process that continues at once needs beside, so that it need not look at the items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandedPartition {
    pub(crate) usage: ClassUsage,
    pub(crate) store: Vec<u64>,
}

/// The state of a partition that a restart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedPartition {
    pub(crate) store: SavedStore,
    pub(crate) index: SavedIndex,
    pub(crate) flushes: u64,
    pub(crate) clean_since: u64,
}

/// Whether an index of twice as many buckets still grows freely.
fn is_small(buckets: u64, share: Share) -> bool {
    2 * buckets as usize * BUCKET_BYTES <= share.bytes / FREELY
}

fn bytes_of(buckets: u64, share: Share) -> usize {
    (buckets.max(u64::from(FIRST_BUCKETS)) as usize * BUCKET_BYTES).next_multiple_of(share.step)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) partition: usize,
    /// Its place in the index of the partition.
    pub(crate) place: u32,
}

impl Home {
    /// The home of keys with this hash, if there are 2^`bits` partitions: the first bits of the hash say which, those after them where in its index. The last are
    /// the tag.
    #[inline(always)]
    pub(crate) fn of(hash: KeyHash, bits: u32) -> Self {
        Home { partition: partition_of(hash, bits), place: (hash.0 << bits >> 32) as u32 & PLACE_MASK }
    }
}

/// The partition of keys with this hash, if there are 2^`bits`.
#[inline(always)]
pub(crate) fn partition_of(hash: KeyHash, bits: u32) -> usize {
    // With one partition no bit counts: that takes two shifts.
    (hash.0 >> 1 >> (63 - bits)) as usize
}
