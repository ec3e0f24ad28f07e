//! Tests of the engine as a whole.

mod ahead;
mod crowds;
mod damage;
mod flushes;
mod full_memory;
mod growth;
mod hazards;
mod mixture;
mod policies;
mod resizes;
mod restarts;
pub(crate) mod settings;
mod shifts;
mod short_lived;
mod upkeep;

use super::{TRIES_VARIANTS, Tested, tries};
use crate::{Eviction, Hashing, Policy, SlabOptions};
use guira_contract::{Control, SizeWeight, Spec};
use guira_items::EngineOptions;

pub(crate) type SlabEngine = crate::SlabEngine<Tested>;
pub(crate) type SlabSession = crate::SlabSession<Tested>;
type SlabPin = crate::SlabPin<Tested>;

use guira_contract::suite;

pub(crate) fn open(memory: usize) -> SlabEngine {
    SlabEngine::open(SlabOptions { engine: EngineOptions::of(memory), ..SlabOptions::default() }).unwrap()
}

/// An engine in which the age of an item counts by its length, as it does where nothing else is known.
fn open_by_length(memory: usize) -> SlabEngine {
    let engine = open(memory);
    weigh_by_length(&engine);
    engine
}

pub(crate) fn weigh_by_length(engine: &SlabEngine) {
    let weight = |upto| SizeWeight { upto, weight: upto as f64 };
    engine.weigh_sizes(&engine.chunk_sizes().into_iter().map(weight).collect::<Vec<_>>());
}

fn open_hashed(memory: usize, hash: fn(&[u8]) -> u64) -> SlabEngine {
    let hashing = Hashing::Fixed(hash);
    SlabEngine::open(SlabOptions {
        engine: EngineOptions { memory, hashing, ..EngineOptions::default() },
        ..SlabOptions::default()
    })
    .unwrap()
}

#[test]
fn behaviour() {
    suite::behaviour(&open);
}

#[test]
fn prefixes() {
    suite::prefixes(&open);
}

/// With a policy that hears of stores, too.
#[test]
fn short_lived_items_go_in_the_second_in_which_they_expire() {
    for (seed, policy) in ["clock", "lru"].into_iter().enumerate() {
        let policy = Policy::read(&Spec::parse(policy).unwrap()).unwrap();
        let of = |memory, short_lived| SlabOptions {
            engine: EngineOptions { memory, short_lived, ..EngineOptions::default() },
            policy,
            ..SlabOptions::default()
        };
        suite::short_lived(&SlabEngine::open(of(32 << 20, 12)).unwrap(), 12, seed as u64 + 1);
        suite::more_short_lived_items_than_notes(&SlabEngine::open(of(32 << 20, 12)).unwrap());
    }
}

#[test]
fn walks() {
    suite::walks(&open);
}

#[test]
fn differential() {
    for seed in 1..=8 {
        suite::differential(&open(64 << 20), seed, 20_000);
    }
}

#[test]
fn history() {
    let hits =
        suite::history(&open(8 << 20), suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 });
    assert!(hits > 10_000, "{hits}");
}

/// One version counter for all buckets, so that every writer disturbs every reader.
#[test]
fn counting() {
    let plan = suite::Counting { seed: 1, threads: 4, keys: 3, increments: 30_000 };
    suite::counting(&open(8 << 20), plan);
}

#[test]
fn history_with_a_single_version_counter() {
    let engine = SlabEngine::open(SlabOptions {
        engine: EngineOptions::of(8 << 20),
        stripes: 1,
        ..SlabOptions::default()
    })
    .unwrap();
    let hits = suite::history(&engine, suite::History { seed: 2, threads: 3, keys: 16, operations: 30_000 });
    assert!(hits > 5_000, "{hits}");
}

/// A cache so small that items are evicted, and their chunks filled again, while they are read.
#[test]
fn history_under_eviction() {
    let engine = open(2 << 20);
    let plan = suite::History { seed: 3, threads: 4, keys: 40_000, operations: 60_000 };
    suite::history(&engine, plan);
    assert!(guira_contract::Control::stats(&engine).evictions > 0);
}

#[test]
fn a_cache_with_more_sizes_than_pages_keeps_what_is_a_small_part_of_it() {
    suite::few_items(&open(12 << 20));
}

fn open_store(memory: usize) -> SlabEngine {
    let engine = EngineOptions { memory, eviction: Eviction::Off, ..EngineOptions::default() };
    SlabEngine::open(SlabOptions { engine, ..SlabOptions::default() }).unwrap()
}

#[test]
fn full_stores_give_items_a_cas_unique_and_a_time_where_they_lie() {
    suite::full_stores_give_items_a_cas_unique_and_a_time_where_they_lie(&open_store);
}

#[test]
fn a_store_loses_nothing_while_everything_is_flushed_now_and_then() {
    let plan = suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 };
    suite::history_of_store(&open_store(64 << 20), plan);
}
