//! Memory that is full nearly all the time, beside a plain map.
//!
//! Thousands of keys with values of all lengths, more than fit, are stored, changed, read and removed; time passes, everything is flushed now
//! and then, values are held while they are sent or still arrive, and memory becomes less and more. Where nothing may be lost the engine and
//! the map agree exactly after every step: what was stored is there, and what was refused has changed nothing. In a cache an item may be
//! missing, and then it never comes back; it is never another or an older one. What the engine counts must come to what was done.

mod audit;
mod changing;
mod held;
mod model;
mod worker;

use crate::stats::EngineStats;
use crate::{Access, Engine, Session};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use worker::{Share, Worker};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// Of all random choices.
    pub seed: u64,
    /// Who does it.
    pub workers: Workers,
    /// Whether memory becomes less and more meanwhile.
    pub memory: Memory,
    /// Keys. Those of several threads are their own.
    pub keys: u32,
    /// Operations of each thread between two looks at everything.
    pub steps: usize,
    /// Looks at everything.
    pub rounds: usize,
}

/// Who uses the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One session.
    One,
    /// Two sessions of one thread, by turns, with batches that go on meanwhile.
    ByTurns,
    /// Two threads.
    Threads,
}

/// Whether memory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It does not.
    Stays,
    /// It does.
    Changes,
}

/// So many seeds are tried instead of the usual few, in a soak.
const SEEDS: &str = "GUIRA_FULL_SEEDS";
/// Only this seed is tried.
const SEED: &str = "GUIRA_FULL_SEED";

impl Full {
    fn sessions(&self) -> usize {
        if self.workers == Workers::ByTurns { 2 } else { 1 }
    }

    fn is_alone(&self) -> bool {
        self.workers != Workers::Threads
    }

    /// Whether a session has to go offline before another of its thread can go on.
    fn gives_back<E: Engine>(&self, engine: &E) -> bool {
        let partitioning = engine.partitioning();
        self.workers == Workers::ByTurns && partitioning.is_some_and(|it| it.access != Access::Crcw)
    }
}

/// What all workers share.
#[derive(Debug)]
struct World {
    now: AtomicU32,
    /// The memory that there was at first.
    memory: u64,
    /// The most that there has been.
    most: AtomicU64,
}

impl World {
    fn now(&self) -> Seconds {
        Seconds(self.now.load(Ordering::SeqCst))
    }

    fn advance(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
    }

    /// The engine has got this much memory.
    fn granted(&self, memory: u64) {
        self.most.fetch_max(memory, Ordering::SeqCst);
    }

    /// No more memory is used than there is, or was and is being given up.
    fn check(&self, plan: &Full, stats: &EngineStats) {
        let most = if plan.memory == Memory::Stays { self.memory } else { self.most.load(Ordering::SeqCst) };
        assert!(
            stats.memory_used <= most,
            "seed {}: more memory is used than there is: {stats:?}",
            plan.seed
        );
    }
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs everything on engines that `open` makes: of so many bytes of memory, which may become twice as many.
pub fn full_memory<E: Engine>(open: impl Fn(usize) -> E)
where
    <E::Session as Session>::Guess: Send,
{
    let seeds = match number_in(SEED) {
        Some(seed) => seed..=seed,
        None => 1..=number_in(SEEDS).unwrap_or(2),
    };
    for seed in seeds {
        // Those who take memory from each other wait for each other.
        for (workers, steps) in [(Workers::One, 1_500), (Workers::ByTurns, 800), (Workers::Threads, 300)] {
            let memory = if seed % 2 == 0 { Memory::Changes } else { Memory::Stays };
            let engine = open(4 << 20);
            // About twice what fits.
            let keys = (engine.stats().memory_limit >> 10) as u32;
            full(&engine, Full { seed, workers, memory, keys, steps, rounds: 5 });
        }
    }
}

/// Random operations on an engine with little memory. Panics with the seed and the step if something is wrong.
pub fn full<E: Engine>(engine: &E, plan: Full)
where
    <E::Session as Session>::Guess: Send,
{
    let memory = engine.stats().memory_limit;
    let world = World { now: AtomicU32::new(1_000), memory, most: AtomicU64::new(memory) };
    let shares = if plan.is_alone() { 1 } else { 2 };
    let share = |rest| Share { rest, of: shares };
    let mut workers: Vec<_> =
        (0..shares).map(|rest| Worker::new(engine, plan, &world, share(rest))).collect();
    workers.iter_mut().for_each(Worker::fill);
    for round in 0..plan.rounds {
        match &mut workers[..] {
            [one] => one.run(plan.steps),
            all => std::thread::scope(|scope| {
                all.iter_mut().for_each(|worker| drop(scope.spawn(|| worker.run(plan.steps))));
            }),
        }
        for worker in &mut workers {
            worker.check_all();
            worker.settle();
        }
        audit::counts(engine, &plan, &world, &workers);
        if !plan.is_alone() && round == plan.rounds / 2 {
            let now = world.now();
            engine.flush(now, now);
            workers.iter_mut().for_each(|worker| worker.model.flush(now, now));
        }
    }
    audit::end(engine, &plan, &world, workers);
}
