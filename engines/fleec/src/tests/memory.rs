//! Where memory goes: when there is less of it, when nothing may be evicted, when sizes change.

use super::open;
use crate::bucket_clock;
use crate::{FleecEngine, FleecOptions, FleecSession};
use guira_contract::suite::{self, pin_of, settle, store, value_of};
use guira_contract::{
    Amendment, Control, Decision, Digits, Engine, Expiry, Key, Pace, Provision, Recency, ResizeError,
    Session, StoreError, ValuePin,
};
use guira_items::{EngineOptions, Eviction};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

#[test]
fn less_memory_is_reached_step_by_step_and_what_goes_is_counted() {
    let options = FleecOptions {
        engine: EngineOptions { memory: 48 << 20, reserve: 64 << 20, ..EngineOptions::default() },
        ..FleecOptions::default()
    };
    let engine = FleecEngine::open(options).unwrap();
    let mut session = engine.session();
    for number in 0..300_000_u32 {
        store(&mut session, format!("key-{number}").as_bytes(), &[1; 60], 0, Expiry::Never, NOW).unwrap();
    }
    drop(session);
    let before = engine.stats();
    engine.resize(24 << 20).unwrap();
    settle(&mut engine.session(), NOW);
    let after = engine.stats();
    assert!(after.memory_used <= 24 << 20, "{after:?}");
    assert!(after.items > before.items / 4 && after.items < before.items, "{after:?}");
    assert_eq!(after.items + after.evictions, 300_000);
    engine.resize(64 << 20).unwrap();
    let mut session = engine.session();
    for number in 0..300_000_u32 {
        store(&mut session, format!("more-{number}").as_bytes(), &[2; 60], 0, Expiry::Never, NOW).unwrap();
    }
    assert!(engine.stats().items > before.items, "there is more room than at first");
    assert!(matches!(engine.resize(65 << 20), Err(ResizeError::TooBig { .. })));
    assert!(matches!(engine.resize(1 << 20), Err(ResizeError::TooSmall { .. })));
}

#[test]
fn without_eviction_nothing_is_lost_and_what_expires_makes_room() {
    // All items are of one class: what expires in one makes no room in another.
    const LENGTH: usize = 97;
    let options = FleecOptions {
        engine: EngineOptions { memory: 4 << 20, eviction: Eviction::Off, ..EngineOptions::default() },
        ..FleecOptions::default()
    };
    let engine = FleecEngine::open(options).unwrap();
    let mut session = engine.session();
    let expiry =
        |number: u32| if number.is_multiple_of(2) { Expiry::Never } else { Expiry::At(Seconds(2000)) };
    let mut stored = 0;
    let refusal = loop {
        let key = format!("key-{stored}");
        match store(&mut session, key.as_bytes(), &[1; LENGTH], 0, expiry(stored), NOW) {
            Ok(()) => stored += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, StoreError::NoMemory);
    assert!(stored > 15_000, "{stored}");
    for number in 0..stored {
        assert!(value_of(&mut session, format!("key-{number}").as_bytes(), NOW).is_some(), "{number}");
    }
    let later = Seconds(3000);
    for number in 0..stored / 3 {
        let key = format!("later-{number}");
        store(&mut session, key.as_bytes(), &[2; LENGTH], 0, Expiry::Never, later).unwrap();
    }
    for number in (0..stored).step_by(2) {
        assert!(value_of(&mut session, format!("key-{number}").as_bytes(), later).is_some(), "{number}");
    }
    let stats = engine.stats();
    assert_eq!((stats.evictions, stats.reclaimed > 0), (0, true));
}

#[test]
fn what_became_of_items_is_told_of_each_class() {
    let engine = open(4 << 20);
    let mut session = engine.session();
    for number in 0..60_000_u32 {
        let expiry = if number.is_multiple_of(3) { Expiry::At(Seconds(5000)) } else { Expiry::Never };
        store(&mut session, format!("key-{number:05}").as_bytes(), &[1; 60], 0, expiry, NOW).unwrap();
    }
    let stats = engine.stats();
    let sum = |of: fn(&guira_contract::ClassStats) -> u64| stats.classes.iter().map(of).sum::<u64>();
    assert!(stats.evictions > 10_000);
    assert_eq!(sum(|class| class.counts.evicted), stats.evictions);
    assert_eq!(sum(|class| class.counts.evicted_unfetched), stats.evicted_unfetched);
    assert_eq!(sum(|class| class.items), stats.items);
    let nonzero = sum(|class| class.counts.evicted_nonzero);
    assert!(nonzero > stats.evictions / 4 && nonzero < stats.evictions / 2, "{nonzero}");
}

#[test]
fn the_table_grows_with_the_items() {
    let engine = open(64 << 20);
    let mut session = engine.session();
    for number in 0..200_000_u32 {
        store(&mut session, format!("key-{number}").as_bytes(), b"value", 0, Expiry::Never, NOW).unwrap();
    }
    let stats = engine.stats();
    let buckets = stats.index_slots;
    assert!(!bucket_clock::is_crowded(199_900, buckets), "{buckets}");
    assert!(bucket_clock::is_crowded(200_100, buckets - 1), "{buckets}");
    for number in 0..200_000_u32 {
        assert!(value_of(&mut session, format!("key-{number}").as_bytes(), NOW).is_some(), "{number}");
    }
}

/// Clients who take their time over long values, which others store anew meanwhile: what is retired is looked at again when there is more of it, and
/// freed by the next session that comes by once they are gone, even if the one who retired it is at rest.
#[test]
fn what_was_pinned_is_freed_by_others_when_its_owner_rests() {
    let engine = open(64 << 20);
    let (mut owner, mut other) = (engine.session(), engine.session());
    let value = vec![1; 40_000];
    let mut pins = Vec::new();
    for number in 0..100 {
        let key = format!("long-{number}");
        store(&mut owner, key.as_bytes(), &value, 0, Expiry::Never, NOW).unwrap();
        pins.extend(pin_of(&mut other, key.as_bytes(), Recency::Bump, NOW));
        store(&mut owner, key.as_bytes(), b"short", 0, Expiry::Never, NOW).unwrap();
    }
    assert_eq!(pins.len(), 100, "long values are pinned");
    assert_eq!(owner.retired(), 100, "all of them are being sent");
    assert!(pins.iter().all(|pin| pin.piece(0)[0] == 1));
    owner.release_caches();
    drop(pins);
    let used =
        || engine.stats().classes.iter().map(|class| class.used_chunks * class.chunk_size).sum::<u64>();
    assert!(used() > 4_000_000, "{}", used());
    other.maintain(NOW, Pace::Idle, 1);
    other.release_caches();
    assert!(used() < 1_000_000, "{}", used());
}

/// Without eviction and without memory, what is there can be changed all the same, over and over, as long as it needs no more than it has.
#[test]
fn what_is_there_can_be_changed_when_nothing_more_can_be_stored() {
    for memory in [4 << 20, 40 << 20] {
        let options = FleecOptions {
            engine: EngineOptions { memory, eviction: Eviction::Off, ..EngineOptions::default() },
            ..FleecOptions::default()
        };
        let engine = FleecEngine::open(options).unwrap();
        let mut session = engine.session();
        let put = |session: &mut FleecSession, key: &str, value: &[u8], expiry| {
            store(session, key.as_bytes(), value, 0, expiry, NOW)
        };
        let later = Expiry::At(Seconds(NOW.0 + 100));
        put(&mut session, "count", b"10000000", Expiry::Never).unwrap();
        put(&mut session, "long", &[7; 50_000], later).unwrap();
        for length in [1_000, 100, 8] {
            // As long as the key of the count.
            while put(&mut session, &format!("{:05x}", engine.stats().total_items), &vec![1; length], later)
                .is_ok()
            {}
        }
        while put(&mut session, &format!("{:05x}", engine.stats().total_items), &[1; 8], Expiry::Never)
            .is_ok()
        {}
        let amend = |session: &mut FleecSession, key: &str, change: Amendment| {
            let key = Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) };
            session.update(key, Default::default(), NOW, Provision::None, |item| {
                assert!(item.is_some());
                Decision::Amend(change)
            })
        };
        for number in 10_000_001..10_000_500 {
            let overwrite = Some(Digits::of(number));
            amend(&mut session, "count", Amendment { overwrite, ..Amendment::default() }).unwrap();
            // Who stores something else in between gets nothing of what that takes.
            assert!(put(&mut session, "other", b"10000000", Expiry::Never).is_err(), "{number}");
        }
        assert_eq!(value_of(&mut session, b"count", NOW).unwrap().value, b"10000499");
        let used = engine.stats().classes.iter().map(|class| class.used_chunks).sum::<u64>();
        for at in [NOW.0 + 200, NOW.0 + 300] {
            let expiry = Expiry::At(Seconds(at));
            let change = Amendment { expiry: Some(expiry), ..Amendment::default() };
            amend(&mut session, "long", change).unwrap();
            let item = value_of(&mut session, b"long", NOW).unwrap();
            assert_eq!((item.meta.expiry, item.value.len()), (expiry, 50_000));
        }
        assert_eq!(engine.stats().classes.iter().map(|class| class.used_chunks).sum::<u64>(), used);
    }
}

#[test]
fn what_is_read_stays_beside_a_stream_of_others() {
    let memory = 12 << 20;
    let small = [1_000, 20_000].map(|cold_len| (10, cold_len));
    let others = [300, 4_000]
        .into_iter()
        .flat_map(|hot_len| [60, 1_000, 20_000, 300_000].map(|cold_len| (hot_len, cold_len)));
    for (hot_len, cold_len) in small.into_iter().chain(others) {
        for pages in [1, 2, 3] {
            let load = suite::HotItems::of_pages(memory, pages, hot_len, cold_len);
            assert_eq!(load.lost(&open(memory)), 0, "{load:?}");
        }
    }
}

#[test]
fn pages_of_sizes_that_are_gone_serve_those_that_came() {
    const LONG: usize = 30_000;
    let open = || {
        let engine = EngineOptions { memory: 64 << 20, ..EngineOptions::default() };
        FleecEngine::open(FleecOptions { engine, ..FleecOptions::default() }).unwrap()
    };
    let fill = |engine: &FleecEngine| {
        // Another session has used memory too, and keeps some of it.
        let mut sessions = [engine.session(), engine.session()];
        for number in 0..8_000 {
            let session = &mut sessions[number % 2];
            let key = format!("long-{number}");
            let now = Seconds(NOW.0 + number as u32 / 500);
            session.maintain(now, Pace::Busy, 0);
            store(session, key.as_bytes(), &[2; LONG], 0, Expiry::Never, now).unwrap();
            session.quiesce();
        }
        engine.stats().items
    };
    let fresh = fill(&open());
    let engine = open();
    let mut sessions = [engine.session(), engine.session()];
    for number in 0..40_000 {
        let key = format!("mixed-{number}");
        // Each length is a bit longer than the one before, from 20 bytes to 50 kB.
        let length = (20.0 * 1.05_f64.powi(number % 160)) as usize;
        let session = &mut sessions[number as usize % 2];
        store(session, key.as_bytes(), &vec![1; length], 0, Expiry::Never, NOW).unwrap();
        session.quiesce();
    }
    drop(sessions);
    let mixed = fill(&engine);
    assert!(20 * mixed > 19 * fresh, "{mixed} items where {fresh} were held in memory that was new");
}
