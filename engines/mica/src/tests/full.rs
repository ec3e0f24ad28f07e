//! A partition that is full of items that have expired: a set that finds no room removes them, and with them what it had found before.

use super::tools::NOW;
use crate::recover::recover;
use crate::{Fits, MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{store, value_of};
use guira_contract::{
    Control, Decision, Engine, Expiry, ItemSpec, Key, NewItem, Pace, Provision, Session, StoreError, Value,
};
use guira_items::EngineOptions;
use guira_sync::clock::Seconds;

/// Everything that was stored to expire has expired by then.
const LATER: Seconds = Seconds(2000);

/// A key that was not among those that filled the store.
const NEW: usize = 10_000_000;

fn open(memory: usize) -> MicaEngine<Fits> {
    let options = MicaOptions {
        engine: EngineOptions { memory, max_item_size: 64 << 10, ..EngineOptions::default() },
        partitions: 1,
        ..MicaOptions::default()
    };
    MicaEngine::<Fits>::open(options).unwrap()
}

fn name(number: usize) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

fn value(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + number) as u8).collect()
}

/// What is counted of each partition is what its chunks hold.
fn check(engine: &MicaEngine<Fits>) {
    for partition in &engine.core.partitions {
        let core = &engine.core;
        assert_eq!(recover(core.shell.region(), &core.plan, partition), Some(partition.usage()));
    }
}

/// Stores items that expire at [`LATER`] until the store is full. Returns how many keys were tried.
fn fill(engine: &MicaEngine<Fits>) -> usize {
    let mut session = engine.session();
    let mut refused = 0;
    for number in 0.. {
        refused += usize::from(put(&mut session, number, 100, Expiry::At(LATER), NOW).is_err());
        if refused == 200 {
            return number;
        }
        if number % 32 == 0 {
            session.maintain(NOW, Pace::Idle, 64);
            session.quiesce();
        }
    }
    unreachable!()
}

fn put(
    session: &mut MicaSession<Fits>,
    number: usize,
    length: usize,
    expiry: Expiry,
    now: Seconds,
) -> Result<(), StoreError> {
    store(session, &name(number), &value(number, length), 0, expiry, now)
}

fn has(session: &mut MicaSession<Fits>, number: usize, length: usize) -> bool {
    value_of(session, &name(number), LATER).is_some_and(|item| item.value == value(number, length))
}

#[test]
fn an_item_that_has_expired_is_stored_anew_under_its_key() {
    let engine = open(4 << 20);
    let count = fill(&engine);
    let mut session = engine.session();
    let mut stored: Vec<usize> = Vec::new();
    for number in 0..count {
        if put(&mut session, number, 300, Expiry::Never, LATER).is_ok() {
            stored.push(number);
        }
        if number % 50 == 0 || number < 50 {
            let wrong: Vec<_> = stored.iter().filter(|stored| !has(&mut session, **stored, 300)).collect();
            assert!(wrong.is_empty(), "after {number}, of {} stored: lost or wrong {wrong:?}", stored.len());
        }
    }
    drop(session);
    check(&engine);
}

#[test]
fn new_items_in_place_of_expired_ones_are_all_there() {
    let engine = open(4 << 20);
    let count = fill(&engine);
    let mut session = engine.session();
    let keys = NEW..NEW + count;
    let stored: Vec<usize> =
        keys.filter(|key| put(&mut session, *key, 300, Expiry::Never, LATER).is_ok()).collect();
    let lost = stored.iter().filter(|key| !has(&mut session, **key, 300)).count();
    assert_eq!(lost, 0, "of {} stored", stored.len());
    drop(session);
    check(&engine);
}

#[test]
fn memory_is_made_less_while_much_has_expired() {
    let limits = MicaOptions {
        engine: EngineOptions { memory: 8 << 20, reserve: 8 << 20, ..EngineOptions::default() },
        ..MicaOptions::default()
    };
    let options = MicaOptions {
        engine: EngineOptions { max_item_size: 64 << 10, ..limits.engine },
        partitions: 1,
        ..limits
    };
    let engine = MicaEngine::<Fits>::open(options).unwrap();
    let mut session = engine.session();
    let mut stored = Vec::new();
    for number in 0..20_000 {
        let expiry = if number % 2 == 0 { Expiry::At(LATER) } else { Expiry::Never };
        let length = 100 + number % 50;
        if put(&mut session, number, length, expiry, NOW).is_ok() && expiry == Expiry::Never {
            stored.push(number);
        }
    }
    let mut memory = 8 << 20;
    while memory > 1 << 20 && engine.resize(memory - (64 << 10)).is_ok() {
        memory -= 64 << 10;
    }
    assert!(memory < 6 << 20, "{memory}");
    for _ in 0..20_000 {
        session.maintain(LATER, Pace::Busy, 64);
        session.quiesce();
    }
    let lost = stored.iter().filter(|key| !has(&mut session, **key, 100 + **key % 50)).count();
    assert_eq!(lost, 0, "of {}", stored.len());
    drop(session);
    check(&engine);
}

/// The item found first may itself be what the search for room removes.
#[test]
fn one_key_of_many_stores_is_stored_anew() {
    for trial in 0..64 {
        let engine = open(2 << 20);
        let key = trial * 131 % fill(&engine);
        let mut session = engine.session();
        let is_stored = put(&mut session, key, 300, Expiry::Never, LATER).is_ok();
        assert_eq!(has(&mut session, key, 300), is_stored, "trial {trial}");
        drop(session);
        check(&engine);
    }
}

/// The slot found first may be in a bucket that the search for room gives back.
#[test]
fn a_new_key_is_found_in_each_of_many_stores() {
    for trial in 0..300 {
        let engine = open(2 << 20);
        fill(&engine);
        let mut session = engine.session();
        let is_stored = put(&mut session, NEW + trial, 300, Expiry::Never, LATER).is_ok();
        assert_eq!(has(&mut session, NEW + trial, 300), is_stored, "trial {trial}");
        drop(session);
        check(&engine);
    }
}

/// Stores a small item under a key whose hash a client has made up.
fn put_with_hash(session: &mut MicaSession<Fits>, key: &[u8], hash: u64) -> Result<(), StoreError> {
    let key = Key { bytes: key, hash: guira_contract::KeyHash(hash) };
    let value = Value::Bytes(b"made up");
    let new = NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: Default::default(), value };
    let guess = session.prefetch_item(key.hash);
    session.update(key, guess, NOW, Provision::Item(ItemSpec::of(&new, 7)), |_| Decision::Put(new))
}

#[test]
fn made_up_hashes_take_their_own_slots_and_nobody_elses() {
    let engine = open(64 << 20);
    let mut session = engine.session();
    let honest = 200_000;
    for number in 0..honest {
        put(&mut session, number, 20, Expiry::Never, NOW).unwrap();
        session.maintain(NOW, Pace::Busy, 64);
    }
    let hash = session.hash(&name(honest)).0;
    let stored = (0..100_000).filter(|number| put_with_hash(&mut session, &name(NEW + number), hash).is_ok());
    let stored = stored.count();
    assert!((16..1000).contains(&stored), "{stored} items in one bucket");
    // All others are there, and find room, although one in ten buckets goes on in a spare one.
    let refused = (honest..2 * honest).filter(|number| {
        session.maintain(NOW, Pace::Busy, 64);
        put(&mut session, *number, 20, Expiry::Never, NOW).is_err()
    });
    assert!(refused.count() < 16, "no more than those of that bucket");
    let mut lost = (0..honest).filter(|number| !has(&mut session, *number, 20));
    assert_eq!(lost.next(), None);
    drop(session);
    check(&engine);
}
