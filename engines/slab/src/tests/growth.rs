//! The table grows while it is used.

use super::{SlabEngine, SlabSession};
use super::{Tested, open};
use crate::index::Scheme;
use crate::{Eviction, SlabOptions};
use guira_contract::suite::{hits, store};
use guira_contract::{Control, Engine, Expiry, Pace, Session};
use guira_items::EngineOptions;
use guira_sync::atomic::{AtomicU64, Ordering, yield_now};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

fn name(i: u64) -> Vec<u8> {
    format!("key-{i}").into_bytes()
}

/// A thread that was descheduled in the middle of a step can hold growth up for long, and the engine rightly evicts then. This test
/// is about misses, so its writers wait instead.
fn wait_for_growth(engine: &SlabEngine, session: &mut SlabSession) {
    loop {
        let stats = engine.stats();
        if !stats.index_growing || stats.items * 10 < stats.index_slots * 8 {
            return;
        }
        session.maintain(NOW, Pace::Busy, 8);
        session.quiesce();
        yield_now();
    }
}

#[test]
fn no_key_is_missed_while_others_are_inserted_and_the_table_grows() {
    let engine = open(64 << 20);
    let slots = engine.stats().index_slots;
    let (writers, each) = (2u64, 200_000u64);
    // Keys i of writer w are w + i * writers; below `done[w]` they are stored and acknowledged.
    let done: Vec<AtomicU64> = (0..writers).map(|_| AtomicU64::new(0)).collect();
    guira_sync::thread::scope(|scope| {
        for writer in 0..writers {
            let (mut session, done, engine) = (engine.session(), &done, engine.clone());
            scope.spawn(move || {
                for i in 0..each {
                    store(&mut session, &name(writer + i * writers), b"v", 0, Expiry::Never, NOW).unwrap();
                    done[writer as usize].store(i + 1, Ordering::Release);
                    if i % 16 == 0 {
                        session.maintain(NOW, Pace::Busy, 8);
                        session.quiesce();
                        wait_for_growth(&engine, &mut session);
                    }
                }
            });
        }
        let (mut session, done, engine) = (engine.session(), &done, &engine);
        scope.spawn(move || {
            let mut step = 1u64;
            loop {
                let writer = step % writers;
                let stored = done[writer as usize].load(Ordering::Acquire);
                if stored == each {
                    break;
                }
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if stored > 0 {
                    let i = (step >> 33) % stored;
                    let found = hits(&mut session, &name(writer + i * writers), NOW);
                    if !found {
                        let again = hits(&mut session, &name(writer + i * writers), NOW);
                        panic!(
                            "key {i} of writer {writer} was acknowledged and is missing; there again: {again}; {:?}",
                            engine.stats()
                        );
                    }
                }
                session.quiesce();
            }
        });
    });
    let stats = engine.stats();
    assert!(stats.index_growths >= 1 && stats.index_slots > slots, "{stats:?}");
    assert_eq!((stats.items, stats.evictions), (writers * each, 0));
    let mut session = engine.session();
    for _ in 0..100_000 {
        if session.maintain(NOW, Pace::Idle, 64) == 0 {
            break;
        }
        session.quiesce();
    }
    let after = engine.stats();
    assert!(!after.index_growing, "growth ends");
    assert!(after.index_bytes < after.index_slots * 7, "the old table's memory was given back: {after:?}");
    for i in 0..writers * each {
        assert!(hits(&mut session, &name(i), NOW), "key {i}");
    }
}

#[test]
fn a_full_cache_uses_its_index_well_at_every_size() {
    for memory in [8 << 20, 11 << 20, 17 << 20, 30 << 20] {
        let engine = open(memory);
        let mut session = engine.session();
        for i in 0..(memory as u64 / 40) {
            store(&mut session, format!("key-of-16-by{i:08}").as_bytes(), &[7; 28], 0, Expiry::Never, NOW)
                .unwrap();
            if i % 32 == 0 {
                session.maintain(NOW, Pace::Busy, 32);
                session.quiesce();
            }
        }
        let stats = engine.stats();
        assert!(stats.memory_used <= stats.memory_limit);
        let each = stats.memory_limit as f64 / stats.items as f64;
        // Chunks of 56 bytes and a link, a bit, 56 / 256 bytes of recency bits, 6.4 bytes of index at full load.
        assert!(
            each < 56.0 + Tested::LINK_BYTES as f64 + 0.35 + 6.4 + 7.0,
            "{memory}: {each:.1} bytes an item; {stats:?}"
        );
    }
}

/// One session stores `count` short values, with `batch` of them between two rounds of upkeep.
fn store_in_batches(engine: &SlabEngine, count: u64, batch: u64) {
    let mut session = engine.session();
    // One that sleeps, as those of other workers do.
    let mut sleeper = engine.session();
    sleeper.offline();
    for i in 0..count {
        store(&mut session, &name(i), b"v", 0, Expiry::Never, NOW).unwrap();
        if i % batch == 0 {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
}

#[test]
fn nothing_is_lost_or_refused_while_a_batch_outgrows_the_table() {
    for eviction in [Eviction::On, Eviction::Off] {
        for batch in [1000, u64::MAX] {
            let engine = SlabEngine::open(SlabOptions {
                engine: EngineOptions { memory: 256 << 20, eviction, ..EngineOptions::default() },
                ..SlabOptions::default()
            })
            .unwrap();
            store_in_batches(&engine, 1_000_000, batch);
            let stats = engine.stats();
            assert_eq!((stats.items, stats.evictions), (1_000_000, 0), "{eviction:?}, {batch}: {stats:?}");
        }
    }
}
