//! What an engine is given when it is opened, whichever it is.

use guira_items::{ClassOptions, EngineOptions, Hashing, MAX_MEMORY};
use guira_slab::RegionPlace;

/// By default, memory can be made this many times larger.
const RESERVE_FACTOR: usize = 4;

/// How an engine is to be opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What every engine has. Its `reserve` is not looked at.
    pub engine: EngineOptions,
    /// The slab classes of engines that have some.
    pub classes: ClassOptions,
    /// The most bytes that it can be resized to; `None`: four times the memory, and `reserve_least`, but no more than the machine has.
    pub reserve: Option<usize>,
    /// Address space of which this much is free of cost.
    pub reserve_least: usize,
    /// Memory of the machine in bytes, if that is known.
    pub machine: Option<usize>,
    /// Where the Region lasts, if it is to.
    pub lasting: Option<Lasting>,
}

#[derive(Clone, Debug)]
pub struct Lasting {
    pub place: RegionPlace,
    /// The time, in seconds since 1970.
    pub now_unix: u64,
}

impl Setup {
    /// The usual setup, with `memory` bytes for items and index, items of up to `max_item_size` bytes, and keys hashed with `seed`.
    pub fn new(memory: usize, max_item_size: usize, seed: u64) -> Self {
        let hashing = Hashing::Seeded(seed);
        Setup {
            engine: EngineOptions { memory, max_item_size, hashing, ..EngineOptions::default() },
            classes: ClassOptions::default(),
            reserve: None,
            reserve_least: 0,
            machine: None,
            lasting: None,
        }
    }

    /// The most bytes that it can be resized to.
    pub fn reserve(&self) -> usize {
        let memory = self.engine.memory;
        let usual = memory.saturating_mul(RESERVE_FACTOR).max(self.reserve_least);
        let usual = usual.min(self.machine.unwrap_or(usize::MAX));
        // A cache that is too big is refused; a default reserve is not what it is refused for.
        self.reserve.unwrap_or(usual.min(MAX_MEMORY)).max(memory)
    }
}
