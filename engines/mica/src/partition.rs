//! A partition: a log, its index, and who works on them.

use crate::bucket::{BUCKET_BYTES, SLOTS};
use crate::hold::Hold;
use crate::index::{FIRST_BUCKETS, Index, SavedIndex};
use crate::log::{Log, Owned, SavedLog};
use crate::pins::Pins;
use crate::plan::Plan;
use guira_contract::KeyHash;
use guira_memory::Region;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::words::WORD;
use std::sync::Arc;

/// A partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) hold: Hold,
    pub(crate) log: Log,
    pub(crate) index: Index,
    pub(crate) pins: Pins,
    /// The flushes that have taken effect here: see [`crate::flush`].
    flushes: AtomicU64,
    /// Items that the index leads to.
    pub(crate) items: Owned,
    /// Their bytes.
    pub(crate) bytes: Owned,
    /// The tail when the last bucket was looked at for offsets that are gone, and the next bucket to look at.
    pub(crate) tidied: Owned,
    pub(crate) to_tidy: Owned,
    /// How far the tail comes in between: see [`Log::stride`].
    pub(crate) stride: Owned,
    /// What the end of the log was last reckoned from: the share, and what the index wants.
    pub(crate) sized_for: Owned,
}

/// What a partition may take of memory, and how it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Bytes of log and index.
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
    /// Where none may.
    pub(crate) const KEEPING: Fullness =
        Fullness { small: 20, growing: 30, when_memory_is_full: 35, most: 35 };
}

/// An index may grow as it likes up to one part in so many of the partition.
const FREELY: usize = 16;

impl Partition {
    /// An empty partition where `plan` says.
    pub(crate) fn new(region: &Arc<Region>, plan: &Plan, number: usize, offset_bits: u32) -> Self {
        Partition {
            hold: Hold::default(),
            log: Log::new(region.clone(), plan.log_at(number), plan.ring, offset_bits),
            index: Index::new(region.clone(), plan.index_at(number)),
            pins: Pins::default(),
            flushes: AtomicU64::new(0),
            items: Owned::default(),
            bytes: Owned::default(),
            tidied: Owned::default(),
            to_tidy: Owned::default(),
            stride: Owned::default(),
            sized_for: Owned::default(),
        }
    }

    /// The index has another number of buckets.
    pub(crate) fn note_buckets(&self) {
        self.stride.set(self.log.stride(self.index.buckets()));
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
        bytes_of(self.index.reached(), share)
    }

    /// Bytes of the log that are committed.
    pub(crate) fn log_bytes(&self, share: Share) -> usize {
        (self.log.reached() as usize * WORD).next_multiple_of(share.step)
    }

    /// Where rounds of the log end, if the index has what it takes or wants, in words.
    pub(crate) fn log_end(&self, share: Share) -> u64 {
        let left = share.bytes.saturating_sub(bytes_of(self.index.claimed(), share));
        (left / share.step * share.step / WORD) as u64
    }

    /// How many buckets the index should have next, if there may be more. As long as memory is not full, it is not made larger than what it will take then.
    pub(crate) fn wanted_buckets(&self, share: Share, fullness: Fullness, most: u64) -> Option<u32> {
        let buckets = self.index.buckets();
        let wanted = if is_small(buckets, share) {
            2 * buckets
        } else if self.log.is_evicting() {
            buckets + buckets / 4
        } else {
            let used = self.index_bytes(share) + self.log_bytes(share);
            let items = u128::from(self.items.get()) * share.bytes as u128 / used.max(1) as u128;
            let slots = items as u64 * 100 / fullness.when_memory_is_full;
            (buckets + buckets / 4).min(slots / SLOTS as u64)
        };
        let is_worth_it = wanted >= buckets + buckets / 16;
        (is_worth_it && bytes_of(wanted, share) <= share.bytes / 2 && wanted <= most).then_some(wanted as u32)
    }

    /// With how many items it should have more.
    pub(crate) fn crowded_from(&self, share: Share, fullness: Fullness) -> u64 {
        let buckets = self.index.buckets();
        let percent = if is_small(buckets, share) {
            fullness.small
        } else if self.log.is_evicting() {
            fullness.most
        } else {
            fullness.growing
        };
        buckets * SLOTS as u64 * percent / 100
    }

    /// Whether so many buckets and the log as it is fit into the share.
    pub(crate) fn has_room_for(&self, buckets: u32, share: Share) -> bool {
        bytes_of(u64::from(buckets), share) + self.log_bytes(share) <= share.bytes
    }

    /// What is kept across a restart.
    pub(crate) fn saved(&self) -> SavedPartition {
        SavedPartition { log: self.log.saved(), index: self.index.saved(), flushes: self.flushes() }
    }

    /// Goes on from there. False if there can be no such partition.
    pub(crate) fn restore(&self, saved: &SavedPartition, plan: &Plan) -> bool {
        self.flushed(saved.flushes);
        self.tidied.set(saved.log[0]);
        let is_sound = self.log.restore(saved.log) && self.index.restore(saved.index, plan.buckets_max);
        self.note_buckets();
        is_sound
    }
}

/// What is kept of a partition across a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedPartition {
    pub(crate) log: SavedLog,
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
