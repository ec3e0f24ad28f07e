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

#[test]
fn a_few_items_in_use_keep_their_page_when_a_size_comes_that_has_none() {
    const SIZES: [usize; 3] = [50, 200, 1000];
    let engine = open(64 << 20);
    // Each of two sessions keeps some chunks.
    let mut sessions = [engine.session(), engine.session()];
    let mut number = 0_usize;
    let mut phase = |lengths: std::ops::Range<usize>, stores: usize| {
        for _ in 0..stores {
            number += 1;
            let [session, other] = &mut sessions;
            let session = if number.is_multiple_of(2) { session } else { other };
            session.maintain(Seconds(NOW.0 + number as u32 / 1000), Pace::Busy, 0);
            let length = lengths.start + number * 7919 % lengths.len();
            let key = format!("cold-{number}");
            store(session, key.as_bytes(), &vec![1; length], 0, Expiry::Never, NOW).unwrap();
            for (hot, size) in (0..15).flat_map(|hot| SIZES.map(|size| (hot, size))) {
                let key = format!("hot-{size}-{hot}");
                if value_of(session, key.as_bytes(), NOW).is_none() {
                    assert!(number < 10, "{key} is gone at {number}, of {lengths:?}");
                    store(session, key.as_bytes(), &vec![2; size], 0, Expiry::Never, NOW).unwrap();
                }
            }
            session.quiesce();
        }
    };
    for _ in 0..2 {
        phase(20..60, 20_000);
        phase(600_000..900_000, 300);
        phase(30_000..30_001, 3_000);
        phase(150_000..250_000, 500);
    }
}
