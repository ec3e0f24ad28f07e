//! Walks: at rest, and while everything is stored anew.

use super::differential::Random;
use super::sink::{remove, store};
use crate::{Amendment, Decision, Expiry, Provision};
use crate::{Engine, Key, Pace, Session, Walked};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

const NOW: Seconds = Seconds(1000);

/// Everything that a walk shows, and how often.
///
/// # Panics
/// If another walk is under way, or this one loses track.
pub fn walk_all<S: Session>(session: &mut S, now: Seconds) -> HashMap<Vec<u8>, u32> {
    let mut walk = session.begin_walk().expect("no other walk is under way");
    let mut seen = HashMap::new();
    loop {
        let walked =
            session.walk(&mut walk, now, &mut |item| *seen.entry(item.key.to_vec()).or_insert(0) += 1);
        session.quiesce();
        match walked {
            Walked::More => {}
            Walked::Waiting => guira_sync::thread::yield_now(),
            Walked::Done => return seen,
            Walked::Overrun => panic!("the walk has lost track"),
        }
    }
}

fn name(key: usize) -> Vec<u8> {
    format!("walk-{key}").into_bytes()
}

/// Walks over what does not change, and while threads store, touch, give cas uniques and remove.
pub fn walks<E: Engine>(open: &impl Fn(usize) -> E) {
    at_rest(&open(64 << 20));
    for seed in 1..=3 {
        under_load(&open(64 << 20), seed);
    }
}

fn at_rest<E: Engine>(engine: &E) {
    let mut session = engine.session();
    for key in 0..3_000 {
        let length = if key % 100 == 0 { 50_000 } else { key % 500 };
        let expiry = if key % 3 == 0 { Expiry::At(Seconds(NOW.0 + 10)) } else { Expiry::Never };
        store(&mut session, &name(key), &vec![7; length], 5, expiry, NOW).expect("there is memory");
    }
    let seen = walk_all(&mut session, NOW);
    assert_eq!(seen.len(), 3_000);
    assert!(seen.values().all(|times| *times == 1), "each item is shown once");
    let seen = walk_all(&mut session, Seconds(NOW.0 + 10));
    assert_eq!(seen.len(), 2_000, "what has expired is not shown");
    let walk = session.begin_walk();
    assert!(walk.is_some() && session.begin_walk().is_none(), "there is one walk at a time");
    drop(walk);
    let mut metas = Vec::new();
    let mut walk = session.begin_walk().expect("the other is over");
    while session.walk(&mut walk, NOW, &mut |item| metas.push(item.meta)) != Walked::Done {
        session.quiesce();
    }
    assert!(metas.iter().all(|meta| meta.flags == 5 && meta.size > meta.value_len));
    assert!(metas.iter().any(|meta| meta.value_len == 50_000));
    drop(walk);
    engine.flush(NOW, Seconds(NOW.0 + 5));
    assert_eq!(walk_all(&mut session, Seconds(NOW.0 + 4)).len(), 3_000);
    assert_eq!(walk_all(&mut session, Seconds(NOW.0 + 5)).len(), 0, "what was flushed by then is not shown");
}

const KEYS: usize = 4_000;
const WALKS: usize = 15;
/// Keys that come and go.
const GUESTS: u64 = 40_000;

/// Keys that are always there have to be seen by every walk, though all of them are stored anew again and again, and keys that
/// come and go make the table grow.
fn under_load<E: Engine>(engine: &E, seed: u64) {
    let mut session = engine.session();
    for key in 0..KEYS {
        store(&mut session, &name(key), b"first", 0, Expiry::Never, NOW).expect("there is memory");
    }
    let over = AtomicBool::new(false);
    guira_sync::thread::scope(|scope| {
        for thread in 0..2 {
            let (session, over) = (engine.session(), &over);
            scope.spawn(move || disturb(session, seed * 10 + thread, over));
        }
        for round in 0..WALKS {
            let seen = walk_all(&mut session, NOW);
            let missed = (0..KEYS).find(|key| !seen.contains_key(&name(*key)));
            if missed.is_some() {
                over.store(true, Ordering::SeqCst);
            }
            assert_eq!(missed, None, "seed {seed}, walk {round}: a key that was there was not shown");
        }
        over.store(true, Ordering::SeqCst);
    });
}

fn disturb<S: Session>(mut session: S, seed: u64, over: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut guest = 0;
    while !over.load(Ordering::SeqCst) {
        let bytes = name(random.below(KEYS as u64) as usize);
        match random.below(4) {
            0 => {
                let key = Key { bytes: &bytes, hash: session.hash(&bytes) };
                // An item gets another place when it gets a field that it did not have.
                let cas = Some(session.next_cas());
                let amendment = || Decision::Amend(Amendment { cas, ..Amendment::default() });
                session
                    .update(key, Default::default(), NOW, Provision::None, |item| {
                        item.map_or(Decision::Keep, |_| amendment())
                    })
                    .expect("there is memory");
            }
            1 => {
                guest = (guest + 1) % GUESTS;
                let bytes = format!("guest-{seed}-{guest}");
                store(&mut session, bytes.as_bytes(), b"x", 0, Expiry::Never, NOW).expect("there is memory");
            }
            2 => {
                let bytes = format!("guest-{seed}-{}", random.below(GUESTS));
                remove(&mut session, bytes.as_bytes(), NOW);
            }
            _ => {
                let value = vec![9; random.below(600) as usize];
                store(&mut session, &bytes, &value, 0, Expiry::Never, NOW).expect("there is memory");
            }
        }
        session.maintain(NOW, Pace::Idle, 4);
        session.quiesce();
    }
}
