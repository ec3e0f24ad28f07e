//! How an engine over chunks is set up, and why it may not be.

use crate::item::Fields;
use guira_contract::{Emptied, Lossiness};
use guira_memory::lasting::FileError;
use guira_memory::slab::{ClassTable, PAGE_BYTES};
use guira_memory::{HugePages, MIB, RegionPlace};
use guira_sync::words::WORD;
use std::io;

/// What happens when memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Items that were not read lately make room.
    #[default]
    On,
    /// What is stored stays until it expires or is removed; storing more fails with [`guira_contract::StoreError::NoMemory`].
    Off,
}

impl Eviction {
    /// Fields that every item has, whether it uses them or not. Where nothing is evicted there may be no memory to store an item anew for a field that it
    /// lacks, and a read must neither fail nor remove the item for that.
    #[inline(always)]
    pub fn fields(self) -> Fields {
        match self {
            Eviction::On => Fields::default(),
            Eviction::Off => Fields::CAS.with(Fields::EXPIRY),
        }
    }

    /// Whether what is stored may be lost.
    pub fn lossiness(self) -> Lossiness {
        match self {
            Eviction::On => Lossiness::Cache,
            Eviction::Off => Lossiness::Store,
        }
    }
}

/// Whether memory may be swapped out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    #[default]
    Swappable,
    /// What was committed stays in memory.
    Locked,
}

#[derive(Clone, Copy, Debug)]
pub enum Hashing {
    Seeded(u64),
    /// By a function of the test's choice.
    Fixed(fn(&[u8]) -> u64),
}

/// Growth from one slab class to the next, by default: see docs/develop/decisions/0005-balance-of-classes.md.
pub const DEFAULT_FACTOR: f64 = 1.06;

/// Room for key, value and flags in the smallest chunk, in bytes, by default.
pub const DEFAULT_SMALLEST_ITEM: usize = 16;

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is too little memory to do anything with.
    #[error("{0} bytes are too little: the minimum is {MINIMUM}")]
    TooSmall(usize),
    /// Places in it would not fit into the slots of the index.
    #[error("{0} bytes are too much: the maximum is {MAX_MEMORY}")]
    TooBig(usize),
    /// The largest item does not leave room for others.
    #[error("items of up to {item} bytes do not fit into half of the {memory} bytes available for items")]
    ItemTooLarge { item: usize, memory: usize },
    /// Classes would not grow.
    #[error("the growth factor {0} is not a number above 1")]
    Factor(f64),
    /// No chunk would be as small.
    #[error("a smallest item of {item} bytes does not fit into the largest chunk: at most {most}")]
    SmallestItem {
        item: usize,
        /// The most it may be.
        most: usize,
    },
    /// The system refused the address space.
    #[error("cannot reserve {bytes} bytes of address space")]
    Reserve { bytes: usize, source: io::Error },
    /// The Region's file cannot be used.
    #[error("cannot use {place} as a region")]
    Region {
        place: RegionPlace,
        /// Why not.
        source: FileError,
    },
    /// Another server has handed over the Region, and there is no going on with it.
    #[error("cannot restore the items of {place}: {why}")]
    NotTakenOver {
        place: RegionPlace,
        /// Why not.
        why: Emptied,
    },
    /// The file system of the Region is too full.
    #[error("the file system of the region is full")]
    Full,
    /// The same, with how much is missing.
    #[error("{place} has room for {room} bytes, but the region needs up to {memory}")]
    NoRoom { place: RegionPlace, room: u64, memory: usize },
    /// The system refused to keep the memory from being swapped out.
    #[error("cannot lock {bytes} bytes in memory: check the limit of locked memory (ulimit -l)")]
    Lock { bytes: usize, source: io::Error },
}

/// The most memory, in bytes: with all that is beside the pages it stays below the 2^43 that an offset reaches.
pub const MAX_MEMORY: usize = 5 << 40;
/// The least memory, in bytes: a few pages.
pub const MINIMUM: usize = 8 * PAGE_BYTES;

/// Caches up to here do without huge pages: a half-used one would be too much of the whole.
const SMALL_CACHE: usize = 64 * MIB;

/// Bytes of an item that are neither key nor value nor flags.
const ITEM_HEADER: usize = WORD;

/// The options of every engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Memory for items and index, in bytes.
    pub memory: usize,
    /// The most bytes that it may be resized to; if that is less than `memory`, no more than `memory`. Costs address space only.
    pub reserve: usize,
    /// The largest item, in bytes as memcached counts them (`-I`): see [`guira_contract::counted_size`].
    pub max_item_size: usize,
    /// What happens when memory is full.
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages; `None`: if there is more than 64 MiB of it.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out.
    pub residence: Residence,
    pub hashing: Hashing,
    /// Where cas uniques begin if no region says so. One that a lost cache has given out should not come again, so the server draws it.
    pub first_cas: u64,
    /// Items that live no longer than this many seconds are removed in the second in which they expire; 0 if they need not be.
    pub short_lived: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            memory: 64 * MIB,
            reserve: 0,
            max_item_size: MIB,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
            hashing: Hashing::Seeded(0),
            first_cas: 0,
            short_lived: 0,
        }
    }
}

impl EngineOptions {
    /// The usual options, with `memory` bytes.
    pub fn of(memory: usize) -> Self {
        EngineOptions { memory, ..Self::default() }
    }

    /// Whether they make sense.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self) -> Result<(), OpenError> {
        if self.memory < MINIMUM {
            return Err(OpenError::TooSmall(self.memory));
        }
        let most = self.memory.max(self.reserve);
        if most > MAX_MEMORY {
            return Err(OpenError::TooBig(most));
        }
        if self.max_item_size > self.memory / 2 {
            return Err(OpenError::ItemTooLarge { item: self.max_item_size, memory: self.memory });
        }
        Ok(())
    }

    /// Whether memory is committed in huge pages: never where those are larger than 2 MiB.
    pub fn huge_pages(&self) -> HugePages {
        let usual = if self.memory > SMALL_CACHE { HugePages::Requested } else { HugePages::No };
        match self.huge_pages.unwrap_or(usual) {
            HugePages::Requested => HugePages::of_2_mib(),
            HugePages::No => HugePages::No,
        }
    }
}

/// The options of engines with slab classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassOptions {
    /// Growth from one class to the next above 256 bytes; more than 1.
    pub factor: f64,
    /// Bytes of key, value and flags that fit into the smallest chunk. Chunks are never smaller than 24 bytes, which is room for 16.
    pub smallest_item: usize,
}

impl Default for ClassOptions {
    fn default() -> Self {
        ClassOptions { factor: DEFAULT_FACTOR, smallest_item: DEFAULT_SMALLEST_ITEM }
    }
}

impl ClassOptions {
    /// Whether they make sense, if `link` bytes before each item belong to the index.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self, link: usize) -> Result<(), OpenError> {
        if !self.factor.is_finite() || self.factor <= 1.0 {
            return Err(OpenError::Factor(self.factor));
        }
        let most = ClassTable::largest_chunk() - ITEM_HEADER - link;
        if self.smallest_item > most {
            return Err(OpenError::SmallestItem { item: self.smallest_item, most });
        }
        Ok(())
    }

    /// The classes that they make, if `link` bytes before each item belong to the index.
    pub fn table(&self, link: usize) -> ClassTable {
        ClassTable::with_links(self.factor, self.smallest_item + ITEM_HEADER, link)
    }
}
