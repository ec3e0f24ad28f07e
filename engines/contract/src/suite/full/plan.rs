//! The plan of a run, and the state that its workers share.

use crate::stats::EngineStats;
use crate::{Access, Engine};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// Seed of all random choices.
    pub seed: u64,
    /// The sessions that do it.
    pub workers: Workers,
    /// Whether the run resizes the memory.
    pub memory: Memory,
    /// Number of keys. Threads do not share keys.
    pub keys: u32,
    /// Operations of each thread between two checks of all keys.
    pub steps: usize,
    /// Checks of all keys.
    pub rounds: usize,
}

/// The sessions that use the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One session.
    One,
    /// Two sessions of one thread that take turns; the batch of the other may stay open.
    ByTurns,
    /// Two threads.
    Threads,
}

/// Whether a run resizes the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The memory stays as it is.
    Stays,
    /// It shrinks and grows.
    Changes,
}

impl Full {
    pub(super) fn sessions(&self) -> usize {
        if self.workers == Workers::ByTurns { 2 } else { 1 }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.workers != Workers::Threads
    }

    /// Whether a session has to go offline before another of its thread can go on.
    pub(super) fn gives_back<E: Engine>(&self, engine: &E) -> bool {
        let partitioning = engine.partitioning();
        self.workers == Workers::ByTurns && partitioning.is_some_and(|it| it.access != Access::Crcw)
    }
}

/// The state that all workers share.
#[derive(Debug)]
pub(super) struct World {
    now: AtomicU32,
    /// The memory at the start, in bytes.
    pub(super) memory: u64,
    /// The most memory so far, in bytes.
    most: AtomicU64,
}

impl World {
    pub(super) fn new(memory: u64) -> Self {
        World { now: AtomicU32::new(1_000), memory, most: AtomicU64::new(memory) }
    }

    pub(super) fn now(&self) -> Seconds {
        Seconds(self.now.load(Ordering::SeqCst))
    }

    pub(super) fn advance(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
    }

    /// The engine is granted this much memory, in bytes.
    pub(super) fn granted(&self, memory: u64) {
        self.most.fetch_max(memory, Ordering::SeqCst);
    }

    /// Panics if the engine uses more memory than it has, or had and is giving up.
    pub(super) fn check(&self, plan: &Full, stats: &EngineStats) {
        let most = if plan.memory == Memory::Stays { self.memory } else { self.most.load(Ordering::SeqCst) };
        assert!(
            stats.memory_used <= most,
            "seed {}: more memory is used than there is: {stats:?}",
            plan.seed
        );
    }
}
