//! Flushes in awkward moments.

use super::open;
use guira_contract::suite::{pin_of, store, value_of};
use guira_contract::{
    Amendment, Control, Decision, Digits, Engine, Expiry, ItemState, ItemView, Key, NewItem, Pace, Provision,
    Recency, Session, Value, ValuePin,
};
use guira_items::hooks::{self, Window};
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

#[test]
fn an_item_that_is_pinned_in_a_draining_page_stays_flushed() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    let value = vec![7; 100_000];
    let mut pins = Vec::new();
    for i in 0..8 {
        let name = format!("long-{i}").into_bytes();
        store(&mut session, &name, &value, 0, Expiry::Never, NOW).unwrap();
        pins.extend(pin_of(&mut session, &name, Recency::Bump, NOW));
    }
    // Small items take over, so that the pages of the long ones are drained.
    for i in 0..300_000 {
        store(&mut session, format!("small-{i}").as_bytes(), &[1; 40], 0, Expiry::Never, NOW)
            .unwrap_or_else(|_| panic!("{i}: {:?}", engine.stats()));
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
    for round in 0..20 {
        engine.flush(NOW, NOW);
        store(&mut session, format!("round-{round}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        for _ in 0..1000 {
            session.quiesce();
            session.maintain(NOW, Pace::Idle, 256);
        }
        for i in 0..8 {
            assert!(value_of(&mut session, format!("long-{i}").as_bytes(), NOW).is_none(), "round {round}");
        }
    }
    assert_eq!(pins.len(), 8);
    assert!(pins.iter().all(|pin| pin.piece(0)[..100] == value[..100]), "what is pinned is not touched");
    drop(pins);
    let before = engine.stats();
    assert_eq!(before.items, 1);
}

/// What a command makes of an item that it has judged to be alive.
type Change = fn(&dyn ItemView) -> Decision<'static>;

fn put(item: &dyn ItemView, value: Value<'static>) -> Decision<'static> {
    let meta = item.meta();
    Decision::Put(NewItem {
        flags: meta.flags,
        expiry: meta.expiry,
        cas: None,
        state: ItemState::NONE,
        value,
    })
}

const CHANGES: [(&str, Change); 5] = [
    ("append", |item| put(item, Value::Joined { before: b"", after: b"0" })),
    ("replace", |item| put(item, Value::Bytes(b"new"))),
    ("incr to more digits", |item| put(item, Value::Digits(Digits::of(100)))),
    ("incr", |_| Decision::Amend(Amendment { overwrite: Some(Digits::of(43)), ..Amendment::default() })),
    ("touch", |_| {
        let expiry = Some(Expiry::At(Seconds(5000)));
        Decision::Amend(Amendment { expiry, ..Amendment::default() })
    }),
];

/// A flush between the moment when an item is judged to be alive and the one when what is made of it is put in its place.
#[test]
fn what_is_made_of_an_item_is_flushed_with_it() {
    for (name, change) in CHANGES {
        // An attempt that finds it needs memory judges the item again in the next.
        for attempt in 1..=3 {
            let engine = open(8 << 20);
            let mut session = engine.session();
            store(&mut session, b"k", b"42", 0, Expiry::Never, NOW).unwrap();
            let (other, judged) = (engine.clone(), Rc::new(Cell::new(0)));
            let seen = judged.clone();
            let guard = hooks::set(move |window| {
                seen.set(seen.get() + u32::from(window == Window::Judged));
                if window == Window::Judged && seen.get() == attempt {
                    let other = other.clone();
                    guira_sync::thread::spawn(move || other.flush(NOW, NOW)).join().unwrap();
                }
            });
            let key = Key { bytes: b"k", hash: session.hash(b"k") };
            let keep = |item: Option<&dyn ItemView>| item.map_or(Decision::Keep, change);
            session.update(key, Default::default(), NOW, Provision::None, keep).unwrap();
            drop(guard);
            let is_flushed = judged.get() >= attempt;
            assert!(is_flushed || attempt > 1);
            let is_there = value_of(&mut session, b"k", NOW).is_some();
            assert_eq!(is_there, !is_flushed, "{name}, attempt {attempt}");
        }
    }
}

/// A command that began before a flush comes to its key when the flush is over, and another has stored the key anew.
#[test]
fn what_is_stored_after_a_flush_stays_whoever_began_before_it() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    store(&mut session, b"k", b"old", 0, Expiry::Never, NOW).unwrap();
    let (other, mut is_done) = (engine.clone(), false);
    let guard = hooks::set(move |window| {
        if window == Window::Locking && !std::mem::replace(&mut is_done, true) {
            let other = other.clone();
            let anew = move || {
                other.flush(NOW, NOW);
                store(&mut other.session(), b"k", b"new", 0, Expiry::Never, NOW).unwrap();
            };
            guira_sync::thread::spawn(anew).join().unwrap();
        }
    });
    let key = Key { bytes: b"k", hash: session.hash(b"k") };
    let mut was_there = false;
    let look = |item: Option<&dyn ItemView>| {
        was_there = item.is_some();
        Decision::Keep
    };
    session.update(key, Default::default(), NOW, Provision::None, look).unwrap();
    drop(guard);
    assert!(was_there);
    assert_eq!(value_of(&mut session, b"k", NOW).unwrap().value, b"new");
}
