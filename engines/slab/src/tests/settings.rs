//! Options of the engine: classes, eviction off, memory locked.

use super::{SlabEngine, SlabSession, Tested, open_store};
use crate::index::Scheme;
use crate::{HugePages, OpenError, Residence, SlabOptions};
use guira_contract::suite::{self, hits, remove, store, value_of};
use guira_contract::{Control, Engine, Expiry, ItemSpec, OldItem, Pace, Session, StoreError};
use guira_items::{ClassOptions, EngineOptions};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

pub(crate) fn put(
    session: &mut SlabSession,
    key: &str,
    length: usize,
    expiry: Expiry,
    now: Seconds,
) -> Result<(), StoreError> {
    store(session, key.as_bytes(), &vec![7; length], 0, expiry, now)
}

pub(crate) fn end_batch(session: &mut SlabSession, now: Seconds) {
    session.quiesce();
    session.maintain(now, Pace::Busy, 32);
}

/// Stores values of `length` bytes until one is refused. Returns how many were stored.
fn fill(session: &mut SlabSession, tag: &str, length: usize, expiry: Expiry) -> u64 {
    for i in 0.. {
        if put(session, &format!("{tag}{i}"), length, expiry, NOW).is_err() {
            return i;
        }
        if i % 32 == 0 {
            end_batch(session, NOW);
        }
    }
    unreachable!("memory ends")
}

pub(crate) fn assert_present(session: &mut SlabSession, tag: &str, keys: std::ops::Range<u64>) {
    for i in keys {
        assert!(hits(session, format!("{tag}{i}").as_bytes(), NOW), "{tag}{i} was lost");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let error = |options| SlabEngine::open(options).unwrap_err();
    for factor in [1.0, 0.5, f64::NAN, f64::INFINITY] {
        let options = SlabOptions {
            classes: ClassOptions { factor, ..ClassOptions::default() },
            ..SlabOptions::default()
        };
        assert!(matches!(error(options), OpenError::Factor(_)), "{factor}");
    }
    let options = SlabOptions {
        classes: ClassOptions { smallest_item: 1 << 20, ..ClassOptions::default() },
        ..SlabOptions::default()
    };
    assert!(matches!(error(options), OpenError::SmallestItem { .. }));
}

#[test]
fn the_smallest_item_decides_the_smallest_chunk_and_the_factor_how_many_classes_there_are() {
    let class_of = |options: SlabOptions, length: usize| {
        let engine = SlabEngine::open(options).unwrap();
        let mut session = engine.session();
        put(&mut session, "k", length, Expiry::Never, NOW).unwrap();
        engine.stats().classes[0].clone()
    };
    let default = SlabOptions::default();
    // The index may keep a link before each item.
    let link = Tested::LINK_BYTES as u64;
    assert_eq!(class_of(default, 1).chunk_size, 24 + link);
    // 8 bytes of header beside key, value and flags.
    let from_48 = SlabOptions { classes: ClassOptions { smallest_item: 48, ..default.classes }, ..default };
    assert_eq!((class_of(from_48, 1).chunk_size, class_of(from_48, 47).chunk_size), (56 + link, 56 + link));
    assert_eq!((class_of(from_48, 48).id, class_of(from_48, 48).chunk_size), (2, 64 + link));
    let coarse = SlabOptions { classes: ClassOptions { factor: 1.5, ..default.classes }, ..default };
    assert!(class_of(coarse, 20_000).id < class_of(default, 20_000).id / 2);
    assert!(class_of(coarse, 20_000).chunk_size >= 20_000);
}

#[test]
fn the_suite_holds_with_other_classes() {
    for (factor, smallest_item) in [(1.01, 0), (1.25, 48), (2.0, 1000), (1000.0, 20_000)] {
        let options = SlabOptions {
            engine: EngineOptions::of(64 << 20),
            classes: ClassOptions { factor, smallest_item },
            ..SlabOptions::default()
        };
        suite::differential(&SlabEngine::open(options).unwrap(), 3, 10_000);
    }
}

#[test]
fn without_eviction_a_full_cache_refuses_and_loses_nothing() {
    let engine = open_store(8 << 20);
    let mut session = engine.session();
    let stored = fill(&mut session, "key", 100, Expiry::Never);
    assert!(stored > 50_000, "{stored}");
    for i in 0..1000 {
        assert_eq!(
            put(&mut session, &format!("more{i}"), 100, Expiry::Never, NOW),
            Err(StoreError::NoMemory)
        );
        assert_eq!(
            put(&mut session, &format!("long{i}"), 9000, Expiry::Never, NOW),
            Err(StoreError::NoMemory)
        );
        assert_eq!(put(&mut session, "key7", 9000, Expiry::Never, NOW), Err(StoreError::NoMemory));
        end_batch(&mut session, NOW);
    }
    let room =
        ItemSpec { value_len: 300_000, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    assert!(session.begin_value(b"pending", room).is_err());
    assert_present(&mut session, "key", 0..stored);
    let stats = engine.stats();
    assert_eq!((stats.items, stats.evictions, stats.index_evictions), (stored, 0, 0));
    assert!(stats.index_growths > 0 && stats.memory_used <= stats.memory_limit, "{stats:?}");
    // A removed one makes room for one of its size.
    remove(&mut session, b"key7", NOW);
    assert_eq!(put(&mut session, "more", 100, Expiry::Never, NOW), Ok(()));
}

#[test]
fn without_eviction_expired_and_flushed_items_make_room() {
    // All items are of one class.
    const LENGTH: usize = 97;
    let engine = open_store(8 << 20);
    let mut session = engine.session();
    let stored = fill(&mut session, "key", LENGTH, Expiry::At(Seconds(1010)));
    assert_eq!(put(&mut session, "x", LENGTH, Expiry::Never, Seconds(1009)), Err(StoreError::NoMemory));
    // Nothing was looked after meanwhile: the store itself finds what has expired.
    for i in 0..stored / 2 {
        put(&mut session, &format!("next{i}"), LENGTH, Expiry::Never, Seconds(1010)).unwrap();
    }
    engine.flush(Seconds(1011), Seconds(1011));
    for i in 0..stored / 2 {
        put(&mut session, &format!("third{i}"), LENGTH, Expiry::Never, Seconds(1011)).unwrap();
    }
    assert_present(&mut session, "third", 0..stored / 2);
    assert_eq!(engine.stats().evictions, 0);
}

#[test]
fn without_eviction_a_page_that_has_become_empty_goes_to_whoever_needs_it() {
    let engine = open_store(8 << 20);
    let mut session = engine.session();
    let stored = fill(&mut session, "key", 100, Expiry::Never);
    assert!(put(&mut session, "long", 9000, Expiry::Never, NOW).is_err());
    for i in stored / 2..stored {
        remove(&mut session, format!("key{i}").as_bytes(), NOW);
    }
    let long = fill(&mut session, "long", 9000, Expiry::Never);
    assert!(long * 9000 > 2 << 20, "half of 8 MiB was free, and {long} values of 9000 bytes were stored");
    assert_present(&mut session, "key", 0..stored / 2);
    assert_present(&mut session, "long", 0..long);
    assert_eq!(engine.stats().evictions, 0);
}

#[test]
fn without_eviction_threads_that_fill_memory_lose_nothing() {
    let engine = open_store(16 << 20);
    let work = &|thread: u64| {
        let mut session = engine.session();
        let mut kept = Vec::new();
        for i in 0..60_000u64 {
            let key = format!("{thread}-{i}");
            let length = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
            if put(&mut session, &key, length, Expiry::Never, NOW).is_ok() {
                kept.push((key, length));
            }
            if i % 32 == 0 {
                end_batch(&mut session, NOW);
            }
        }
        for (key, length) in &kept {
            let found = value_of(&mut session, key.as_bytes(), NOW);
            assert_eq!(found.map(|item| item.value.len()), Some(*length), "{key}");
        }
        kept.len()
    };
    // Who comes late may find no memory at all.
    let kept: usize = guira_sync::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("nothing was lost")).sum()
    });
    assert!(kept > 20_000, "{kept}");
    let stats = engine.stats();
    assert_eq!((stats.items, stats.evictions), (kept as u64, 0));
}

#[test]
fn without_eviction_a_draft_takes_the_place_of_what_has_expired() {
    let engine = open_store(8 << 20);
    let mut session = engine.session();
    fill(&mut session, "key", 100, Expiry::At(Seconds(1010)));
    let room = ItemSpec { value_len: 100, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    assert!(session.begin_value(b"key00", room).is_err());
    // Who asks for a pending value does not say what time it is: the session has to have seen it.
    session.maintain(Seconds(1010), Pace::Busy, 0);
    assert!(session.begin_value(b"key00", room).is_ok());
}

#[test]
fn memory_can_be_locked_and_in_huge_pages_or_not() {
    for huge_pages in [HugePages::Requested, HugePages::No] {
        let options = SlabOptions {
            engine: EngineOptions {
                memory: 64 << 20,
                huge_pages: Some(huge_pages),
                residence: Residence::Locked,
                ..EngineOptions::default()
            },
            ..SlabOptions::default()
        };
        match SlabEngine::open(options) {
            Ok(engine) => suite::differential(&engine, 4, 2000),
            Err(error) => assert!(matches!(error, OpenError::Lock { .. }), "{error}"),
        }
    }
}
