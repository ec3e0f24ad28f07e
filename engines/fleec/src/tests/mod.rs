//! Tests of the engine as a whole.

mod damage;
mod flushes;
mod locked;
mod memory;
mod parked;
mod restarts;
mod scratch;

use crate::{FleecEngine, FleecOptions};
use guira_contract::suite;

pub(crate) fn open(memory: usize) -> FleecEngine {
    FleecEngine::open(FleecOptions { memory, ..FleecOptions::default() }).unwrap()
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

/// A cache so small that items are evicted, and their chunks filled again, while they are read.
#[test]
fn history_under_eviction() {
    let engine = open(2 << 20);
    let plan = suite::History { seed: 3, threads: 4, keys: 40_000, operations: 60_000 };
    suite::history(&engine, plan);
    assert!(guira_contract::Engine::stats(&engine).evictions > 0);
}
