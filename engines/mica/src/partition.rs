//! A partition: items, their index, and who works on them.

use crate::bucket::{BUCKET_BYTES, SLOTS};
use crate::hold::Hold;
use crate::index::{FIRST_BUCKETS, Index, SPARE_PART, SavedIndex};
use crate::options::LogPolicy;
use crate::owned::Owned;
use crate::pins::Pins;
use crate::plan::Plan;
use crate::space::{SavedSpace, Space};
use guira_contract::KeyHash;
use guira_memory::Region;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::words::WORD;
use std::sync::Arc;

/// A partition.
#[derive(Debug)]
pub(crate) struct Partition<S> {
    pub(crate) hold: Hold,
    pub(crate) space: S,
    pub(crate) index: Index,
    pub(crate) pins: Pins,
    /// The flushes that have taken effect here: see [`crate::flush`].
    flushes: AtomicU64,
    /// Items that the index leads to.
    pub(crate) items: Owned,
    /// Their bytes.
    pub(crate) bytes: Owned,
    /// What the end of the space was last reckoned from: the share, and what the index wants.
    pub(crate) sized_for: Owned,
    /// 1 if the space ends where it has come, since there is no more room where the Region lies; otherwise 0.
    pub(crate) is_short: Owned,
}

/// What a partition may take of memory, and how it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Bytes of items and index.
    pub(crate) bytes: usize,
    /// The system commits memory in steps of so many bytes.
    pub(crate) step: usize,
}

/// How full an index may be before it grows, in percent of its slots.
///
/// Of items that are spread at random over buckets of 15, those that find theirs full are 0.1 % if half of all slots are used, 0.9 % if 65 % are, and 2.3 % if
/// 75 % are; an item of 64 bytes costs 17, 13 and 11 more for the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fullness {
    /// While it takes a small part of memory: nearly no bucket is ever full.
    small: u64,
    /// While there is memory.
    growing: u64,
    /// When memory comes to be full.
    when_memory_is_full: u64,
    /// Before it takes memory from items.
    most: u64,
}

impl Fullness {
    /// Where items may go.
    pub(crate) const LOSSY: Fullness = Fullness { small: 20, growing: 45, when_memory_is_full: 65, most: 75 };
    /// Where buckets that are full go on in spare ones: of 72 % full ones, 8 % are.
    pub(crate) const CHAINED: Fullness =
        Fullness { small: 40, growing: 65, when_memory_is_full: 72, most: 72 };
}

/// An index may grow as it likes up to one part in so many of the partition.
const FREELY: usize = 16;

impl<S: Space> Partition<S> {
    /// An empty partition where `plan` says.
    pub(crate) fn new(region: &Arc<Region>, plan: &Plan, number: usize, offset_bits: u32) -> Self {
        Partition {
            hold: Hold::default(),
            space: S::new(region.clone(), plan.space_at(number), plan.ring, offset_bits),
            index: Index::new(region.clone(), plan.index_at(number), plan.spares_at(number), plan.spares_max),
            pins: Pins::default(),
            flushes: AtomicU64::new(0),
            items: Owned::default(),
            bytes: Owned::default(),
            sized_for: Owned::default(),
            is_short: Owned::default(),
        }
    }

    /// The flushes that have taken effect here.
    #[inline(always)]
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// So many flushes have taken effect here.
    pub(crate) fn flushed(&self, flushes: u64) {
        // Release: pairs with the Acquire in `flushes`: who sees that they have sees what is gone.
        self.flushes.store(flushes, Ordering::Release);
    }

    /// Bytes of the index that are committed.
    pub(crate) fn index_bytes(&self, share: Share) -> usize {
        let spares = self.index.spares_reached() as usize * BUCKET_BYTES;
        bytes_of(self.index.reached(), share) + spares.next_multiple_of(share.step)
    }

    /// Bytes of its items' space that are committed.
    pub(crate) fn space_bytes(&self, share: Share) -> usize {
        (self.space.reached() as usize * WORD).next_multiple_of(share.step)
    }

    /// How many words items may use, if the index has what it takes or wants.
    pub(crate) fn space_end(&self, share: Share) -> u64 {
        let left = share.bytes.saturating_sub(self.cost_of(self.index.claimed(), share));
        let end = (left / share.step * share.step / WORD) as u64;
        if self.is_short.get() == 0 { end } else { end.min(self.space.backed()) }
    }

    /// Sees to it that there is room for so many buckets where the Region lies. False if there is none.
    pub(crate) fn back_buckets(&self, buckets: u32, share: Share) -> bool {
        let reached = bytes_of(self.index.reached(), share);
        self.index.back(reached..bytes_of(u64::from(buckets), share))
    }

    /// Bytes of what it has come to use of its part of the Region.
    pub(crate) fn bytes_reached(&self, share: Share) -> usize {
        let spares = self.index.spares_reached() as usize * BUCKET_BYTES;
        bytes_of(self.index.reached(), share) + spares + self.space.reached() as usize * WORD
    }

    /// Sees to it that there is room for what it has come to use. False if there is none.
    pub(crate) fn back_reached(&self, region: &Region, share: Share) -> bool {
        self.index.back(0..bytes_of(self.index.reached(), share))
            && self.index.back_spares(0..self.index.spares_reached())
            && region.back(self.space.at(0).bytes(), self.space.reached() as usize * WORD)
    }

    /// Bytes that so many buckets come to, with all the spare ones that may be used with them.
    fn cost_of(&self, buckets: u64, share: Share) -> usize {
        let spares = if S::IS_LOSSY { 0 } else { buckets / SPARE_PART + 1 };
        let spares = spares.max(self.index.spares_reached()) as usize * BUCKET_BYTES;
        bytes_of(buckets, share) + spares.next_multiple_of(share.step)
    }

    /// How many buckets the index should have next, if there may be more. As long as memory is not full, it is not made larger than what it will take then.
    pub(crate) fn wanted_buckets(&self, share: Share, fullness: Fullness, most: u64) -> Option<u32> {
        let buckets = self.index.buckets();
        let wanted = if is_small(buckets, share) {
            2 * buckets
        } else if self.space.is_evicting() {
            buckets + buckets / 4
        } else {
            let used = self.index_bytes(share) + self.space_bytes(share);
            let items = u128::from(self.items.get()) * share.bytes as u128 / used.max(1) as u128;
            let slots = items as u64 * 100 / fullness.when_memory_is_full;
            (buckets + buckets / 4).min(slots / SLOTS as u64)
        };
        let is_worth_it = wanted >= buckets + buckets / 16;
        // What is committed is used, unless it is more than a quarter of all.
        let whole = (bytes_of(wanted, share) / BUCKET_BYTES) as u64;
        let wanted = if whole <= wanted + wanted / 4 { whole } else { wanted };
        (is_worth_it && self.cost_of(wanted, share) <= share.bytes / 2 && wanted <= most)
            .then_some(wanted as u32)
    }

    /// With how many items it should have more.
    pub(crate) fn crowded_from(&self, share: Share, fullness: Fullness) -> u64 {
        let buckets = self.index.buckets();
        let percent = if is_small(buckets, share) {
            fullness.small
        } else if self.space.is_evicting() {
            fullness.most
        } else {
            fullness.growing
        };
        buckets * SLOTS as u64 * percent / 100
    }

    /// Whether so many buckets and the items as they are fit into the share.
    pub(crate) fn has_room_for(&self, buckets: u32, share: Share) -> bool {
        self.cost_of(u64::from(buckets), share) + self.space_bytes(share) <= share.bytes
    }

    /// Whether `policy` has an item kept that is used now, when the head of the log comes by, and that has not been noted yet.
    #[inline(always)]
    pub(crate) fn is_use_news(&self, policy: impl FnOnce() -> LogPolicy, offset: u64, is_used: bool) -> bool {
        !is_used
            && self.space.has_older_half()
            && match policy() {
                LogPolicy::Fifo => false,
                LogPolicy::ApproxLru => self.space.is_in_older_half(offset),
                LogPolicy::Lru => true,
            }
    }

    /// What is kept across a restart.
    pub(crate) fn saved(&self) -> SavedPartition {
        SavedPartition { space: self.space.saved(), index: self.index.saved(), flushes: self.flushes() }
    }

    /// Goes on from there. False if there can be no such partition.
    pub(crate) fn restore(&self, saved: &SavedPartition, plan: &Plan) -> bool {
        self.flushed(saved.flushes);
        self.space.restore(saved.space)
            && self.space.reached() <= plan.ring
            && self.index.restore(saved.index, plan.buckets_max)
    }
}

/// What is kept of a partition across a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedPartition {
    pub(crate) space: SavedSpace,
    pub(crate) index: SavedIndex,
    pub(crate) flushes: u64,
}

/// Whether an index of twice as many buckets may grow as it likes.
fn is_small(buckets: u64, share: Share) -> bool {
    2 * buckets as usize * BUCKET_BYTES <= share.bytes / FREELY
}

fn bytes_of(buckets: u64, share: Share) -> usize {
    (buckets.max(u64::from(FIRST_BUCKETS)) as usize * BUCKET_BYTES).next_multiple_of(share.step)
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// Its partition.
    pub(crate) partition: usize,
    /// Its place in the index.
    pub(crate) place: u32,
}

impl Home {
    /// The home of keys with this hash, if there are 2^`bits` partitions: the first bits of the hash say which, those after them where in its index. The last are
    /// the tag.
    #[inline(always)]
    pub(crate) fn of(hash: KeyHash, bits: u32) -> Self {
        Home { partition: partition_of(hash, bits), place: (hash.0 << bits >> 32) as u32 }
    }
}

/// The partition of keys with this hash, if there are 2^`bits`.
#[inline(always)]
pub(crate) fn partition_of(hash: KeyHash, bits: u32) -> usize {
    // With one partition no bit is looked at.
    (hash.0 >> 1 >> (63 - bits)) as usize
}
