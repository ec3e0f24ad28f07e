//! What an index does that has no room for a key: it displaces others, and when nothing may be lost, it refuses or waits.

use super::all::settings::{assert_present, end_batch, put};
use super::all::{SlabEngine, SlabSession, open};
use crate::{Eviction, SlabOptions};
use guira_contract::suite::{hits, remove, store};
use guira_contract::{Control, Engine, Expiry};
use guira_items::EngineOptions;
use guira_items::hooks::{self, Window};
use guira_sync::channel;
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

#[test]
fn without_eviction_keys_of_equal_hash_are_refused_rather_than_lost() {
    let hashing = crate::Hashing::Fixed(|_| 0x1234_5678_9abc_def0);
    let options = SlabOptions {
        engine: EngineOptions {
            memory: 8 << 20,
            eviction: Eviction::Off,
            hashing,
            ..EngineOptions::default()
        },
        ..SlabOptions::default()
    };
    let engine = SlabEngine::open(options).unwrap();
    let mut session = engine.session();
    let stored: Vec<u64> =
        (0..100).filter(|i| put(&mut session, &format!("key{i}"), 10, Expiry::Never, NOW).is_ok()).collect();
    assert_eq!(stored, (0..20).collect::<Vec<_>>());
    assert_present(&mut session, "key", 0..20);
}

/// Keys of the crowd have one hash, others have their own.
fn crowded_hash(key: &[u8]) -> u64 {
    let crowd = key.starts_with(b"crowd");
    let mix =
        |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    if crowd { 0x1234_5678_9abc_def0 } else { key.iter().fold(7, mix) }
}

#[test]
fn without_eviction_growth_waits_rather_than_lose_what_has_no_place_in_the_new_table() {
    let hashing = crate::Hashing::Fixed(crowded_hash);
    let options = SlabOptions {
        engine: EngineOptions {
            memory: 32 << 20,
            eviction: Eviction::Off,
            hashing,
            ..EngineOptions::default()
        },
        ..SlabOptions::default()
    };
    let engine = SlabEngine::open(options).unwrap();
    let mut session = engine.session();
    let store_crowd = |session: &mut SlabSession, keys: std::ops::Range<u64>| {
        keys.for_each(|i| put(session, &format!("crowd{i}"), 10, Expiry::Never, NOW).unwrap());
    };
    store_crowd(&mut session, 0..20);
    let mut stored = 0;
    while !engine.stats().index_growing {
        put(&mut session, &format!("key{stored}"), 10, Expiry::Never, NOW).unwrap();
        stored += 1;
    }
    // There is room for as many in the new table, until those of the old one are to move.
    store_crowd(&mut session, 20..40);
    for _ in 0..20_000 {
        end_batch(&mut session, NOW);
    }
    assert!(engine.stats().index_growing, "growth cannot end");
    assert_present(&mut session, "crowd", 0..40);
    (20..40).for_each(|i| remove(&mut session, format!("crowd{i}").as_bytes(), NOW));
    for _ in 0..20_000 {
        end_batch(&mut session, NOW);
    }
    assert!(!engine.stats().index_growing, "growth ends when there is room");
    assert_present(&mut session, "crowd", 0..20);
    assert_present(&mut session, "key", 0..stored);
    assert_eq!(engine.stats().evictions, 0);
}

/// Hazard 1: while an entry is on its way from one bucket to the other it is in neither. A reader that looks then must
/// not say that the key is absent.
#[test]
fn a_key_that_is_being_displaced_is_not_missed() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    let name = |i: usize| format!("key-{i}").into_bytes();
    // Nearly full, so that inserts displace; the table of 2,048 buckets has 20,480 slots and does not grow below 90 %.
    let kept = 17_500;
    for i in 0..kept {
        store(&mut session, &name(i), b"v", 0, Expiry::Never, NOW).unwrap();
    }
    let (ask, asked) = channel::channel::<()>();
    let (tell, told) = channel::channel::<usize>();
    let reader = engine.clone();
    let reading = guira_sync::thread::spawn(move || {
        let mut session = reader.session();
        let mut missed = 0;
        while asked.recv().is_ok() {
            for i in 0..kept {
                missed += usize::from(!hits(&mut session, &name(i), NOW));
                if i % 1000 == 0 && tell.send(missed).is_err() {
                    return missed;
                }
            }
        }
        missed
    });
    let windows = Rc::new(Cell::new(0));
    let counted = windows.clone();
    let guard = hooks::set(move |window| {
        if window == Window::Displacing && counted.get() < 20 {
            counted.set(counted.get() + 1);
            ask.send(()).unwrap();
            // The reader gets through, or it waits for the writer at the key that is on its way: either way it has been
            // in the window when nothing is heard of it for a while.
            while told.recv_timeout(std::time::Duration::from_millis(5)).is_ok() {}
        }
    });
    let mut extra = kept;
    while windows.get() < 20 {
        store(&mut session, &name(extra), b"v", 0, Expiry::Never, NOW).unwrap();
        extra += 1;
    }
    drop(guard);
    assert_eq!(reading.join().unwrap(), 0, "keys missed");
    assert_eq!(engine.stats().evictions, 0);
}
