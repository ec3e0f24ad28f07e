//! Tests of the engine as a whole.

use crate::{Access, MicaEngine, MicaOptions};
use guira_contract::suite;

pub(crate) const ACCESSES: [Access; 3] = [Access::Erew, Access::Crew, Access::Crcw];

pub(crate) fn open_with(access: Access) -> impl Fn(usize) -> MicaEngine {
    move |memory| MicaEngine::open(MicaOptions { memory, access, ..MicaOptions::default() }).unwrap()
}

#[test]
fn behaviour() {
    ACCESSES.into_iter().for_each(|access| suite::behaviour(&open_with(access)));
}

#[test]
fn walks() {
    ACCESSES.into_iter().for_each(|access| suite::walks(&open_with(access)));
}

#[test]
fn differential() {
    for (seed, access) in (1..=8).zip(ACCESSES.into_iter().cycle()) {
        suite::differential(&open_with(access)(64 << 20), seed, 20_000);
    }
}

#[test]
fn history() {
    for access in ACCESSES {
        let plan = suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 };
        let hits = suite::history(&open_with(access)(8 << 20), plan);
        assert!(hits > 10_000, "{hits}");
    }
}

#[test]
fn counting() {
    for (keys, access) in [1, 5, 3].into_iter().zip(ACCESSES) {
        let plan = suite::Counting { seed: 1, threads: 4, keys, increments: 30_000 };
        suite::counting(&open_with(access)(8 << 20), plan);
    }
}

/// A cache so small that items are evicted, and their room filled again, while they are read.
#[test]
fn history_under_eviction() {
    for access in ACCESSES {
        let engine = open_with(access)(2 << 20);
        let plan = suite::History { seed: 3, threads: 4, keys: 40_000, operations: 60_000 };
        suite::history(&engine, plan);
        assert!(guira_contract::Engine::stats(&engine).evictions > 0);
    }
}
