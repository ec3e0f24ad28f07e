//! How a slab engine is set up.

use crate::index::SearchLimits;
use crate::order::Policy;
use guira_items::{DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, Hashing, OpenError, Residence, Sizes};
use guira_memory::slab::ClassTable;
use guira_memory::{HugePages, MIB};

/// How a slab engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct SlabOptions {
    /// Bytes it may commit: items, their pages' metadata, and the index.
    pub memory: usize,
    /// The most bytes it may be resized to; if that is less than `memory`, no more than `memory`. Costs address space only, about
    /// three times as much: the index has two arenas, and so have the notes of policies.
    pub reserve: usize,
    /// The largest item, in bytes as memcached counts them (`-I`): its header of 48, cas of 8, key, flags and value with
    /// line end.
    pub max_item_size: usize,
    /// Growth from one slab class to the next above 256 bytes; more than 1.
    pub factor: f64,
    /// Bytes of key, value and flags that fit into the smallest chunk. Chunks are never smaller than 24 bytes, which is room for
    /// 16.
    pub smallest_item: usize,
    /// How much less time large items get than small ones, since their memory saves fewer misses: from 0, all stay for the same time, to 1,
    /// an item of four times the length stays for a quarter of it. See docs/decisions/0017-size-weight.md.
    pub size_weight: f64,
    /// What happens when memory is full.
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages; `None`: if there is more than 64 MiB of it.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out.
    pub residence: Residence,
    /// Which item goes when memory is needed.
    pub policy: Policy,
    /// Version counters.
    pub stripes: usize,
    /// How far an insert searches for an empty slot.
    pub search: SearchLimits,
    /// How keys are hashed.
    pub hashing: Hashing,
}

/// The size weight, unless told otherwise: see docs/decisions/0017-size-weight.md.
pub const DEFAULT_SIZE_WEIGHT: f64 = 0.0;

impl Default for SlabOptions {
    fn default() -> Self {
        SlabOptions {
            memory: 64 * MIB,
            reserve: 0,
            max_item_size: MIB,
            factor: DEFAULT_FACTOR,
            smallest_item: DEFAULT_SMALLEST_ITEM,
            size_weight: DEFAULT_SIZE_WEIGHT,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
            policy: Policy::default(),
            stripes: guira_sync::version::DEFAULT_STRIPES,
            search: SearchLimits::default(),
            hashing: Hashing::Seeded(0),
        }
    }
}

impl SlabOptions {
    /// Whether they make sense.
    pub(crate) fn check(&self, link: usize) -> Result<(), OpenError> {
        self.sizes().check(link)?;
        if !(0.0..=1.0).contains(&self.size_weight) {
            return Err(OpenError::SizeWeight(self.size_weight));
        }
        Ok(())
    }

    /// How large everything is.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            memory: self.memory,
            reserve: self.reserve,
            max_item_size: self.max_item_size,
            factor: self.factor,
            smallest_item: self.smallest_item,
        }
    }

    /// Whether memory is committed in huge pages.
    pub(crate) fn pages_of_the_system(&self) -> HugePages {
        self.huge_pages.unwrap_or(self.sizes().pages_of_the_system())
    }

    /// The classes they make, if `link` bytes before each item belong to the index.
    pub(crate) fn classes(&self, link: usize) -> ClassTable {
        self.sizes().classes(link)
    }
}
