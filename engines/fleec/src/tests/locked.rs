//! `memclock`: the same engine with locked buckets.

use super::open;
use crate::{Buckets, FleecEngine, FleecOptions};
use guira_contract::suite::{self, store, value_of};
use guira_contract::{Control, Engine, Expiry};
use guira_items::EngineOptions;
use guira_items::hooks::{self, Window};
use guira_sync::channel;
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

fn open_locked(memory: usize) -> FleecEngine {
    FleecEngine::open(FleecOptions {
        engine: EngineOptions::of(memory),
        buckets: Buckets::Locked,
        ..FleecOptions::default()
    })
    .unwrap()
}

#[test]
fn it_behaves_alike() {
    suite::behaviour(&open_locked);
    suite::differential(&open_locked(64 << 20), 1, 20_000);
}

#[test]
fn history() {
    let plan = suite::History { seed: 1, threads: 4, keys: 64, operations: 60_000 };
    assert!(suite::history(&open_locked(8 << 20), plan) > 10_000);
}

#[test]
fn counting() {
    let plan = suite::Counting { seed: 1, threads: 4, keys: 2, increments: 30_000 };
    suite::counting(&open_locked(8 << 20), plan);
}

#[test]
fn history_under_eviction() {
    let engine = open_locked(2 << 20);
    let plan = suite::History { seed: 3, threads: 4, keys: 40_000, operations: 60_000 };
    suite::history(&engine, plan);
    assert!(engine.stats().evictions > 0);
}

/// One thread stands still while it reads a key, and another stores it. Returns whether that one was done before the first went on.
fn stores_beside_a_parked_reader(engine: &FleecEngine) -> bool {
    store(&mut engine.session(), b"the key", b"first", 0, Expiry::Never, NOW).unwrap();
    let (parked, is_parked) = channel::channel();
    let (stored, is_stored) = channel::channel();
    guira_sync::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (others, was_stored) = (engine.clone(), Rc::new(Cell::new(None)));
            let result = was_stored.clone();
            let _guard = hooks::set(move |here| {
                if here == Window::Reading && result.get().is_none() {
                    parked.send(()).unwrap();
                    // Until the other one is done, or waits for us.
                    let is_done = std::iter::repeat_with(|| is_stored.try_recv().is_ok())
                        .inspect(|_| guira_sync::thread::yield_now())
                        .find(|is_done| *is_done || others.stats().lock_waits > 0);
                    result.set(is_done);
                }
            });
            let found = value_of(&mut engine.session(), b"the key", NOW).unwrap().value;
            assert!(found == b"first" || found == b"second");
            was_stored.get()
        });
        is_parked.recv().unwrap();
        store(&mut engine.session(), b"the key", b"second", 0, Expiry::Never, NOW).unwrap();
        // If he went on before, he is gone.
        let _ = stored.send(());
        reader.join().unwrap().expect("the window was met")
    })
}

#[test]
fn a_reader_that_stands_still_holds_up_writers_only_if_buckets_are_locked() {
    assert!(stores_beside_a_parked_reader(&open(8 << 20)));
    assert!(!stores_beside_a_parked_reader(&open_locked(8 << 20)));
}

#[test]
fn what_was_stored_a_moment_ago_is_there() {
    suite::newest(&open_locked);
}

#[test]
fn a_cache_with_more_sizes_than_pages_keeps_what_is_a_small_part_of_it() {
    suite::few_items(&open_locked(12 << 20));
}
