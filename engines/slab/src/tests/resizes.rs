//! Memory is made larger and smaller while it is in use.

use super::{SlabEngine, SlabSession};
use crate::{Eviction, SlabOptions};
use guira_contract::suite::{self, hits, remove, settle, store};
use guira_contract::{Control, Engine, Expiry, Pace, ResizeError, Session, StoreError};
use guira_items::EngineOptions;
use guira_memory::MIB;
use guira_memory::slab::PAGE_BYTES;
use guira_sync::atomic::{AtomicBool, Ordering, yield_now};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

fn open(memory: usize, reserve: usize, eviction: Eviction) -> SlabEngine {
    SlabEngine::open(SlabOptions {
        engine: EngineOptions { memory, reserve, eviction, ..EngineOptions::default() },
        ..SlabOptions::default()
    })
    .unwrap()
}

fn put(session: &mut SlabSession, i: u64, length: usize) -> Result<(), StoreError> {
    store(session, format!("key{i}").as_bytes(), &vec![i as u8; length], 0, Expiry::Never, NOW)
}

fn end_batch(session: &mut SlabSession, pace: Pace) -> usize {
    session.quiesce();
    session.maintain(NOW, pace, 32)
}

/// Stores `count` items of about `length` bytes, from key `from` on.
fn put_many(session: &mut SlabSession, from: u64, count: u64, length: usize) {
    for i in from..from + count {
        put(session, i, length + i as usize % 9).unwrap();
        if i % 32 == 0 {
            end_batch(session, Pace::Busy);
        }
    }
}

fn present(session: &mut SlabSession, keys: std::ops::Range<u64>) -> u64 {
    keys.filter(|i| hits(session, format!("key{i}").as_bytes(), NOW)).count() as u64
}

/// Every page is somewhere, and what is used is what was committed.
pub(super) fn check_pages(engine: &SlabEngine) {
    let core = &engine.core;
    let census = core.pool.memory().census();
    assert_eq!(census.total(), core.sizing.plan().pages, "{census:?}");
    let metadata = core.sizing.lock().metadata;
    let tables = core.index.committed(core.index.buckets().0) + core.index.to_be_discarded();
    assert!(!core.index.is_growing());
    let notes: usize = core
        .pool
        .memory()
        .classes()
        .ids()
        .map(|class| {
            let guard = core.pool.memory().lock(class);
            guard.pages().len() * core.evictor().metadata_bytes(&core.evictor().lock(class), guard.geometry())
        })
        .sum();
    let orders: usize =
        core.pool.memory().classes().ids().map(|class| core.evictor().lock(class).charged()).sum();
    assert_eq!(
        core.pool.budget().used(),
        metadata + tables + notes + orders + census.committed() * PAGE_BYTES,
        "{census:?}"
    );
    let stats = engine.stats();
    let in_classes: u64 = stats.classes.iter().map(|class| class.pages).sum();
    assert_eq!(in_classes as usize, census.serving);
}

#[test]
fn more_memory_can_be_used_at_once() {
    let engine = open(16 * MIB, 64 * MIB, Eviction::On);
    let mut session = engine.session();
    put_many(&mut session, 0, 25_000, 400);
    assert_eq!(engine.stats().evictions, 0);
    engine.resize(64 * MIB).unwrap();
    put_many(&mut session, 25_000, 95_000, 400);
    let stats = engine.stats();
    assert_eq!((stats.evictions, stats.items, stats.memory_limit), (0, 120_000, 64 * MIB as u64));
    settle(&mut session, NOW);
    check_pages(&engine);
}

#[test]
fn sizes_out_of_range_are_refused_and_change_nothing() {
    let engine = open(16 * MIB, 32 * MIB, Eviction::On);
    let most = 32 * MIB;
    assert_eq!(engine.resize(most + 1), Err(ResizeError::TooBig { memory: most + 1, most }));
    assert!(matches!(engine.resize(MIB), Err(ResizeError::TooSmall { memory: MIB, .. })));
    assert_eq!(engine.stats().memory_limit, 16 * MIB as u64);
    assert_eq!(engine.resize(16 * MIB), Ok(()));
    assert_eq!(engine.resize(2 * MIB), Ok(()), "two of the largest items");
    let fixed = open(16 * MIB, 0, Eviction::On);
    assert!(fixed.resize(16 * MIB + 1).is_err(), "nothing more was reserved");
}

#[test]
fn less_memory_is_reached_step_by_step_and_what_was_read_stays() {
    for pace in [Pace::Busy, Pace::Idle] {
        let engine = open(64 * MIB, 0, Eviction::On);
        let mut session = engine.session();
        let stored = 80_000;
        put_many(&mut session, 0, stored, 400);
        // A seventh is read. Pages with few of them go first.
        assert_eq!(present(&mut session, 0..10_000), 10_000);
        assert_eq!(engine.stats().evictions, 0);
        engine.resize(24 * MIB).unwrap();
        let (mut steps, mut most) = (0, 0);
        while engine.core.pool.budget().excess() > 0 {
            let before = engine.stats().evictions;
            end_batch(&mut session, pace);
            most = most.max(engine.stats().evictions - before);
            steps += 1;
            assert!(steps < 100_000, "{:?}", engine.stats());
        }
        assert!(most < 5000, "{most} items went in one round of upkeep");
        settle(&mut session, NOW);
        check_pages(&engine);
        let stats = engine.stats();
        assert!(stats.memory_used <= 24 * MIB as u64);
        assert_eq!(stats.items + stats.evictions, stored);
        assert_eq!(present(&mut session, 0..stored), stats.items);
        assert!(stats.items > 40_000, "no more goes than must: {stats:?}");
        let read = present(&mut session, 0..10_000);
        assert!(read > 9000, "{read} of the 10,000 that were read are left");
        // And up again.
        engine.resize(64 * MIB).unwrap();
        put_many(&mut session, stored, 30_000, 400);
        assert_eq!(engine.stats().evictions, stats.evictions);
        settle(&mut session, NOW);
        check_pages(&engine);
    }
}

#[test]
fn the_table_becomes_smaller_with_memory_and_no_more_is_lost_than_memory_wants() {
    let engine = open(64 * MIB, 0, Eviction::On);
    let mut session = engine.session();
    put_many(&mut session, 0, 700_000, 20);
    settle(&mut session, NOW);
    let before = engine.stats();
    assert_eq!(before.evictions, 0);
    engine.resize(8 * MIB).unwrap();
    settle(&mut session, NOW);
    check_pages(&engine);
    let after = engine.stats();
    assert!(after.memory_used <= 8 * MIB as u64, "{after:?}");
    assert!(after.index_bytes < before.index_bytes / 4, "{} of {}", after.index_bytes, before.index_bytes);
    assert_eq!(after.items + after.evictions, 700_000);
    assert_eq!(present(&mut session, 0..700_000), after.items);
    assert!(after.items > 700_000 / 8 * 7 / 10, "{after:?}");
    put_many(&mut session, 700_000, 100_000, 20);
    assert!(present(&mut session, 790_000..800_000) == 10_000);
    assert!(engine.stats().memory_used <= 8 * MIB as u64);
}

#[test]
fn a_table_that_becomes_smaller_turns_back_when_memory_is_made_larger_again() {
    for eviction in [Eviction::Off, Eviction::On] {
        let engine = open(64 * MIB, 256 * MIB, eviction);
        let mut session = engine.session();
        put_many(&mut session, 0, 700_000, 20);
        settle(&mut session, NOW);
        for i in 0..600_000 {
            remove(&mut session, format!("key{i}").as_bytes(), NOW);
        }
        session.release_caches();
        engine.resize(16 * MIB).unwrap();
        let buckets = engine.core.index.buckets().0;
        for steps in 0.. {
            if engine.core.index.is_growing() {
                break;
            }
            assert!(steps < 1_000_000, "the table does not become smaller");
            end_batch(&mut session, Pace::Busy);
        }
        engine.resize(256 * MIB).unwrap();
        let (evictions, slots) = (engine.stats().evictions, engine.core.index.slots());
        put_many(&mut session, 700_000, 200_000, 20);
        assert_eq!(engine.stats().evictions, evictions);
        settle(&mut session, NOW);
        check_pages(&engine);
        assert!(engine.core.index.buckets().0 >= buckets, "from {buckets}, by way of {slots} slots");
        assert_eq!(present(&mut session, 600_000..900_000), engine.stats().items);
    }
}

#[test]
fn items_of_every_size_are_stored_while_memory_shrinks() {
    let engine = open(64 * MIB, 0, Eviction::On);
    let mut session = engine.session();
    put_many(&mut session, 0, 120_000, 400);
    engine.resize(8 * MIB).unwrap();
    for i in 0..3000u64 {
        let length = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize
            % [100, 2000, 40_000, 300_000][i as usize % 4];
        put(&mut session, 1_000_000 + i, length).unwrap_or_else(|refusal| {
            panic!("item {i} of {length} bytes: {refusal}; {:?}", engine.stats());
        });
        end_batch(&mut session, Pace::Busy);
    }
    settle(&mut session, NOW);
    check_pages(&engine);
    assert!(engine.stats().memory_used <= 8 * MIB as u64);
}

#[test]
fn no_more_is_evicted_while_pages_wait_for_somebody_who_stands_still() {
    let engine = open(32 * MIB, 0, Eviction::On);
    let (mut session, still) = (engine.session(), engine.session());
    put_many(&mut session, 0, 40_000, 400);
    engine.resize(16 * MIB).unwrap();
    for _ in 0..1000 {
        end_batch(&mut session, Pace::Idle);
    }
    let stats = engine.stats();
    assert!(
        stats.memory_used > 17 * MIB as u64,
        "no page is given back while a session may read it: {stats:?}"
    );
    let least = 40_000 * 16 / 32 * 9 / 10;
    assert!(stats.items > least, "{} items are left of 40,000", stats.items);
    drop(still);
    settle(&mut session, NOW);
    check_pages(&engine);
    let stats = engine.stats();
    assert!(stats.memory_used <= 16 * MIB as u64 && stats.items > least, "{stats:?}");
}

#[test]
fn without_eviction_only_free_pages_are_given_back() {
    let engine = open(64 * MIB, 0, Eviction::Off);
    let mut session = engine.session();
    put_many(&mut session, 0, 80_000, 400);
    engine.resize(16 * MIB).unwrap();
    settle(&mut session, NOW);
    check_pages(&engine);
    assert!(engine.stats().memory_used > 32 * MIB as u64);
    assert_eq!(present(&mut session, 0..80_000), 80_000);
    assert_eq!(put(&mut session, 80_000, 9000), Err(StoreError::NoMemory));
    for i in 0..70_000 {
        remove(&mut session, format!("key{i}").as_bytes(), NOW);
    }
    session.release_caches();
    settle(&mut session, NOW);
    check_pages(&engine);
    let stats = engine.stats();
    assert!(stats.memory_used <= 16 * MIB as u64, "{stats:?}");
    assert_eq!((present(&mut session, 70_000..80_000), stats.evictions), (10_000, 0));
}

/// The history suite, with a thread that resizes all the while.
#[test]
fn no_answer_is_wrong_while_memory_grows_and_shrinks() {
    for seed in 0..4u64 {
        let engine = open(8 * MIB, 64 * MIB, Eviction::On);
        let done = AtomicBool::new(false);
        let keys = [64, 60_000][seed as usize % 2];
        guira_sync::thread::scope(|scope| {
            let resizer = scope.spawn(|| {
                let mut session = engine.session();
                let (mut random, mut resizes) = (seed * 77 + 1, 0u32);
                while !done.load(Ordering::Relaxed) || resizes < 8 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let memory = (3 + (random >> 33) as usize % 61) * MIB;
                    engine.resize(memory).unwrap();
                    resizes += 1;
                    // Every other time the next comes before this one has been reached.
                    for _ in 0..(random >> 60) * 40 {
                        end_batch(&mut session, Pace::Idle);
                        yield_now();
                    }
                }
                resizes
            });
            let plan = suite::History { seed, threads: 3, keys, operations: 60_000 };
            suite::history(&engine, plan);
            done.store(true, Ordering::Relaxed);
            assert!(resizer.join().unwrap() >= 8);
        });
        let mut session = engine.session();
        for memory in [6 * MIB, 40 * MIB, 3 * MIB] {
            engine.resize(memory).unwrap();
            put_many(&mut session, 0, 30_000, 150);
            settle(&mut session, NOW);
            assert!(engine.stats().memory_used <= memory as u64);
            check_pages(&engine);
        }
    }
}

/// The differential suite, which allows for no eviction, while memory goes up and down above what it needs.
#[test]
fn nothing_is_lost_while_memory_stays_above_what_is_stored() {
    let engine = open(64 * MIB, 256 * MIB, Eviction::On);
    let done = AtomicBool::new(false);
    guira_sync::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = engine.session();
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                engine.resize([256, 64, 128][round % 3] * MIB).unwrap();
                for _ in 0..50 {
                    end_batch(&mut session, Pace::Idle);
                    yield_now();
                }
            }
        });
        suite::differential(&engine, 5, 20_000);
        done.store(true, Ordering::Relaxed);
    });
    settle(&mut engine.session(), NOW);
    check_pages(&engine);
}
