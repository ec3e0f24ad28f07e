//! Memory that is full nearly all the time.

use super::SlabEngine;
use crate::{Eviction, Policy, SlabOptions};
use guira_contract::Spec;
use guira_contract::suite;
use guira_items::{ClassOptions, EngineOptions};

fn open(eviction: Eviction, policy: &str, short_lived: u32) -> impl Fn(usize) -> SlabEngine {
    let policy = Policy::read(&Spec::parse(policy).unwrap()).unwrap();
    move |memory| {
        // Few classes, since a cache with fewer pages than classes keeps next to nothing.
        let (reserve, factor) = (2 * memory, 2.0);
        SlabEngine::open(SlabOptions {
            engine: EngineOptions { memory, reserve, eviction, short_lived, ..EngineOptions::default() },
            classes: ClassOptions { factor, ..ClassOptions::default() },
            policy,
            ..SlabOptions::default()
        })
        .unwrap()
    }
}

#[test]
fn a_full_cache_of_clock() {
    suite::full_memory(open(Eviction::On, "clock", 0));
}

#[test]
fn a_full_cache_of_seg_lru() {
    suite::full_memory(open(Eviction::On, "seg-lru", 3));
}

#[test]
fn a_full_store() {
    suite::full_memory(open(Eviction::Off, "clock", 3));
}
