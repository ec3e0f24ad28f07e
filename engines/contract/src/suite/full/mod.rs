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
mod plan;
mod run;
mod worker;

pub use plan::{Full, Memory, Workers};

use crate::{Engine, Session};
use plan::World;
use worker::{Share, Worker};

/// The number of seeds to try, instead of the usual few.
const SEEDS: &str = "GUIRA_FULL_SEEDS";
/// The only seed to try.
const SEED: &str = "GUIRA_FULL_SEED";

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs everything on engines that `open` makes: of this many bytes of memory, which may become twice as many.
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
    let world = World::new(engine.stats().memory_limit);
    let shares = if plan.is_alone() { 1 } else { 2 };
    let share = |rest| Share { rest, of: shares };
    let mut workers: Vec<_> =
        (0..shares).map(|rest| Worker::new(engine, plan, &world, share(rest))).collect();
    workers.iter_mut().for_each(Worker::fill);
    for round in 0..plan.rounds {
        match &mut workers[..] {
            [one] => one.run(plan.steps),
            all => guira_sync::thread::scope(|scope| {
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
