//! Items that are used again and again, in a cache that is full.

use super::open;
use crate::FleecSession;
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Engine, Expiry, Pace, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const MEMORY: usize = 24 << 20;
const HOT: usize = 2_000;

fn put(session: &mut FleecSession, key: &str) {
    assert!(store(session, key.as_bytes(), &[7; 500], 0, Expiry::Never, NOW).is_ok(), "{key}");
}

fn hot_key(number: usize) -> String {
    format!("hot-{number:06}")
}

/// Stores many more items than there is room for, and calls `use_it` with each of the hot ones again and again meanwhile.
fn fill(session: &mut FleecSession, name: &str, mut use_it: impl FnMut(&mut FleecSession, &str)) {
    for number in 0..200_000 {
        put(session, &format!("{name}{number:06}"));
        use_it(session, &hot_key(number % HOT));
    }
}

fn there_are(session: &mut FleecSession) -> usize {
    (0..HOT).filter(|number| value_of(session, hot_key(*number).as_bytes(), NOW).is_some()).count()
}

#[test]
fn what_is_stored_over_and_read_in_turns_stays() {
    let engine = open(MEMORY);
    let mut session = engine.session();
    (0..HOT).for_each(|number| put(&mut session, &hot_key(number)));
    let (mut uses, mut lost) = (0_usize, 0);
    fill(&mut session, "cold", |session, key| {
        // Three reads, and a store over it.
        uses += 1;
        if uses / HOT % 4 == 3 {
            put(session, key);
        } else if value_of(session, key.as_bytes(), NOW).is_none() {
            lost += 1;
            put(session, key);
        }
    });
    assert!(engine.stats().evictions > 100_000);
    assert_eq!(lost, 0, "of {HOT} items");
}

#[test]
fn what_was_stored_over_once_and_is_never_read_goes() {
    let engine = open(MEMORY);
    let mut session = engine.session();
    for _ in 0..2 {
        (0..HOT).for_each(|number| put(&mut session, &hot_key(number)));
    }
    for _ in 0..3 {
        fill(&mut session, "cold", |_, _| ());
    }
    assert_eq!(there_are(&mut session), 0);
}

#[test]
fn what_is_read_survives_a_lower_limit() {
    let engine = open(MEMORY);
    let mut session = engine.session();
    // All over the pages.
    for number in 0..20 * HOT {
        put(&mut session, &format!("first{number:05}"));
        if number % 20 == 0 {
            put(&mut session, &hot_key(number / 20));
        }
    }
    let read =
        |session: &mut FleecSession, key: &str| assert!(value_of(session, key.as_bytes(), NOW).is_some());
    fill(&mut session, "cold", read);
    engine.resize(MEMORY - (6 << 20)).unwrap();
    session.release_caches();
    while session.maintain(NOW, Pace::Idle, 32) > 0 {}
    let stats = engine.stats();
    assert!(stats.memory_used <= stats.memory_limit, "{} of {}", stats.memory_used, stats.memory_limit);
    assert!(stats.items_rescued > 0);
    let left = there_are(&mut session);
    assert!(left * 100 >= HOT * 98, "{left} of {HOT}");
}
