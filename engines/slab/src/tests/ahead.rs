//! Memory is committed ahead by a thread of its own.

use super::resizes::check_pages;
use super::restarts::{put, site};
use super::{SlabEngine, SlabSession, open};
use crate::SlabOptions;
use guira_contract::suite::{close, hits, settle, store};
use guira_contract::{CommitAhead, Control, Engine, Expiry, Pace, Session};
use guira_items::EngineOptions;
use guira_memory::{HugePages, MIB};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

fn open_huge(memory: usize, reserve: usize) -> SlabEngine {
    let engine =
        EngineOptions { memory, reserve, huge_pages: Some(HugePages::Requested), ..EngineOptions::default() };
    SlabEngine::open(SlabOptions { engine, ..SlabOptions::default() }).unwrap()
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

fn commit_all(engine: &SlabEngine) {
    while engine.commit_ahead() == CommitAhead::Committed {}
}

/// Lets everything end that is under way.
fn end_all(engine: &SlabEngine) {
    let mut session = engine.session();
    loop {
        commit_all(engine);
        settle(&mut session, NOW);
        if !engine.core.index.is_preparing() && !engine.core.index.is_growing() {
            return check_pages(engine);
        }
    }
}

fn count_of(session: &mut SlabSession, stored: u64) -> u64 {
    (0..stored).filter(|i| hits(session, format!("key{i}").as_bytes(), NOW)).count() as u64
}

#[test]
fn a_table_that_is_being_committed_is_given_up_when_the_engine_is_closed() {
    let site = site(32 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    let mut stored = 0;
    commit_all(&engine);
    while !engine.core.index.is_preparing() {
        put(&mut session, &format!("key{stored}"), b"v", Expiry::Never);
        stored += 1;
        end_batch(&mut session);
    }
    // One piece is there, and the others are not.
    assert_eq!(engine.commit_ahead(), CommitAhead::Committed);
    drop(session);
    close(engine);
    let engine = site.restored(stored);
    assert!(!engine.core.index.is_preparing() && !engine.core.index.is_growing());
    assert_eq!(count_of(&mut engine.session(), stored), stored);
    end_all(&engine);
}

#[test]
fn a_store_that_finds_the_table_full_does_not_wait_until_the_next_is_committed() {
    let engine = open_huge(256 * MIB, 0);
    let mut session = engine.session();
    // Somebody commits ahead, and comes no more.
    commit_all(&engine);
    let stored = 1_000_000;
    for i in 0..stored {
        put(&mut session, &format!("key{i}"), b"v", Expiry::Never);
        if i % 32 == 0 {
            end_batch(&mut session);
        }
    }
    let stats = engine.stats();
    assert_eq!((stats.items, stats.evictions), (stored, 0), "{stats:?}");
    assert_eq!(count_of(&mut session, stored), stored);
    drop(session);
    end_all(&engine);
    assert!(engine.stats().index_slots >= stored);
}

#[test]
fn nothing_is_lost_or_counted_wrong_while_a_thread_commits_ahead() {
    let engine = open_huge(96 * MIB, 256 * MIB);
    let over = AtomicBool::new(false);
    let each = 300_000;
    guira_sync::thread::scope(|scope| {
        let committer = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if engine.commit_ahead() == CommitAhead::Idle {
                    guira_sync::thread::park();
                }
            }
        });
        let writers = ["a", "b"].map(|writer| {
            let engine = engine.clone();
            scope.spawn(move || {
                let mut session = engine.session();
                for i in 0..each {
                    let key = format!("{writer}{i}");
                    store(&mut session, key.as_bytes(), b"value", 0, Expiry::Never, NOW).unwrap();
                    if i % 32 == 0 {
                        end_batch(&mut session);
                    }
                    // A limit above all that is stored, and below what would be committed ahead.
                    if writer == "a" && i % 20_000 == 0 {
                        let memory = if i % 40_000 == 0 { 192 } else { 96 };
                        engine.resize(memory * MIB).unwrap();
                    }
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::Relaxed);
        committer.thread().unpark();
    });
    let stats = engine.stats();
    assert_eq!((stats.items, stats.evictions), (2 * each, 0), "{stats:?}");
    let mut session = engine.session();
    for key in (0..each).flat_map(|i| [format!("a{i}"), format!("b{i}")]) {
        assert!(hits(&mut session, key.as_bytes(), NOW), "{key}");
    }
    drop(session);
    end_all(&engine);
    assert!(engine.stats().memory_used <= engine.stats().memory_limit);
}

#[test]
fn what_was_committed_ahead_goes_first_when_memory_becomes_less() {
    let engine = open_huge(256 * MIB, 256 * MIB);
    let mut session = engine.session();
    for i in 0..200_000 {
        put(&mut session, &format!("key{i}"), &[7; 200], Expiry::Never);
        if i % 32 == 0 {
            end_batch(&mut session);
            commit_all(&engine);
        }
    }
    settle(&mut session, NOW);
    let ahead = engine.core.pool.memory().unused_bytes();
    assert!(ahead >= 2 * MIB, "{ahead}");
    let less = engine.stats().memory_used as usize - ahead;
    engine.resize(less).unwrap();
    while engine.stats().memory_used > less as u64 {
        end_batch(&mut session);
        commit_all(&engine);
    }
    assert_eq!(engine.core.pool.memory().unused_bytes(), 0);
    assert_eq!(engine.stats().evictions, 0);
    assert_eq!(count_of(&mut session, 200_000), 200_000);
    check_pages(&engine);
}

#[test]
fn small_memory_has_nothing_ahead() {
    let engine = open(8 * MIB);
    let used = engine.stats().memory_used;
    commit_all(&engine);
    assert_eq!(engine.stats().memory_used, used);
}
