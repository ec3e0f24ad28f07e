//! Which items go.

use super::tools::{NOW, Random, check, get, key_of, put};
use crate::{LogPolicy, MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{self, store};
use guira_contract::{
    Access, Amendment, Control, Decision, Engine, EngineStats, EvictionWatcher, Expiry, Meta, Provision,
    Session, Spec,
};
use guira_items::{EngineOptions, Hashing};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use std::ops::RangeInclusive;
use std::sync::Arc;

const KEPT: usize = 50;
const NONE: RangeInclusive<usize> = 0..=0;
/// Some buckets are full, and give up what is wanted with the rest.
const MOST: RangeInclusive<usize> = KEPT * 9 / 10..=KEPT;

fn open(policy: LogPolicy) -> MicaEngine {
    let small = MicaOptions {
        engine: EngineOptions { memory: 2 << 20, max_item_size: 64 << 10, ..EngineOptions::default() },
        ..MicaOptions::default()
    };
    MicaEngine::open(MicaOptions { partitions: 2, policy, ..small }).unwrap()
}

/// How many of some items are still there, if they are read again and again while the log goes around several times.
fn survivors(engine: &MicaEngine, session: &mut MicaSession) -> usize {
    let kept = |number| format!("kept{number}");
    (0..KEPT).for_each(|number| put(session, &kept(number), b"wanted").unwrap());
    for number in 0..60_000 {
        put(session, &format!("other{number}"), &[1; 100]).unwrap();
        if number % 20 == 0 {
            get(session, &kept(number / 20 % KEPT));
        }
    }
    let evicted = engine.stats().evictions;
    assert!(evicted > 40_000, "{evicted}");
    (0..KEPT).filter(|number| get(session, &kept(*number)).is_some()).count()
}

#[test]
fn what_is_read_survives_but_for_fifo() {
    for (policy, range) in [(LogPolicy::Fifo, NONE), (LogPolicy::ApproxLru, MOST), (LogPolicy::Lru, MOST)] {
        let engine = open(policy);
        let survivors = survivors(&engine, &mut engine.session());
        assert!(range.contains(&survivors), "{policy:?}: {survivors}");
        check(&engine);
    }
}

/// What is read is kept when the log comes to its end for the first time, too, whatever the sizes.
#[test]
fn what_is_read_survives_the_first_round_of_the_log() {
    for policy in [LogPolicy::ApproxLru, LogPolicy::Lru] {
        for access in [Access::Erew, Access::Crew, Access::Crcw] {
            for length in [10, 1000, 20_000] {
                let options = MicaOptions {
                    engine: EngineOptions::of(16 << 20),
                    partitions: 1,
                    policy,
                    access,
                    ..MicaOptions::default()
                };
                let engine = MicaEngine::open(options).unwrap();
                let mut session = engine.session();
                let hot = |number: usize| format!("hot{number}");
                (0..20).for_each(|number| put(&mut session, &hot(number), &vec![2; length]).unwrap());
                let mut lost = 0;
                for number in 0..3 * (16 << 20) / (length + 40) {
                    if number % 20 == 0 {
                        lost += (0..20).filter(|number| get(&mut session, &hot(*number)).is_none()).count();
                    }
                    put(&mut session, &format!("cold{}", number % 400_000), &vec![1; length]).unwrap();
                }
                assert_eq!(lost, 0, "{policy:?}, {access:?}, values of {length}");
                assert!(engine.stats().evictions > 0);
            }
        }
    }
}

#[test]
fn a_policy_takes_over_while_the_engine_is_used() {
    let engine = open(LogPolicy::Fifo);
    let mut session = engine.session();
    for (name, range) in [("lru", MOST), ("fifo", NONE), ("approx-lru", MOST), ("fifo", NONE)] {
        engine.reset_stats();
        engine.change_policy(&Spec::parse(name).unwrap()).unwrap();
        assert_eq!(engine.policy().0.to_string(), name);
        let survivors = survivors(&engine, &mut session);
        assert!(range.contains(&survivors), "{name}: {survivors}");
    }
    assert!(engine.change_policy(&Spec::parse("clock").unwrap()).is_err());
    assert_eq!(engine.policy().0.to_string(), "fifo");
    drop(session);
    check(&engine);
}

/// Keys that are numbers are their own hashes: the numbers below 2^31 have the same bucket however many there are. Other keys have buckets in the second half.
fn number_of(key: &[u8]) -> u64 {
    let number = std::str::from_utf8(key).ok().and_then(|key| key.parse().ok());
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number.unwrap_or_else(|| key.iter().fold(1, mix) | 1 << 63)
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<(String, usize)>>);

impl EvictionWatcher for Told {
    fn watches(&self) -> Option<Seconds> {
        Some(NOW)
    }

    fn evicted(&self, key: &[u8], meta: &Meta, now: Seconds) {
        assert_eq!(now, NOW);
        self.0.lock().push((String::from_utf8_lossy(key).into_owned(), meta.value_len));
    }
}

#[test]
fn a_full_bucket_gives_up_the_item_furthest_behind_the_tail_when_memory_is_full() {
    let hashing = Hashing::Fixed(number_of);
    let engine = MicaEngine::open(MicaOptions {
        engine: EngineOptions { hashing, ..EngineOptions::of(2 << 20) },
        partitions: 1,
        ..MicaOptions::default()
    })
    .unwrap();
    let mut session = engine.session();
    let mut others = 0;
    while engine.stats().evictions == 0 {
        put(&mut session, &format!("other{others}"), &[1; 4000]).unwrap();
        others += 1;
    }
    engine.reset_stats();
    let told = Arc::new(Told::default());
    for number in 1..=15 {
        put(&mut session, &number.to_string(), &vec![1; number]).unwrap();
    }
    // The engine appends a much longer value.
    put(&mut session, "1", &[2; 1000]).unwrap();
    assert_eq!(engine.stats().index_evictions, 0);
    engine.watch_evictions(told.clone());
    put(&mut session, "16", b"v").unwrap();
    assert!(get(&mut session, "2").is_none() && get(&mut session, "1").is_some());
    put(&mut session, "17", b"v").unwrap();
    assert!(get(&mut session, "3").is_none());
    for number in [1, 4, 5, 15, 16, 17] {
        assert!(get(&mut session, &number.to_string()).is_some(), "{number}");
    }
    assert_eq!(engine.stats().index_evictions, 2);
    assert_eq!(*told.0.lock(), [("2".to_owned(), 2), ("3".to_owned(), 3)]);
    drop(session);
    check(&engine);
}

#[test]
fn a_store_evicts_about_as_much_as_it_needs_though_what_is_used_is_larger_than_what_is_not() {
    let options = MicaOptions {
        engine: EngineOptions::of(16 << 20),
        partitions: 1,
        policy: LogPolicy::ApproxLru,
        ..MicaOptions::default()
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    let from_the_log = |stats: EngineStats| stats.evictions - stats.index_evictions;
    let mut pairs = 0;
    while from_the_log(engine.stats()) < 10 {
        put(&mut session, &format!("cold{pairs}"), &[1; 4_000]).unwrap();
        put(&mut session, &format!("used{pairs}"), &[2; 5_000]).unwrap();
        pairs += 1;
    }
    let mut used = || (0..pairs).filter(|pair| get(&mut session, &format!("used{pair}")).is_some()).count();
    for number in 0..100 {
        let found = used();
        let before = engine.stats().evictions;
        put(&mut engine.session(), &format!("more{number}"), &[3; 6_000]).unwrap();
        let evicted = engine.stats().evictions - before;
        assert!(evicted <= 4, "{evicted} for item {number}");
        assert!(used() + 1 >= found, "what was used stays");
    }
    drop(session);
    check(&engine);
}

#[test]
fn an_item_that_is_used_stays_however_long_it_is() {
    let options = MicaOptions {
        engine: EngineOptions { memory: 128 << 20, max_item_size: 16 << 20, ..EngineOptions::default() },
        partitions: 1,
        policy: LogPolicy::Lru,
        ..MicaOptions::default()
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    put(&mut session, "first", &vec![2; 10 << 20]).unwrap();
    put(&mut session, "used", &vec![1; 9 << 20]).unwrap();
    for number in 0..40 {
        put(&mut session, &format!("other{number}"), &vec![2; 11 << 20]).unwrap();
        assert!(get(&mut session, "used").is_some(), "{number}");
    }
    assert!(engine.stats().evictions > 20);
    drop(session);
    check(&engine);
}

#[test]
fn every_eviction_is_told() {
    let engine = open(LogPolicy::ApproxLru);
    let told = Arc::new(Told::default());
    engine.watch_evictions(told.clone());
    let mut session = engine.session();
    (0..40_000).for_each(|number| put(&mut session, &format!("key{number}"), &[1; 100]).unwrap());
    let told = told.0.lock();
    let stats = engine.stats();
    assert!(stats.evictions > 20_000 && told.len() as u64 == stats.evictions, "{stats:?}");
    assert_eq!(stats.items + stats.evictions, 40_000);
    assert!(told.iter().all(|(key, length)| *length == 100 && get(&mut session, key).is_none()));
}

/// An item that no longer expires has a field that it does not need, and leaves it behind when it is stored again at the tail.
#[test]
fn what_an_item_leaves_behind_when_it_moves_is_counted() {
    let engine = MicaEngine::open(MicaOptions {
        engine: EngineOptions::of(2 << 20),
        policy: LogPolicy::Lru,
        ..MicaOptions::default()
    })
    .unwrap();
    let mut session = engine.session();
    let mut number = 0;
    while engine.stats().evictions == engine.stats().index_evictions {
        put(&mut session, &format!("other{number}"), &[1; 200]).unwrap();
        number += 1;
    }
    for number in 0..20 {
        let name = format!("key{number}");
        store(&mut session, name.as_bytes(), &[2; 50], 0, Expiry::At(Seconds(9000)), NOW).unwrap();
        let never = || Amendment { expiry: Some(Expiry::Never), ..Amendment::default() };
        let key = key_of(&session, &name);
        session.update(key, Default::default(), NOW, Provision::None, |_| Decision::Amend(never())).unwrap();
        assert!(get(&mut session, &name).is_some());
    }
    drop(session);
    check(&engine);
}

/// Items that take this many percent of memory are read and stored over in no order, again and again, and nothing else is stored. Returns how many are gone.
fn lost_of_what_fits(policy: LogPolicy, percent: usize) -> usize {
    let memory = 4 << 20;
    let engine: MicaEngine = MicaEngine::open(MicaOptions {
        engine: EngineOptions::of(memory),
        partitions: 1,
        policy,
        ..MicaOptions::default()
    })
    .unwrap();
    let mut session = engine.session();
    let items = memory / 200 * percent / 100;
    for number in 0..items {
        put(&mut session, &format!("key{number:07}"), &[1; 160]).unwrap();
    }
    // A full bucket of the index gives one up.
    let missing = |session: &mut MicaSession| {
        (0..items).filter(|number| get(session, &format!("key{number:07}")).is_none()).count()
    };
    let before = missing(&mut session);
    let mut random = Random(1);
    for _ in 0..10 * items {
        let key = format!("key{:07}", random.below(items));
        let is_there = get(&mut session, &key).is_some();
        if is_there && random.below(3) == 0 {
            put(&mut session, &key, &[2; 160]).unwrap();
        }
    }
    let lost = missing(&mut session) - before;
    drop(session);
    check(&engine);
    lost
}

#[test]
fn reads_and_values_that_are_stored_over_cost_no_item() {
    for policy in [LogPolicy::Fifo, LogPolicy::ApproxLru, LogPolicy::Lru] {
        for percent in [45, 55, 75, 85] {
            assert_eq!(lost_of_what_fits(policy, percent), 0, "{policy:?}, {percent} % full");
        }
    }
}

#[test]
fn what_is_read_stays_beside_a_stream_of_others() {
    let memory = 16 << 20;
    for policy in [LogPolicy::ApproxLru, LogPolicy::Lru] {
        for hot_len in [300, 4_000] {
            for cold_len in [1_000, 20_000, 300_000] {
                for pages in [1, 3] {
                    let options = MicaOptions {
                        engine: EngineOptions::of(memory),
                        partitions: 1,
                        policy,
                        ..MicaOptions::default()
                    };
                    let engine: MicaEngine = MicaEngine::open(options).unwrap();
                    let load = suite::HotItems::of_pages(memory, pages, hot_len, cold_len);
                    assert_eq!(load.lost(&engine), 0, "{policy:?}, {load:?}");
                }
            }
        }
    }
}
