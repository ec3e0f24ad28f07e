//! How a Region is divided.
//!
//! ```text
//! | head | index | spare buckets | items | index | items | …, a pair for each partition
//! ```
//!
//! Everything is sized for the most memory there can ever be. That is address space only: what is never touched is never committed.

use crate::bucket::BUCKET_BYTES;
use crate::entry::UNITS_MAX;
use crate::index::{FIRST_BUCKETS, SPARE_PART};
use crate::options::{MAX_PARTITIONS, MicaOptions};
use guira_memory::lasting::HEAD_BYTES;
use guira_memory::{HugePages, MIB};
use guira_sync::words::WORD;

/// Where everything lies, in bytes from the start of the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The most memory there can be.
    pub(crate) reserve: usize,
    /// A power of two.
    pub(crate) partitions: usize,
    /// Length of a partition's part of the Region.
    span: usize,
    /// Where its index's spare buckets begin in it, and how many there can be.
    spares_at: usize,
    pub(crate) spares_max: u64,
    /// Where its items begin in it.
    space_at: usize,
    /// Length of the items' part, in words; a power of two.
    pub(crate) ring: u64,
    /// The most buckets of an index.
    pub(crate) buckets_max: u64,
    /// All of it.
    pub(crate) total: usize,
}

/// Parts are aligned to huge pages.
const ALIGNED: usize = 2 * MIB;
const FIRST_AT: usize = HEAD_BYTES.next_multiple_of(ALIGNED);

/// A partition has room for so many of the largest items, at least.
const LARGEST_ITEMS: usize = 4;

/// A partition takes so many steps in which the system commits memory, at least: its index takes one, and what its log leaves of the last is lost.
const LEAST_STEPS: usize = 8;

/// Of all memory, one part in so many is for values that are still arriving.
const ARRIVING_PART: usize = 64;

/// Beside the spare buckets that may be in use, one for so many buckets is there for when buckets move.
const SPARES_IN_RESERVE: u64 = 40;

/// An index takes no more than one part in so many of its partition.
const INDEX_PART: usize = 2;

impl Plan {
    /// The plan for up to `reserve` bytes of memory in so many partitions.
    pub(crate) fn new(reserve: usize, partitions: usize, offset_bits: u32) -> Self {
        let share = reserve / partitions;
        let ring = (share / WORD).next_power_of_two() as u64;
        // Of all offsets, those of four rounds are the least that can be told apart.
        let ring = ring.min(1 << (offset_bits - 4));
        let buckets_max = (share / INDEX_PART / BUCKET_BYTES).max(FIRST_BUCKETS as usize) as u64;
        // The cursor and the number of buckets are 32 bits.
        let buckets_max = buckets_max.min(u64::from(u32::MAX));
        let spares_at = (buckets_max as usize * BUCKET_BYTES).next_multiple_of(ALIGNED);
        let spares_max = buckets_max / SPARE_PART + buckets_max / SPARES_IN_RESERVE;
        let space_at = spares_at + (spares_max as usize * BUCKET_BYTES).next_multiple_of(ALIGNED);
        let span = space_at + (ring as usize * WORD).next_multiple_of(ALIGNED);
        Plan {
            reserve,
            partitions,
            span,
            spares_at,
            spares_max,
            space_at,
            ring,
            buckets_max,
            total: FIRST_AT + partitions * span,
        }
    }

    /// How many partitions there are.
    pub(crate) fn partitions(options: &MicaOptions) -> usize {
        let memory = options.engine.memory - arriving(options.engine.memory, options.engine.max_item_size);
        let least = LARGEST_ITEMS * options.engine.max_item_size.max(1);
        let step = commit_step(options.engine.huge_pages());
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
    pub(crate) fn space_at(&self, partition: usize) -> usize {
        self.index_at(partition) + self.space_at
    }

    /// Whether a Region for it has so many bytes.
    pub(crate) fn fills(&self, bytes: usize) -> bool {
        self.total <= bytes && bytes - self.total < ALIGNED
    }

    /// What of `memory` bytes is a partition's, if values that are arriving take so many.
    pub(crate) fn share(&self, memory: usize, arriving: usize) -> usize {
        memory.saturating_sub(arriving) / self.partitions
    }

    /// The most bytes that an item may take of a share: half of it.
    pub(crate) fn largest_item(share: usize) -> usize {
        (share / 2).min(UNITS_MAX * WORD)
    }
}

/// Bytes of values that are still arriving, at the most, of `memory` bytes.
pub(crate) fn arriving(memory: usize, max_item_size: usize) -> usize {
    (memory / ARRIVING_PART).max(2 * max_item_size).min(memory / 4)
}

/// The system commits memory in steps of so many bytes.
fn commit_step(pages: HugePages) -> usize {
    if pages == HugePages::Ask { 2 * MIB } else { 4096 }
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
        assert!(plan.space_at(0) >= plan.index_at(0) + plan.buckets_max as usize * BUCKET_BYTES);
        assert!(plan.index_at(1) >= plan.space_at(0) + plan.ring as usize * WORD);
        assert!(plan.ring as usize * WORD >= plan.share(1 << 30, MIB));
        assert!(plan.fills(plan.total) && !plan.fills(plan.total - 1));
    }
}
