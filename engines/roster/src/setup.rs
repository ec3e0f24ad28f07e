//! What an engine is given when it is opened, whichever it is.

use guira_slab::{
    DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, Hashing, HugePages, Residence, SlabOptions,
};

/// How an engine is to be opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Bytes for items and index.
    pub memory: usize,
    /// The largest item, in bytes as memcached counts them (`-I`).
    pub max_item_size: usize,
    /// Of the hash of keys.
    pub seed: u64,
    /// Growth from one slab class to the next (`-f`); more than 1.
    pub factor: f64,
    /// Bytes of key, value and flags that fit into the smallest chunk (`-n`).
    pub smallest_item: usize,
    /// What happens when memory is full (`-M`).
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages (`-L`); `None`: as suits the size.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out (`-k`).
    pub residence: Residence,
}

impl Setup {
    /// The usual setup, with `memory` bytes for items and index, items of up to `max_item_size` bytes, and keys hashed with `seed`.
    pub fn new(memory: usize, max_item_size: usize, seed: u64) -> Self {
        Setup {
            memory,
            max_item_size,
            seed,
            factor: DEFAULT_FACTOR,
            smallest_item: DEFAULT_SMALLEST_ITEM,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
        }
    }

    /// The part of it that is a slab engine's.
    pub(crate) fn slab(&self) -> SlabOptions {
        SlabOptions {
            memory: self.memory,
            max_item_size: self.max_item_size,
            factor: self.factor,
            smallest_item: self.smallest_item,
            eviction: self.eviction,
            huge_pages: self.huge_pages,
            residence: self.residence,
            hashing: Hashing::Seeded(self.seed),
            ..SlabOptions::default()
        }
    }
}
