//! Memory that is full nearly all the time, in a log and in a store.

use super::ACCESSES;
use crate::{Fits, ItemStore, Log, LogPolicy, MicaEngine, MicaOptions};
use guira_contract::{Access, suite};
use guira_items::EngineOptions;

fn open<S: ItemStore>(access: Access, policy: LogPolicy) -> impl Fn(usize) -> MicaEngine<S> {
    let few = MicaOptions {
        engine: EngineOptions { max_item_size: 128 << 10, ..EngineOptions::default() },
        partitions: 4,
        ..MicaOptions::default()
    };
    move |memory| {
        MicaEngine::open(MicaOptions {
            engine: EngineOptions { memory, reserve: 2 * memory, ..few.engine },
            access,
            policy,
            ..few
        })
        .unwrap()
    }
}

fn caches(policy: LogPolicy) {
    ACCESSES.into_iter().for_each(|access| suite::full_memory(open::<Log>(access, policy)));
}

#[test]
fn full_caches_of_fifo() {
    caches(LogPolicy::Fifo);
}

#[test]
fn full_caches_of_approx_lru() {
    caches(LogPolicy::ApproxLru);
}

#[test]
fn full_caches_of_lru() {
    caches(LogPolicy::Lru);
}

#[test]
fn full_stores() {
    ACCESSES.into_iter().for_each(|access| suite::full_memory(open::<Fits>(access, LogPolicy::default())));
}
