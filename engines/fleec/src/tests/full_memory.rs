//! Memory that is full nearly all the time.

use crate::{Buckets, FleecEngine, FleecOptions};
use guira_contract::suite;
use guira_items::{ClassOptions, EngineOptions, Eviction};

fn open(buckets: Buckets, eviction: Eviction, short_lived: u32) -> impl Fn(usize) -> FleecEngine {
    move |memory| {
        // Few classes, since a cache with fewer pages than classes keeps next to nothing.
        let (reserve, factor) = (2 * memory, 2.0);
        FleecEngine::open(FleecOptions {
            engine: EngineOptions { memory, reserve, eviction, short_lived, ..EngineOptions::default() },
            classes: ClassOptions { factor, ..ClassOptions::default() },
            buckets,
            ..FleecOptions::default()
        })
        .unwrap()
    }
}

#[test]
fn a_full_cache() {
    suite::full_memory(open(Buckets::Open, Eviction::On, 3));
}

#[test]
fn a_full_cache_with_locked_buckets() {
    suite::full_memory(open(Buckets::Locked, Eviction::On, 0));
}

#[test]
fn a_full_store() {
    suite::full_memory(open(Buckets::Open, Eviction::Off, 0));
}

#[test]
fn a_full_store_with_locked_buckets() {
    suite::full_memory(open(Buckets::Locked, Eviction::Off, 3));
}
