//! Memory that is full nearly all the time, in a log and in a store.

use super::ACCESSES;
use crate::{Fits, Log, LogPolicy, MicaEngine, MicaOptions, Space};
use guira_contract::{Access, suite};

fn open<S: Space>(access: Access, policy: LogPolicy) -> impl Fn(usize) -> MicaEngine<S> {
    let few = MicaOptions { partitions: 4, max_item_size: 128 << 10, ..MicaOptions::default() };
    move |memory| {
        MicaEngine::open(MicaOptions { memory, reserve: 2 * memory, access, policy, ..few }).unwrap()
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
