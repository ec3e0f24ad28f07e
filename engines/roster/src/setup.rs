//! What an engine is given when it is opened, whichever it is.

use guira_fleec::FleecOptions;
use guira_items::{DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, Hashing, MAX_MEMORY, Residence};
use guira_mica::MicaOptions;
use guira_slab::{DEFAULT_SIZE_WEIGHT, HugePages, RegionPlace, SlabOptions};

/// Unless told otherwise, memory can be made so many times larger.
const RESERVE_FACTOR: usize = 4;

/// How an engine is to be opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Bytes for items and index.
    pub memory: usize,
    /// The most bytes that it can be resized to; `None`: four times `memory`, and `reserve_least`, but no more than the machine has.
    pub reserve: Option<usize>,
    /// As much address space is not missed by anybody.
    pub reserve_least: usize,
    /// Bytes of memory that the machine has, if that is known.
    pub machine: Option<usize>,
    /// The largest item, in bytes as memcached counts them (`-I`).
    pub max_item_size: usize,
    /// Of the hash of keys.
    pub seed: u64,
    /// Growth from one slab class to the next (`-f`); more than 1.
    pub factor: f64,
    /// Bytes of key, value and flags that fit into the smallest chunk (`-n`).
    pub smallest_item: usize,
    /// How much less time large items get than small ones: 0, the same, to 1, in proportion to their length.
    pub size_weight: f64,
    /// What happens when memory is full (`-M`).
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages (`-L`); `None`: as suits the size.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out (`-k`).
    pub residence: Residence,
    /// Where the Region lasts, if it is to.
    pub lasting: Option<Lasting>,
}

/// A Region that lasts.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// In which file.
    pub place: RegionPlace,
    /// The time, in seconds since 1970.
    pub now_unix: u64,
}

impl Setup {
    /// The usual setup, with `memory` bytes for items and index, items of up to `max_item_size` bytes, and keys hashed with `seed`.
    pub fn new(memory: usize, max_item_size: usize, seed: u64) -> Self {
        Setup {
            memory,
            reserve: None,
            reserve_least: 0,
            machine: None,
            max_item_size,
            seed,
            factor: DEFAULT_FACTOR,
            smallest_item: DEFAULT_SMALLEST_ITEM,
            size_weight: DEFAULT_SIZE_WEIGHT,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
            lasting: None,
        }
    }

    /// The most bytes that it can be resized to.
    pub fn reserve(&self) -> usize {
        let usual = self.memory.saturating_mul(RESERVE_FACTOR).max(self.reserve_least);
        let usual = usual.min(self.machine.unwrap_or(usize::MAX));
        // A cache that is too big is refused; a reserve that nobody asked for is not what it is refused for.
        self.reserve.unwrap_or(usual.min(MAX_MEMORY)).max(self.memory)
    }

    /// The part of it that is a slab engine's.
    pub(crate) fn slab(&self) -> SlabOptions {
        SlabOptions {
            memory: self.memory,
            reserve: self.reserve(),
            max_item_size: self.max_item_size,
            factor: self.factor,
            smallest_item: self.smallest_item,
            size_weight: self.size_weight,
            eviction: self.eviction,
            huge_pages: self.huge_pages,
            residence: self.residence,
            hashing: Hashing::Seeded(self.seed),
            ..SlabOptions::default()
        }
    }

    /// The part of it that is FLeeC's.
    pub(crate) fn fleec(&self) -> FleecOptions {
        FleecOptions {
            memory: self.memory,
            reserve: self.reserve(),
            max_item_size: self.max_item_size,
            factor: self.factor,
            smallest_item: self.smallest_item,
            eviction: self.eviction,
            huge_pages: self.huge_pages,
            residence: self.residence,
            hashing: Hashing::Seeded(self.seed),
            ..FleecOptions::default()
        }
    }

    /// The part of it that is MICA's.
    pub(crate) fn mica(&self) -> MicaOptions {
        MicaOptions {
            memory: self.memory,
            reserve: self.reserve(),
            max_item_size: self.max_item_size,
            huge_pages: self.huge_pages,
            residence: self.residence,
            hashing: Hashing::Seeded(self.seed),
            ..MicaOptions::default()
        }
    }
}
