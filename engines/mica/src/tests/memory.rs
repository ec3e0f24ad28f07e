//! Where memory goes: when there is less of it or more, when nothing may be evicted, when values arrive.

use super::tools::{NOW, check, get, key_of, put};
use crate::ItemStore;
use crate::{LogPolicy, MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{settle, store};
use guira_contract::{
    Control, Decision, Engine, EvictionWatcher, Expiry, ItemSpec, ItemState, ItemView, Meta, NewItem,
    OldItem, Provision, ResizeError, Session, Value,
};
use guira_items::{EngineOptions, Hashing};
use guira_sync::clock::Seconds;
use std::sync::Arc;

const MIB: usize = 1 << 20;

fn options(memory: usize) -> MicaOptions {
    MicaOptions {
        engine: EngineOptions {
            memory,
            reserve: 4 * memory,
            max_item_size: 64 << 10,
            ..EngineOptions::default()
        },
        ..MicaOptions::default()
    }
}

fn fill(session: &mut MicaSession, name: &str, count: usize, length: usize) {
    (0..count).for_each(|number| put(session, &format!("{name}{number}"), &vec![1; length]).unwrap());
}

/// How many of the newest items are there, of `count` that were stored.
fn newest(session: &mut MicaSession, name: &str, count: usize, newest: usize) -> usize {
    (count - newest..count).filter(|number| get(session, &format!("{name}{number}")).is_some()).count()
}

#[test]
fn with_less_memory_the_newest_items_stay_and_those_that_go_are_counted() {
    // The tail is in the first half of the log, which stays, or in the second, which goes.
    for count in [50_000, 60_000, 70_000, 80_000] {
        let engine = MicaEngine::open(MicaOptions { policy: LogPolicy::Fifo, ..options(16 * MIB) }).unwrap();
        let mut session = engine.session();
        fill(&mut session, "key", count, 300);
        let before = engine.stats();
        drop(session);
        engine.resize(8 * MIB).unwrap();
        settle(&mut engine.session(), NOW);
        let after = engine.stats();
        assert!(after.memory_used <= 8 * MIB as u64 && after.memory_limit == 8 * MIB as u64, "{after:?}");
        assert_eq!(after.items + after.evictions, count as u64);
        check(&engine);
        assert!(after.items * 100 > before.items * 45, "{} of {}", after.items, before.items);
        let room = after.items as usize;
        let newest = newest(&mut engine.session(), "key", count, room);
        // Those beyond the new end are moved in no order, until there is no room.
        assert!(newest * 100 > room * 70, "of the {room} newest {newest} are there");
    }
}

#[test]
fn more_memory_is_used_at_once() {
    let engine = MicaEngine::open(options(8 * MIB)).unwrap();
    let mut session = engine.session();
    fill(&mut session, "first", 40_000, 300);
    let before = engine.stats();
    assert!(before.evictions > 0);
    engine.resize(32 * MIB).unwrap();
    fill(&mut session, "more", 50_000, 300);
    let after = engine.stats();
    assert!(after.evictions - before.evictions < before.items / 50, "{after:?}");
    assert!(after.items > before.items + 49_000);
    let there = (0..50_000).filter(|number| get(&mut session, &format!("more{number}")).is_some());
    assert!(there.count() > 49_900);
    fill(&mut session, "most", 90_000, 300);
    let full = engine.stats();
    assert!(full.memory_used <= 32 * MIB as u64 && full.memory_used > 31 * MIB as u64, "{full:?}");
    assert!(full.items > 7 * before.items / 2, "{full:?}");
    assert!(matches!(engine.resize(129 * MIB), Err(ResizeError::TooBig { .. })));
    drop(session);
    check(&engine);
}

/// When more memory comes, what is left of the round before gets other offsets. A store under way has found things by the old ones.
#[test]
fn more_memory_in_the_middle_of_a_round_loses_no_item_without_counting_it() {
    // Keys that are numbers have the first bucket, others are spread over the second half of all.
    let hashing = Hashing::Fixed(|key| {
        let number = std::str::from_utf8(key).ok().and_then(|key| key.parse::<u64>().ok());
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        number.unwrap_or_else(|| key.iter().fold(1, mix) | 1 << 63)
    });
    let engine = MicaEngine::open(MicaOptions {
        engine: EngineOptions { hashing, ..options(2 * MIB).engine },
        partitions: 1,
        policy: LogPolicy::Fifo,
        ..options(2 * MIB)
    })
    .unwrap();
    let mut session = engine.session();
    let mut number = 0;
    let mut other = |session: &mut MicaSession, until: &dyn Fn() -> bool| {
        while !until() {
            put(session, &format!("other{number}"), &[1; 4000]).unwrap();
            number += 1;
        }
    };
    let core = engine.core.clone();
    let log = core.partitions[0].store();
    other(&mut session, &|| log.place(core.partitions[0].saved().store[0]) > log.end() / 2);
    (1..=15).for_each(|number| put(&mut session, &number.to_string(), b"v").unwrap());
    other(&mut session, &|| log.is_evicting());
    engine.resize(8 * MIB).unwrap();
    let before = engine.stats().index_evictions;
    put(&mut session, "16", b"v").unwrap();
    assert!(get(&mut session, "1").is_none() && get(&mut session, "2").is_some());
    assert_eq!(engine.stats().index_evictions, before + 1);
    drop((session, core));
    check(&engine);
}

/// What lies at the new end of the log is cut off in the middle. When the log is longer again its other half is something else.
#[test]
fn less_memory_and_then_more_leaves_every_item_whole() {
    for length in [100, 300, 777] {
        let engine = MicaEngine::open(options(8 * MIB)).unwrap();
        let mut session = engine.session();
        for round in 0..12 {
            engine.resize([5, 7, 4, 3][round % 4] * MIB).unwrap();
            settle(&mut engine.session(), NOW);
            check(&engine);
            engine.resize(8 * MIB).unwrap();
            let count = (3000 + 1771 * round) * 300 / length;
            fill(&mut session, &format!("key{round}-"), count, length);
            check(&engine);
            for number in 0..count {
                let value = get(&mut session, &format!("key{round}-{number}"));
                assert!(value.is_none_or(|value| value == vec![1; length]));
            }
        }
    }
}

/// Gives more memory when the first item is evicted.
#[derive(Debug)]
struct Generous(MicaEngine, usize);

impl EvictionWatcher for Generous {
    fn watches(&self) -> Option<Seconds> {
        Some(NOW)
    }

    fn evicted(&self, _key: &[u8], _meta: &Meta, _now: Seconds) {
        self.0.resize(self.1).unwrap();
    }
}

#[test]
fn memory_that_comes_while_memory_is_given_back_costs_no_items() {
    // Items of many buckets, or of so few that they are moved at once.
    for (length, count) in [(300, 30_000), (180_000, 60)] {
        let options = MicaOptions {
            engine: EngineOptions { max_item_size: 512 << 10, ..options(8 * MIB).engine },
            partitions: 1,
            policy: LogPolicy::Fifo,
            ..options(8 * MIB)
        };
        let engine = MicaEngine::open(options).unwrap();
        let mut session = engine.session();
        fill(&mut session, "key", count, length);
        engine.watch_evictions(Arc::new(Generous(engine.clone(), 32 * MIB)));
        for _ in 0..3 {
            engine.resize(4 * MIB).unwrap();
            settle(&mut engine.session(), NOW);
            check(&engine);
            fill(&mut session, "more", count / 3, length);
            check(&engine);
        }
        let stats = engine.stats();
        assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
    }
}

/// An index takes what it has for good.
#[test]
fn memory_that_indexes_take_cannot_be_given_back() {
    let engine = MicaEngine::open(options(64 * MIB)).unwrap();
    let mut session = engine.session();
    fill(&mut session, "k", 1_200_000, 2);
    let stats = engine.stats();
    assert!(stats.index_bytes > 8 * MIB as u64, "{stats:?}");
    drop(session);
    let mut memory = 64 * MIB;
    while engine.resize(memory).is_ok() {
        settle(&mut engine.session(), NOW);
        let stats = engine.stats();
        assert!(stats.memory_used <= memory as u64, "{stats:?}");
        let mut session = engine.session();
        for number in 0..100 {
            let key = format!("kept{number}");
            put(&mut session, &key, &[3; 1000]).unwrap();
            assert!(get(&mut session, &key).is_some());
        }
        memory -= MIB;
    }
    let Err(ResizeError::TooSmall { least, .. }) = engine.resize(memory) else { panic!("{memory}") };
    engine.resize(least).unwrap();
    settle(&mut engine.session(), NOW);
    check(&engine);
}

#[test]
fn an_engine_that_can_be_opened_can_store_items_of_every_size() {
    for memory in [2 * MIB, 3 * MIB, 17 * MIB, 64 * MIB, 65 * MIB, 100 * MIB, 520 * MIB] {
        for partitions in [1, 16, 64, 256] {
            for max_item_size in [1 << 10, 64 << 10, MIB] {
                let options = MicaOptions {
                    engine: EngineOptions { memory, max_item_size, ..EngineOptions::default() },
                    partitions,
                    ..MicaOptions::default()
                };
                let Ok(engine) = MicaEngine::open(options) else { continue };
                let mut session = engine.session();
                for number in 0..40 {
                    let length = if number % 2 == 0 { 10 } else { (max_item_size - 100).min(memory / 8) };
                    let stored = put(&mut session, &format!("key{number}"), &vec![1; length]);
                    assert_eq!(stored, Ok(()), "{length} bytes in {memory}, {partitions} partitions");
                }
                let stats = engine.stats();
                assert!(stats.memory_used <= stats.memory_limit, "{partitions}: {stats:?}");
            }
        }
    }
}

#[test]
fn the_largest_value_can_arrive_however_full_memory_is() {
    for max_item_size in [MIB, 3 * MIB, 5 * MIB] {
        let options = MicaOptions {
            engine: EngineOptions { max_item_size, ..options(12 * MIB).engine },
            ..options(12 * MIB)
        };
        let engine: MicaEngine = MicaEngine::open(options).unwrap();
        let mut session = engine.session();
        let spec = |value_len| ItemSpec {
            value_len,
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            old: OldItem::MayGo,
        };
        let fits = (1..=max_item_size / 1000).rev().find(|kib| session.fits(4, &spec(kib * 1000))).unwrap();
        fill(&mut session, "short", 100_000, 300);
        for number in 0..20 {
            let key = format!("long{}", number % 2);
            let stored = store(&mut session, key.as_bytes(), &vec![7; fits * 1000], 0, Expiry::Never, NOW);
            assert_eq!(stored, Ok(()), "{fits} kB of {max_item_size}, for the {number}th time");
            session.quiesce();
        }
    }
}

#[test]
fn values_that_arrive_keep_within_the_memory() {
    let options = MicaOptions {
        engine: EngineOptions { max_item_size: MIB, ..options(32 * MIB).engine },
        ..options(32 * MIB)
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    let within = |when: &str| {
        let stats = engine.stats();
        assert!(stats.memory_used <= stats.memory_limit, "{when}: {stats:?}");
    };
    let (mut pending_values, mut refused) = (Vec::new(), 0);
    for number in 0..60 {
        let room =
            ItemSpec { value_len: 900_000, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
        let mut pending = session.begin_value(format!("long{number}").as_bytes(), room).unwrap();
        let arrived = (0..9).all(|_| session.extend(&mut pending, &[7; 100_000]).is_ok());
        refused += u32::from(!arrived);
        pending_values.extend(arrived.then_some(pending));
        within("arriving");
        fill(&mut session, &format!("key{number}-"), 2000, 300);
        within("filled");
        if number % 16 == 15 {
            pending_values.truncate(pending_values.len() / 2);
        }
        session.maintain(NOW, guira_contract::Pace::Idle, 1000);
    }
    assert!(refused > 0 && engine.stats().evictions > 0);
    drop((pending_values, session));
    settle(&mut engine.session(), NOW);
    fill(&mut engine.session(), "again", 100_000, 300);
    within("at the end");
    assert!(engine.stats().memory_used > 29 * MIB as u64, "all of it is used again: {:?}", engine.stats());
    check(&engine);
}

#[test]
fn nothing_is_lost_while_memory_is_not_full() {
    let engine = MicaEngine::open(options(64 * MIB)).unwrap();
    let mut session = engine.session();
    for (round, name) in ["key", "other"].into_iter().enumerate() {
        fill(&mut session, name, 250_000, 60);
        let stats = engine.stats();
        assert!(stats.index_growths > 10, "{stats:?}");
        assert_eq!((stats.items, stats.evictions), (250_000, 0), "round {round}");
        assert_eq!(newest(&mut session, name, 250_000, 250_000), 250_000);
        engine.flush(NOW, NOW);
        settle(&mut session, NOW);
    }
    drop(session);
    check(&engine);
}

/// An index with more than half of the memory could not be restored.
#[test]
fn spare_buckets_leave_the_index_at_most_half_of_the_memory() {
    let engine = MicaEngine::open(MicaOptions { partitions: 1, ..options(64 * MIB) }).unwrap();
    let mut session = engine.session();
    fill(&mut session, "key", 50_000, 8);
    let least = 2 * usize::try_from(engine.stats().index_bytes).unwrap();
    let sizes = (least..=64 * MIB).step_by(64 << 10);
    let memory = sizes.into_iter().find(|memory| engine.resize(*memory).is_ok()).unwrap();
    for round in 0..20 {
        fill(&mut session, &format!("round{round}-"), 20_000, 8);
        assert!(engine.stats().index_bytes <= memory as u64 / 2, "round {round}: {:?}", engine.stats());
        engine.resize(memory).unwrap();
    }
    drop(session);
    check(&engine);
}

/// With hashes that clients choose, all keys can have one bucket.
#[test]
fn a_chain_has_an_end() {
    // The second thousand is spread over the second half of all buckets.
    let hashing = Hashing::Fixed(|key| match std::str::from_utf8(key).unwrap().parse().unwrap() {
        number @ ..=1000 => number,
        number => number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63,
    });
    let engine = MicaEngine::open(MicaOptions {
        engine: EngineOptions { hashing, ..options(64 * MIB).engine },
        partitions: 1,
        ..options(64 * MIB)
    })
    .unwrap();
    let mut session = engine.session();
    (1..=2000).rev().for_each(|number| put(&mut session, &number.to_string(), b"v").unwrap());
    let there = (1..=1000).filter(|number| get(&mut session, &number.to_string()).is_some()).count();
    assert_eq!(there, 17 * 15, "a bucket and sixteen spare ones have fifteen slots each");
    let stats = engine.stats();
    assert_eq!((stats.items, stats.index_evictions), (there as u64 + 1000, 1000 - there as u64));
    drop(session);
    check(&engine);
}

/// An item that had expired is counted as such, even if its own room is taken for the one that takes its place.
#[test]
fn what_became_of_items_adds_up() {
    let engine = MicaEngine::open(options(2 * MIB)).unwrap();
    let mut session = engine.session();
    let mut removed = 0;
    for number in 0..100_000_u32 {
        let key = format!("key{}", number % 9000);
        let length = 60 + (number / 9000 % 3) as usize * 100;
        let now = Seconds(1000 + number / 100);
        let expiry = if number % 3 == 0 { Expiry::At(Seconds(now.0 + 50)) } else { Expiry::Never };
        let (key, value) = (key_of(&session, &key), vec![1; length]);
        let new =
            NewItem { flags: 0, expiry, cas: None, state: ItemState::NONE, value: Value::Bytes(&value) };
        let mut is_there = false;
        let decide = |item: Option<&dyn ItemView>| {
            is_there = item.is_some();
            Decision::Put(new)
        };
        session.update(key, Default::default(), now, Provision::None, decide).unwrap();
        removed += u64::from(is_there);
    }
    let stats = engine.stats();
    assert_eq!(stats.items + stats.evictions + stats.reclaimed + removed, 100_000, "{stats:?}");
    drop(session);
    check(&engine);
}
