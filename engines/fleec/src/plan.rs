//! How a Region is divided.
//!
//! ```text
//! | head | page descriptors and links | buckets | CLOCK values | pages | slack for torn headers |
//! ```
//!
//! Everything is sized for the reserve. That is address space only: memory that is never touched is never committed.

use crate::index::{BUCKETS_FIRST, Index};
use guira_items::BEHIND_CHUNKS;
use guira_memory::MIB;
use guira_memory::lasting::HEAD_BYTES;
use guira_memory::slab::PAGE_BYTES;
use guira_memory::slab::lockfree::LockFreeSlab;

/// Where everything lies, in bytes from the start of the Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The most memory there can ever be.
    pub(crate) reserve: usize,
    pub(crate) pages: usize,
    pub(crate) metadata_at: usize,
    pub(crate) links_at: usize,
    pub(crate) clock_at: usize,
    /// The most buckets that the table can have.
    pub(crate) buckets_max: u64,
    pub(crate) pages_at: usize,
    pub(crate) total: usize,
}

/// Parts are aligned to huge pages.
const ALIGNED: usize = 2 * MIB;

/// The least memory that an item takes, with its bucket.
const LEAST_EACH: usize = 40;

impl Plan {
    /// The plan for up to `reserve` bytes of memory.
    pub(crate) fn new(reserve: usize) -> Self {
        let pages = reserve / PAGE_BYTES;
        let buckets_max = ((reserve / LEAST_EACH) as u64).max(BUCKETS_FIRST);
        let [links, clock] = Index::bytes(buckets_max);
        let metadata_at = HEAD_BYTES;
        let links_at = (metadata_at + LockFreeSlab::metadata_bytes(pages)).next_multiple_of(ALIGNED);
        let clock_at = links_at + links.next_multiple_of(ALIGNED);
        let pages_at = clock_at + clock.next_multiple_of(ALIGNED);
        let total = pages_at + pages * PAGE_BYTES + BEHIND_CHUNKS;
        Plan { reserve, pages, metadata_at, links_at, clock_at, buckets_max, pages_at, total }
    }

    /// Whether `bytes` is the length of a Region for this plan.
    pub(crate) fn fills(&self, bytes: usize) -> bool {
        self.total <= bytes && bytes - self.total < ALIGNED
    }

    /// Bytes of the metadata of `memory` bytes of pages, if the system commits `step` bytes at once.
    pub(crate) fn metadata(&self, memory: usize, step: usize) -> usize {
        let used = LockFreeSlab::metadata_bytes(self.pages.min(memory / PAGE_BYTES));
        // Descriptors and links begin anywhere in what is committed at once, and lie apart.
        (self.metadata_at % step + used).next_multiple_of(step) + step.min(used.next_multiple_of(4096))
    }
}
