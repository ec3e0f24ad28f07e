//! How a Region is divided.
//!
//! ```text
//! | head | index | spare buckets | items | index | items | …, a pair for each partition
//! ```
//!
//! Everything is sized for the reserve. That is address space only: memory that is never touched is never committed.

use crate::entry::UNITS_MAX;
use crate::index::{BUCKET_BYTES, FIRST_BUCKETS, SPARE_PART};
use crate::options::{MAX_PARTITIONS, MicaOptions};
use guira_memory::MIB;
use guira_memory::lasting::HEAD_BYTES;
use guira_sync::words::WORD;

/// Where everything lies, in bytes from the start of the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The most memory there can ever be.
    pub(crate) reserve: usize,
    pub(crate) partitions: usize,
    /// Length of a partition's part of the Region.
    span: usize,
    /// Where its index's spare buckets begin in it, and how many there can be.
    spares_at: usize,
    pub(crate) spares_max: u64,
    /// Where its items begin in it.
    store_at: usize,
    /// Length of the items' part, in words; a power of two.
    pub(crate) ring: u64,
    /// The most buckets of an index.
    pub(crate) buckets_max: u64,
    pub(crate) total: usize,
}

/// Parts are aligned to huge pages.
const ALIGNED: usize = 2 * MIB;
const FIRST_AT: usize = HEAD_BYTES.next_multiple_of(ALIGNED);

/// A partition has room for at least this many of the largest items.
const LARGEST_ITEMS: usize = 4;

/// A partition takes at least this many steps in which the system commits memory: its index takes one, and the log's last one is only partly used.
const LEAST_STEPS: usize = 8;

/// One part of memory in this many is reserved for arriving values.
const ARRIVING_PART: usize = 64;

/// Beside the spare buckets that may be in use, there is one for this many buckets while buckets move.
const SPARES_IN_RESERVE: u64 = 40;

/// An index takes at most one part of its partition in this many.
const INDEX_PART: usize = 2;

/// What a partition may take of memory, and how it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Bytes of items and index.
    pub(crate) bytes: usize,
    /// The system commits memory in steps of this many bytes.
    pub(crate) step: usize,
}

impl Plan {
    /// The plan for up to `reserve` bytes of memory.
    pub(crate) fn new(reserve: usize, partitions: usize, offset_bits: u32) -> Self {
        let share = reserve / partitions;
        let ring = (share / WORD).next_power_of_two() as u64;
        // At least the offsets of four rounds have to be distinct.
        let ring = ring.min(1 << (offset_bits - 4));
        let buckets_max = (share / INDEX_PART / BUCKET_BYTES).max(FIRST_BUCKETS as usize) as u64;
        // The cursor and the number of buckets are 32 bits.
        let buckets_max = buckets_max.min(u64::from(u32::MAX));
        let spares_at = (buckets_max as usize * BUCKET_BYTES).next_multiple_of(ALIGNED);
        let spares_max = buckets_max / SPARE_PART + buckets_max / SPARES_IN_RESERVE;
        let store_at = spares_at + (spares_max as usize * BUCKET_BYTES).next_multiple_of(ALIGNED);
        let span = store_at + (ring as usize * WORD).next_multiple_of(ALIGNED);
        Plan {
            reserve,
            partitions,
            span,
            spares_at,
            spares_max,
            store_at,
            ring,
            buckets_max,
            total: FIRST_AT + partitions * span,
        }
    }

    pub(crate) fn partitions(options: &MicaOptions) -> usize {
        let memory = options.engine.memory - arriving(options.engine.memory, options.engine.max_item_size);
        let least = LARGEST_ITEMS * options.engine.max_item_size.max(1);
        let step = options.engine.huge_pages().commit_step();
        let most = (memory / least.max(LEAST_STEPS * step)).max(1);
        let wanted = options.partitions.clamp(1, MAX_PARTITIONS).next_power_of_two();
        wanted.min(1 << most.ilog2())
    }

    /// Where the index of a partition begins.
    pub(crate) fn index_at(&self, partition: usize) -> usize {
        FIRST_AT + partition * self.span
    }

    /// Where the part of a partition begins, and how long it is.
    pub(crate) fn part(&self, partition: usize) -> [usize; 2] {
        [self.index_at(partition), self.span]
    }

    /// Where the spare buckets of a partition begin.
    pub(crate) fn spares_at(&self, partition: usize) -> usize {
        self.index_at(partition) + self.spares_at
    }

    /// Where the items of a partition begin.
    pub(crate) fn store_at(&self, partition: usize) -> usize {
        self.index_at(partition) + self.store_at
    }

    /// Whether `bytes` is the length of a Region for this plan.
    pub(crate) fn fills(&self, bytes: usize) -> bool {
        self.total <= bytes && bytes - self.total < ALIGNED
    }

    /// A partition's share of `memory` bytes, if arriving values take that many.
    pub(crate) fn share(&self, memory: usize, arriving: usize) -> usize {
        memory.saturating_sub(arriving) / self.partitions
    }

    /// The most bytes that an item may take of a share: half of it.
    pub(crate) fn largest_item(share: usize) -> usize {
        (share / 2).min(UNITS_MAX * WORD)
    }
}

/// What is reserved for arriving values of `memory` bytes: for two of the largest, if they take a quarter at most, and for one that could be stored in the rest.
pub(crate) fn arriving(memory: usize, max_item_size: usize) -> usize {
    // An item takes half of a partition at most: a third of memory, if there is one partition beside a reserve of that third.
    let largest = max_item_size.min(memory / 3);
    (memory / ARRIVING_PART).max(2 * max_item_size).min(memory / 4).max(largest)
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_items::EngineOptions;

    #[test]
    fn a_small_cache_has_fewer_partitions_so_that_the_largest_items_fit() {
        let partitions = |memory, max_item_size| {
            Plan::partitions(&MicaOptions {
                engine: EngineOptions { memory, max_item_size, ..EngineOptions::default() },
                ..MicaOptions::default()
            })
        };
        assert_eq!(partitions(64 * MIB, MIB), 8);
        assert_eq!(partitions(2 * MIB, MIB), 1);
        assert_eq!(partitions(1024 * MIB, MIB), 16);
        assert_eq!(partitions(1024 * MIB, 128 * MIB), 1);
    }

    #[test]
    fn parts_lie_one_after_the_other() {
        let plan = Plan::new(1 << 30, 4, 48);
        assert!(plan.store_at(0) >= plan.index_at(0) + plan.buckets_max as usize * BUCKET_BYTES);
        assert!(plan.index_at(1) >= plan.store_at(0) + plan.ring as usize * WORD);
        assert!(plan.ring as usize * WORD >= plan.share(1 << 30, MIB));
        assert!(plan.fills(plan.total) && !plan.fills(plan.total - 1));
    }
}
