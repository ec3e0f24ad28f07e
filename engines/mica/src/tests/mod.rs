//! Tests of the engine as a whole.

mod damage;
mod full;
mod full_memory;
mod growth;
mod holds;
mod memory;
mod occupancy;
mod offsets;
mod pins;
mod policies;
mod refill;
mod restarts;
mod tools;

use crate::{Fits, ItemStore, Log, MicaEngine, MicaOptions};
use guira_contract::Access;
use guira_contract::suite;
use guira_items::EngineOptions;

pub(crate) const ACCESSES: [Access; 3] = [Access::Erew, Access::Crew, Access::Crcw];

/// What each thread does where threads use partitions together: little where they hand them to each other.
const OPERATIONS: [usize; 3] = [12_000, 12_000, 60_000];

pub(crate) fn open_with(access: Access) -> impl Fn(usize) -> MicaEngine {
    open_as::<Log>(access)
}

pub(crate) fn open_as<S: ItemStore>(access: Access) -> impl Fn(usize) -> MicaEngine<S> {
    move |memory| {
        MicaEngine::open(MicaOptions { engine: EngineOptions::of(memory), access, ..MicaOptions::default() })
            .unwrap()
    }
}

#[test]
fn prefixes() {
    for access in ACCESSES {
        suite::prefixes(&open_with(access));
    }
}

#[test]
fn a_store_keeps_everything() {
    suite::store_suite(open_as::<Fits>(Access::Crcw));
}

#[test]
fn a_store_of_one_holder_at_a_time_keeps_everything() {
    for access in [Access::Erew, Access::Crew] {
        let open = open_as::<Fits>(access);
        suite::stores(&open);
        suite::differential(&open(64 << 20), 9, 20_000);
        let plan = suite::History { seed: 9, threads: 4, keys: 64, operations: OPERATIONS[0] };
        suite::history_of_store(&open(8 << 20), plan);
    }
}

#[test]
fn full_stores_give_items_a_cas_unique_and_a_time_where_they_lie() {
    let open = open_as::<Fits>(Access::Crcw);
    suite::full_stores_give_items_a_cas_unique_and_a_time_where_they_lie(&open);
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
    for (access, operations) in ACCESSES.into_iter().zip(OPERATIONS) {
        let plan = suite::History { seed: 1, threads: 4, keys: 64, operations };
        let hits = suite::history(&open_with(access)(8 << 20), plan);
        assert!(hits > operations as u64 / 6, "{hits}");
    }
}

#[test]
fn counting() {
    for (keys, access, increments) in
        [(1, ACCESSES[0], 3_000), (5, ACCESSES[1], 3_000), (3, ACCESSES[2], 30_000)]
    {
        let plan = suite::Counting { seed: 1, threads: 4, keys, increments };
        suite::counting(&open_with(access)(8 << 20), plan);
    }
}

/// A cache so small that items are evicted, and their room filled again, while they are read.
#[test]
fn history_under_eviction() {
    for (access, operations) in ACCESSES.into_iter().zip(OPERATIONS) {
        let engine = open_with(access)(2 << 20);
        let plan = suite::History { seed: 3, threads: 4, keys: 40_000, operations };
        suite::history(&engine, plan);
        assert!(guira_contract::Control::stats(&engine).evictions > 0);
    }
}

#[test]
fn what_was_stored_a_moment_ago_is_there() {
    ACCESSES.into_iter().for_each(|access| suite::newest(&open_with(access)));
}

#[test]
fn a_cache_with_more_sizes_than_pages_keeps_what_is_a_small_part_of_it() {
    ACCESSES.into_iter().for_each(|access| suite::few_items(&open_with(access)(12 << 20)));
}
