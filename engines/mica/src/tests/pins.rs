//! Long values that are being sent, while the log comes by again and again.

use super::ACCESSES;
use super::tools::{NOW, check, get, put};
use crate::{LogPolicy, MicaEngine, MicaOptions, MicaPin, MicaSession};
use guira_contract::suite::{pin_of, remove, settle};
use guira_contract::{
    Access, Amendment, Control, Decision, Digits, Engine, Provision, Recency, Session, StoreError, ValuePin,
};
use guira_items::EngineOptions;

const LONG: usize = 40_000;

fn options() -> MicaOptions {
    let (memory, reserve) = (2 << 20, 8 << 20);
    MicaOptions {
        engine: EngineOptions { memory, reserve, max_item_size: 64 << 10, ..EngineOptions::default() },
        partitions: 1,
        ..MicaOptions::default()
    }
}

fn long(number: usize) -> Vec<u8> {
    (0..LONG).map(|at| (at * (number + 1) % 251) as u8).collect()
}

fn pinned(session: &mut MicaSession, number: usize) -> MicaPin {
    let key = format!("long{number}");
    put(session, &key, &long(number)).unwrap();
    pin_of(session, key.as_bytes(), Recency::Leave, NOW).unwrap()
}

fn holds(pin: &MicaPin, number: usize) -> bool {
    pin.value_len() == LONG && pin.piece(0) == long(number) && pin.piece(7) == &long(number)[7..]
}

/// Stores so much that the log goes around some times.
fn fill(session: &mut MicaSession, name: &str) {
    for number in 0..20_000 {
        put(session, &format!("{name}{}", number % 9000), &[number as u8; 500]).unwrap();
    }
}

#[test]
fn a_pinned_value_stays_as_it_is_whatever_becomes_of_its_item() {
    for access in ACCESSES {
        for policy in [LogPolicy::Fifo, LogPolicy::ApproxLru, LogPolicy::Lru] {
            let engine = MicaEngine::open(MicaOptions { access, policy, ..options() }).unwrap();
            let mut session = engine.session();
            fill(&mut session, "first");
            let pins: Vec<_> = (0..8).map(|number| pinned(&mut session, number)).collect();
            let all_hold = |when: &str| {
                let broken = (0..8).find(|number| !holds(&pins[*number], *number));
                assert_eq!(broken, None, "{access:?}, {policy:?}, {when}");
            };
            put(&mut session, "long0", &vec![0; LONG]).unwrap();
            put(&mut session, "long1", b"short").unwrap();
            remove(&mut session, b"long2", NOW);
            let amended = guira_contract::Key { bytes: b"long3", hash: session.hash(b"long3") };
            let amendment = || Amendment { overwrite: Some(Digits::of(7)), ..Amendment::default() };
            session
                .update(amended, Default::default(), NOW, Provision::None, |_| Decision::Amend(amendment()))
                .unwrap();
            all_hold("changed");
            assert_eq!(get(&mut session, "long3").unwrap()[..2], *b"7 ");
            fill(&mut session, "second");
            all_hold("evicted");
            engine.flush(NOW, NOW);
            fill(&mut session, "third");
            all_hold("flushed");
            drop(session);
            check(&engine);
            engine.resize(8 << 20).unwrap();
            settle(&mut engine.session(), NOW);
            fill(&mut engine.session(), "fourth");
            all_hold("more memory");
            engine.resize(2 << 20).unwrap();
            settle(&mut engine.session(), NOW);
            fill(&mut engine.session(), "fifth");
            all_hold("less memory");
            drop(pins);
            settle(&mut engine.session(), NOW);
            let stats = engine.stats();
            assert!(stats.memory_used <= 2 << 20, "{stats:?}");
            check(&engine);
        }
    }
}

/// The flush takes the item without looking at the log. When the log has gone around what is pinned, it must not find the item there again.
#[test]
fn an_item_that_was_flushed_while_it_was_pinned_is_counted_once() {
    let engine = MicaEngine::open(options()).unwrap();
    let mut session = engine.session();
    let pin = pinned(&mut session, 1);
    engine.flush(NOW, NOW);
    for round in 0..4 {
        fill(&mut session, "other");
        check(&engine);
        assert!(holds(&pin, 1) && get(&mut session, "long1").is_none(), "round {round}");
    }
}

#[test]
fn the_room_of_what_was_pinned_is_used_again() {
    let engine = MicaEngine::open(options()).unwrap();
    let mut session = engine.session();
    fill(&mut session, "first");
    let items = engine.stats().items;
    let pins: Vec<_> = (0..25).map(|number| pinned(&mut session, number)).collect();
    (0..25).for_each(|number| remove(&mut session, format!("long{number}").as_bytes(), NOW));
    fill(&mut session, "second");
    let fewer = engine.stats().items;
    assert!(fewer < items * 2 / 3, "{fewer} of {items}");
    drop(pins);
    fill(&mut session, "third");
    let again = engine.stats().items;
    assert!(again > items * 49 / 50, "{again} of {items}");
    drop(session);
    check(&engine);
}

#[test]
fn if_everything_is_pinned_stores_are_refused() {
    for access in ACCESSES {
        let engine = MicaEngine::open(MicaOptions { access, ..options() }).unwrap();
        let mut session = engine.session();
        let mut pins = Vec::new();
        loop {
            let number = pins.len();
            let key = format!("long{number}");
            match put(&mut session, &key, &long(number)) {
                Ok(()) => pins.push(pin_of(&mut session, key.as_bytes(), Recency::Leave, NOW).unwrap()),
                Err(refusal) => {
                    assert_eq!(refusal, StoreError::NoMemory);
                    break;
                }
            }
        }
        assert!(pins.len() > 40, "{access:?}: {}", pins.len());
        for number in 0..200 {
            let _ = put(&mut session, &format!("long{number}"), &[1; 30_000]);
        }
        assert!((0..pins.len()).all(|number| holds(&pins[number], number)), "{access:?}");
        drop(session);
        check(&engine);
        drop(pins);
        fill(&mut engine.session(), "later");
        check(&engine);
    }
}

/// An item makes room for the one that takes its place, which is refused all the same: then it is gone, and counted as evicted.
#[test]
fn an_item_whose_successor_is_refused_is_there_or_counted() {
    let engine = MicaEngine::open(MicaOptions { access: Access::Crcw, ..options() }).unwrap();
    let mut session = engine.session();
    // Between the pinned values lie others.
    let pins: Vec<_> = (0..46)
        .map(|number| {
            put(&mut session, &format!("between{number}"), &[1; 2000]).unwrap();
            pinned(&mut session, number)
        })
        .collect();
    assert_eq!(engine.stats().evictions, 0);
    // Behind the last of them the log has room for one of these, not for two.
    while engine.stats().evictions == 0 {
        let number = engine.stats().total_items;
        put(&mut session, &format!("short{number}"), &[1; 2000]).unwrap();
    }
    assert_eq!(put(&mut session, "between20", &[2; 60_000]), Err(StoreError::NoMemory));
    let left = (0..46).filter(|number| get(&mut session, &format!("between{number}")).is_some()).count();
    assert_eq!(left, 0, "all of them have made room");
    drop(session);
    check(&engine);
    drop(pins);
    fill(&mut engine.session(), "later");
    check(&engine);
}
