//! Tests of the engine as a whole.

mod damage;
mod flushes;
mod full_memory;
mod hot_items;
mod leavings;
mod locked;
mod memory;
mod parked;
mod restarts;

use crate::{Buckets, FleecEngine, FleecOptions};
use guira_contract::suite;
use guira_items::{EngineOptions, Eviction};

pub(crate) fn open(memory: usize) -> FleecEngine {
    FleecEngine::open(FleecOptions { engine: EngineOptions::of(memory), ..FleecOptions::default() }).unwrap()
}

#[test]
fn behaviour() {
    suite::behaviour(&open);
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
    let plan = suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 };
    let hits = suite::history(&open(8 << 20), plan);
    assert!(hits > 10_000, "{hits}");
}

#[test]
fn counting() {
    for keys in [1, 5] {
        suite::counting(&open(8 << 20), suite::Counting { seed: 1, threads: 4, keys, increments: 30_000 });
    }
}

/// Sixteen threads for minutes: on few keys, on more than there is room for, and counting. `make soak` runs it.
#[test]
#[ignore = "takes three minutes"]
fn sixteen_threads_for_minutes() {
    let watch = guira_sync::clock::Stopwatch::start();
    let (mut seed, threads) = (100, 16);
    while watch.elapsed().as_secs() < 180 {
        seed += 1;
        println!("seed {seed}");
        let plan = suite::History { seed, threads, keys: 64, operations: 100_000 };
        assert!(suite::history(&open(8 << 20), plan) > 10_000, "seed {seed}");
        suite::history(&open(3 << 20), suite::History { keys: 40_000, ..plan });
        suite::counting(&open(8 << 20), suite::Counting { seed, threads, keys: 3, increments: 50_000 });
        suite::differential(&open(64 << 20), seed, 20_000);
    }
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
fn what_was_stored_a_moment_ago_is_there() {
    suite::newest(&open);
}

#[test]
fn a_cache_with_more_sizes_than_pages_keeps_what_is_a_small_part_of_it() {
    suite::few_items(&open(12 << 20));
}

#[test]
fn prefixes() {
    for buckets in [Buckets::Open, Buckets::Locked] {
        suite::prefixes(&|memory| {
            let engine = EngineOptions::of(memory);
            FleecEngine::open(FleecOptions { engine, buckets, ..FleecOptions::default() }).unwrap()
        });
    }
}

#[test]
fn short_lived_items_go_in_the_second_in_which_they_expire() {
    for (seed, buckets) in [Buckets::Open, Buckets::Locked].into_iter().enumerate() {
        let open = || {
            let engine = EngineOptions { memory: 32 << 20, short_lived: 12, ..EngineOptions::default() };
            FleecEngine::open(FleecOptions { engine, buckets, ..FleecOptions::default() }).unwrap()
        };
        suite::short_lived(&open(), 12, seed as u64 + 1);
        suite::more_short_lived_items_than_notes(&open());
    }
}

fn open_store(buckets: Buckets) -> impl Fn(usize) -> FleecEngine {
    move |memory| {
        let engine = EngineOptions { memory, eviction: Eviction::Off, ..EngineOptions::default() };
        FleecEngine::open(FleecOptions { engine, buckets, ..FleecOptions::default() }).unwrap()
    }
}

#[test]
fn a_store_loses_nothing_while_everything_is_flushed_now_and_then() {
    for buckets in [Buckets::Open, Buckets::Locked] {
        let plan = suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 };
        suite::history_of_store(&open_store(buckets)(64 << 20), plan);
    }
}

#[test]
fn full_stores_give_items_a_cas_unique_and_a_time_where_they_lie() {
    suite::full_stores_give_items_a_cas_unique_and_a_time_where_they_lie(&open_store(Buckets::Open));
}
