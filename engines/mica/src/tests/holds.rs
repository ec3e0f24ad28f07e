//! Several threads that want the same partitions.

use super::ACCESSES;
use super::tools::{NOW, Random, check, get, put};
use crate::{MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{pin_of, remove, settle};
use guira_contract::{Access, Control, Engine, Pace, Recency, Session, ValuePin};
use guira_items::EngineOptions;
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use guira_sync::thread;
use std::sync::Barrier;

fn open(access: Access, memory: usize) -> MicaEngine {
    let max_item_size = 64 << 10;
    MicaEngine::open(MicaOptions {
        engine: EngineOptions { memory, max_item_size, ..EngineOptions::default() },
        access,
        partitions: 4,
        ..MicaOptions::default()
    })
    .unwrap()
}

fn keys(engine: &MicaEngine) -> Vec<String> {
    let session = engine.session();
    let bits = engine.core.bits;
    let key_in = |partition: usize| {
        let mut keys = (0..).map(|number| format!("key{number}"));
        let is_there =
            |key: &String| crate::partition::partition_of(session.hash(key.as_bytes()), bits) == partition;
        keys.find(is_there).unwrap()
    };
    (0..engine.core.partitions.len()).map(key_in).collect()
}

#[test]
fn sessions_that_want_each_others_partitions_make_progress() {
    for access in ACCESSES {
        let engine = open(access, 8 << 20);
        let keys = keys(&engine);
        assert_eq!(keys.len(), 4);
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for number in 0..3 {
                let (engine, keys, start) = (&engine, &keys, &start);
                scope.spawn(move || {
                    let mut session = engine.session();
                    start.wait();
                    for round in 0..2000 {
                        // All of them in one batch, in another order each.
                        for step in 0..4 {
                            let key = &keys[if number % 2 == 0 { step } else { 3 - step }];
                            put(&mut session, key, format!("{number} {round}").as_bytes()).unwrap();
                            get(&mut session, key);
                        }
                        if round % (number + 1) == 0 {
                            session.quiesce();
                        }
                    }
                    session.offline();
                });
            }
        });
        let mut session = engine.session();
        assert!(keys.iter().all(|key| get(&mut session, key).unwrap().ends_with(b" 1999")), "{access:?}");
    }
}

#[test]
fn whoever_is_offline_holds_nobody_up() {
    for access in ACCESSES {
        let engine = open(access, 8 << 20);
        let keys = keys(&engine);
        let mut away = engine.session();
        keys.iter().for_each(|key| put(&mut away, key, b"theirs").unwrap());
        away.offline();
        let mut session = engine.session();
        for key in &keys {
            assert_eq!(get(&mut session, key), Some(b"theirs".to_vec()), "{access:?}");
            put(&mut session, key, b"ours").unwrap();
        }
        // Nor does one that is gone, or that rests.
        session.release_caches();
        let mut third = engine.session();
        keys.iter().for_each(|key| put(&mut third, key, b"third").unwrap());
        drop(third);
        away.online();
        keys.iter().for_each(|key| assert_eq!(get(&mut away, key), Some(b"third".to_vec())));
    }
}

#[test]
fn what_others_want_is_given_back_at_the_end_of_a_batch() {
    for access in [Access::Erew, Access::Crew] {
        let engine = open(access, 8 << 20);
        let keys = keys(&engine);
        let mut session = engine.session();
        keys.iter().for_each(|key| put(&mut session, key, b"ours").unwrap());
        let others: Vec<_> = keys.iter().map(|key| (key, AtomicBool::new(false))).collect();
        thread::scope(|scope| {
            for (key, done) in &others {
                let engine = &engine;
                scope.spawn(move || {
                    put(&mut engine.session(), key, b"theirs").unwrap();
                    done.store(true, Ordering::Relaxed);
                });
            }
            // It goes on with other things, and never waits.
            while !others.iter().all(|(_, done)| done.load(Ordering::Relaxed)) {
                session.quiesce();
                thread::yield_now();
            }
        });
        keys.iter().for_each(|key| assert_eq!(get(&mut session, key), Some(b"theirs".to_vec())));
        assert!(engine.core.locks.recalls() >= 1);
    }
}

/// Under EREW and CREW a session keeps partitions. All who work on them now and then are served, whatever they do there.
#[test]
fn everything_that_is_done_at_once_ends() {
    for access in ACCESSES {
        let engine = open(access, 2 << 20);
        let left = AtomicU32::new(4);
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let (engine, left) = (&engine, &left);
                scope.spawn(move || {
                    let (mut session, mut random) = (engine.session(), Random(number));
                    for _ in 0..20_000 {
                        work(engine, &mut session, &mut random);
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(left.load(Ordering::Relaxed), 0);
        engine.resize(2 << 20).unwrap();
        settle(&mut engine.session(), NOW);
        // Those that hold a key's partition next let the last flush take effect.
        let mut session = engine.session();
        keys(&engine).iter().for_each(|key| put(&mut session, key, b"v").unwrap());
        drop(session);
        check(&engine);
    }
}

/// The value of a key tells the key.
fn work(engine: &MicaEngine, session: &mut MicaSession, random: &mut Random) {
    let number = random.below(300);
    let key = format!("key{number}");
    let of_key = |length: usize| vec![number as u8; length];
    match random.below(100) {
        0..40 => put(session, &key, &of_key(random.below(2000))).unwrap_or(()),
        40..44 => put(session, &key, &of_key(20_000)).unwrap_or(()),
        44..50 => remove(session, key.as_bytes(), NOW),
        50..88 => {
            let value = get(session, &key).unwrap_or_default();
            assert!(value.iter().all(|byte| *byte == number as u8), "{key}");
        }
        88..92 => {
            if let Some(pin) = pin_of(session, key.as_bytes(), Recency::Leave, NOW) {
                session.quiesce();
                put(session, &format!("other{number}"), &[0; 5000]).unwrap_or(());
                assert!(pin.piece(0).iter().all(|byte| *byte == number as u8), "{key}");
            }
        }
        92 => engine.flush(NOW, NOW),
        93 => engine.resize([2 << 20, 1536 << 10][random.below(2)]).unwrap_or(()),
        94 => session.offline(),
        95 => {
            if let Some(mut walk) = session.begin_walk() {
                while session.walk(&mut walk, NOW, &mut |_| ()) == guira_contract::Walked::More {
                    session.quiesce();
                }
            }
        }
        _ => _ = session.maintain(NOW, Pace::Idle, 8),
    }
    session.quiesce();
}
