//! How a Region is divided.
//!
//! ```text
//! | head | page descriptors, recency bits | table arena 0 | table arena 1 | pages | what a torn header may tell of |
//! ```
//!
//! Everything is sized for the most memory there can ever be. That is address space only: what is never touched is never committed.

use crate::index::{Scheme, Table};
use guira_items::BEHIND_CHUNKS;
use guira_memory::MIB;
use guira_memory::lasting::HEAD_BYTES;
use guira_memory::slab::{PAGE_BYTES, SlabMemory};

/// Where everything lies, in bytes from the start of the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The most memory there can be.
    pub(crate) reserve: usize,
    pub(crate) pages: usize,
    pub(crate) metadata_at: usize,
    pub(crate) arenas_at: [usize; 2],
    /// The most buckets that a table can have.
    pub(crate) buckets_max: u32,
    pub(crate) pages_at: usize,
    pub(crate) total: usize,
}

/// Parts are aligned to huge pages.
const ALIGNED: usize = 2 * MIB;

/// How many bytes a table begins with, at the least and at the most.
const TABLE_LEAST: usize = 4096;
const TABLE_FIRST: usize = 2 * MIB;
/// A table begins with one part in this many of memory.
const TABLE_PART: usize = 64;

impl Plan {
    /// The plan for up to `reserve` bytes of memory.
    pub(crate) fn new<X: Scheme>(reserve: usize) -> Self {
        // An index of the smallest items there can be takes less than a fifth of memory.
        let buckets_max = (reserve / 5).max(TABLE_LEAST) / X::BUCKET_BYTES;
        let buckets_max = buckets_max.min(u32::MAX as usize) as u32;
        let arena = Table::<X>::bytes(buckets_max).next_multiple_of(ALIGNED);
        let pages = reserve / PAGE_BYTES;
        let metadata_at = HEAD_BYTES;
        let first = (metadata_at + SlabMemory::metadata_bytes(pages)).next_multiple_of(ALIGNED);
        let pages_at = first + 2 * arena;
        Plan {
            reserve,
            pages,
            metadata_at,
            arenas_at: [first, first + arena],
            buckets_max,
            pages_at,
            total: pages_at + pages * PAGE_BYTES + BEHIND_CHUNKS,
        }
    }

    /// Whether a Region for it has this many bytes.
    pub(crate) fn fills(&self, bytes: usize) -> bool {
        self.total <= bytes && bytes - self.total < ALIGNED
    }

    /// How many buckets a table has at first, or at the least, with `memory` bytes.
    pub(crate) fn buckets_least<X: Scheme>(&self, memory: usize) -> u32 {
        let bytes = (memory / TABLE_PART).clamp(TABLE_LEAST, TABLE_FIRST);
        (bytes / X::BUCKET_BYTES).min(self.buckets_max as usize) as u32
    }

    /// Bytes that the metadata of `memory` bytes of pages comes to, if the system commits `step` bytes at once.
    pub(crate) fn metadata(&self, memory: usize, step: usize) -> usize {
        let [descriptors, recency] = SlabMemory::metadata_touched(self.pages.min(memory / PAGE_BYTES));
        let [whole, _] = SlabMemory::metadata_touched(self.pages);
        // The head is used only when a Region that lasts is closed, but may lie in the first huge page.
        let head = if step > self.metadata_at { self.metadata_at } else { 0 };
        // In one piece, or in two that are far apart and begin and end anywhere.
        let together = (head + whole + recency).next_multiple_of(step);
        let apart = (head + descriptors).next_multiple_of(step) + recency.next_multiple_of(step) + step;
        together.min(apart)
    }
}
