//! Tests of the engine as a whole.

use crate::{SlabEngine, SlabOptions};
use guira_contract::suite;

fn open(memory: usize) -> SlabEngine {
    SlabEngine::open(SlabOptions { memory, ..SlabOptions::default() }).unwrap()
}

#[test]
fn behaviour() {
    suite::behaviour(&open);
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
