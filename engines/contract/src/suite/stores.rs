//! What a store does that a cache does not: it keeps everything, and refuses what there is no room for.

use super::sink::{remove, store, value_of};
use crate::{Amendment, Decision, Expiry, ItemState, ItemView, NewItem, Provision, Value};
use crate::{Engine, Key, Pace, Session, StoreError};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Runs all of them on engines of their own.
pub fn stores<E: Engine>(open: &impl Fn(usize) -> E) {
    let cases: [fn(E); 5] = [
        a_full_store_refuses_and_keeps_everything,
        what_is_removed_makes_room_for_other_sizes,
        a_change_that_is_refused_leaves_the_item,
        what_has_expired_makes_room,
        memory_is_not_made_less_than_what_is_stored_takes,
    ];
    for case in cases {
        case(open(16 << 20));
    }
}

fn name(i: u32) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    vec![i as u8; 20 + (i.wrapping_mul(2_654_435_761) >> 23) as usize % 300]
}

/// Stores items until several in a row were refused. Returns those that were stored.
fn fill<S: Session>(session: &mut S, expiry: Expiry, now: Seconds) -> Vec<u32> {
    let (mut stored, mut refused) = (Vec::new(), 0);
    for i in 0..1_000_000 {
        match store(session, &name(i), &value(i), 0, expiry, now) {
            Ok(()) => stored.push(i),
            Err(refusal) => {
                assert_eq!(refusal, StoreError::NoMemory);
                refused += 1;
            }
        }
        if i % 32 == 0 {
            session.maintain(now, Pace::Idle, 64);
            session.quiesce();
        }
        if refused == 1000 {
            return stored;
        }
    }
    panic!("the store is never full");
}

fn a_full_store_refuses_and_keeps_everything<E: Engine>(engine: E) {
    let mut session = engine.session();
    let stored = fill(&mut session, Expiry::Never, NOW);
    assert!(stored.len() > 40_000, "{}", stored.len());
    for i in &stored {
        let found = value_of(&mut session, &name(*i), NOW);
        assert!(found.is_some_and(|item| item.value == value(*i)), "{i} is lost");
    }
    let stats = engine.stats();
    assert_eq!((stats.items, stats.evictions), (stored.len() as u64, 0));
    assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
}

fn what_is_removed_makes_room_for_other_sizes<E: Engine>(engine: E) {
    let mut session = engine.session();
    let stored = fill(&mut session, Expiry::Never, NOW);
    stored.iter().filter(|i| **i % 4 != 0).for_each(|i| remove(&mut session, &name(*i), NOW));
    // What lies between items that stay is not always of the right size.
    let again = fill(&mut session, Expiry::Never, NOW).len();
    assert!(again * 100 >= stored.len() * 97, "{again} of {} fit again", stored.len());
    stored.iter().for_each(|i| remove(&mut session, &name(*i), NOW));
    session.quiesce();
    assert_eq!((engine.stats().items, engine.stats().bytes), (0, 0));
    let large = vec![7; 200_000];
    for i in 0..40 {
        store(&mut session, format!("large-{i}").as_bytes(), &large, 0, Expiry::Never, NOW)
            .unwrap_or_else(|refusal| panic!("{i} of 200 kB was refused: {refusal}"));
    }
}

fn a_change_that_is_refused_leaves_the_item<E: Engine>(engine: E) {
    let mut session = engine.session();
    let stored = fill(&mut session, Expiry::Never, NOW);
    let mut refused = 0;
    for i in stored.iter().take(50) {
        let bytes = name(*i);
        let long = vec![b'+'; 12_000];
        let kept = match store(&mut session, &bytes, &long, 0, Expiry::Never, NOW) {
            Ok(()) => long,
            Err(_) => {
                refused += 1;
                value(*i)
            }
        };
        let key = Key { bytes: &bytes, hash: session.hash(&bytes) };
        let more = vec![b'-'; 12_000];
        let join = |_: Option<&dyn ItemView>| {
            let value = Value::Joined { before: &[], after: &more };
            Decision::Put(NewItem {
                flags: 0,
                expiry: Expiry::Never,
                cas: None,
                state: ItemState::NONE,
                value,
            })
        };
        let expected = match session.update(key, Default::default(), NOW, Provision::None, join) {
            Ok(()) => [kept, more.clone()].concat(),
            Err(_) => kept,
        };
        assert!(value_of(&mut session, &bytes, NOW).is_some_and(|item| item.value == expected), "{i}");
    }
    assert!(refused > 40, "{refused}");
    for i in stored.iter().skip(50) {
        assert!(value_of(&mut session, &name(*i), NOW).is_some_and(|item| item.value == value(*i)), "{i}");
    }
}

fn what_has_expired_makes_room<E: Engine>(engine: E) {
    let mut session = engine.session();
    let before = fill(&mut session, Expiry::At(Seconds(2000)), NOW).len();
    // Only a store that needs the room looks for it.
    let stored = (0..before as u32).filter(|i| {
        store(&mut session, format!("new-{i:08}").as_bytes(), &value(*i), 0, Expiry::Never, Seconds(2000))
            .is_ok()
    });
    let stored = stored.count();
    assert!(stored * 10 > before * 9, "{stored} of {before}");
}

fn memory_is_not_made_less_than_what_is_stored_takes<E: Engine>(engine: E) {
    let mut session = engine.session();
    let stored = fill(&mut session, Expiry::Never, NOW);
    let limit = engine.stats().memory_limit;
    assert!(engine.resize(limit as usize / 2).is_err());
    assert_eq!(engine.stats().memory_limit, limit);
    for i in stored.iter().filter(|i| **i % 3 != 0) {
        remove(&mut session, &name(*i), NOW);
    }
    engine.resize(limit as usize * 3 / 4).unwrap();
    for _ in 0..100_000 {
        session.maintain(NOW, Pace::Busy, 64);
        session.quiesce();
    }
    assert!(engine.stats().memory_used <= limit * 3 / 4, "{:?}", engine.stats());
    for i in stored.iter().filter(|i| **i % 3 == 0) {
        assert!(value_of(&mut session, &name(*i), NOW).is_some_and(|item| item.value == value(*i)), "{i}");
    }
    engine.resize(limit as usize).unwrap();
    assert!(fill(&mut session, Expiry::Never, NOW).len() * 20 > stored.len() * 19);
}

/// Fills engines that evict nothing with items of each length: reads ask for a cas unique, or give another time to expire, and that must neither fail nor
/// cost the item.
///
/// # Panics
/// If it does.
pub fn full_stores_give_items_a_cas_unique_and_a_time_where_they_lie<E: Engine>(open: &impl Fn(usize) -> E) {
    for length in [0, 100, 900, 5_000, 40_000] {
        let engine = open(8 << 20);
        let mut session = engine.session();
        let value = vec![7; length];
        let mut stored = 0;
        while store(&mut session, &name(stored), &value, 0, Expiry::Never, NOW).is_ok() {
            stored += 1;
            session.quiesce();
        }
        for number in 0..stored.min(2_000) {
            let bytes = name(number);
            let key = Key { bytes: &bytes, hash: session.hash(&bytes) };
            let (cas, expiry) = (Some(5000 + u64::from(number)), Some(Expiry::At(Seconds(2000))));
            let change = || Amendment { cas, expiry, ..Amendment::default() };
            session
                .update(key, Default::default(), NOW, Provision::None, |_| Decision::Amend(change()))
                .unwrap();
            let item = value_of(&mut session, &bytes, NOW).unwrap();
            assert_eq!((item.value.len(), item.meta.cas, Some(item.meta.expiry)), (length, cas, expiry));
        }
        assert_eq!(engine.stats().items, u64::from(stored));
    }
}
