//! A class of few items that are read again and again, beside a stream of items of other sizes.

use super::{SlabEngine, SlabSession};
use crate::SlabOptions;
use crate::order::Policy;
use guira_contract::suite::{store, value_of};
use guira_contract::{Engine, Expiry, Pace, Reassign, Session, Spec};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const MEMORY: usize = 12 << 20;
/// How often what is cold fills the cache.
const FILLS: usize = 4;

/// What is stored in a run.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// How many items are hot, and the length of their values.
    hot: usize,
    hot_len: usize,
    cold_len: usize,
    /// All that is hot is read whenever one part in so many of memory was stored.
    reads_a_fill: usize,
}

impl Load {
    /// As many hot items as fill this part of `pages` pages.
    fn of_pages(pages: usize, hot_len: usize, cold_len: usize) -> Self {
        Load { hot: pages * (200 << 10) / (hot_len + 24), hot_len, cold_len, reads_a_fill: 8 }
    }
}

fn engine(policy: &str, memory: usize) -> SlabEngine {
    let policy = Policy::read(&Spec::parse(policy).unwrap()).unwrap();
    SlabEngine::open(SlabOptions { memory, policy, ..SlabOptions::default() }).unwrap()
}

fn put(session: &mut SlabSession, key: &str, length: usize) {
    let value = vec![7; length];
    let stored = match length {
        0..16_000 => store(session, key.as_bytes(), &value, 0, Expiry::Never, NOW),
        _ => super::shifts::store_long(session, key, length)
            .then_some(())
            .ok_or(guira_contract::Refusal::NoMemory),
    };
    assert!(stored.is_ok(), "{key}");
}

/// Of the hot items, how many are gone after the cache was filled several times over.
fn lost(policy: &str, load: Load) -> usize {
    let engine = engine(policy, MEMORY);
    let mut session = engine.session();
    let name = |number: usize| format!("hot{number}");
    (0..load.hot).for_each(|number| put(&mut session, &name(number), load.hot_len));
    let cold = FILLS * MEMORY / (load.cold_len + 40);
    let between = (MEMORY / load.reads_a_fill / (load.cold_len + 40)).max(1);
    for number in 0..cold {
        put(&mut session, &format!("cold{number}"), load.cold_len);
        if number % between == 0 {
            for number in 0..load.hot {
                value_of_read(&mut session, &name(number));
            }
        }
        if number % 16 == 0 {
            session.quiesce();
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
    assert!(engine.stats().evictions > 0);
    (0..load.hot).filter(|number| value_of(&mut session, name(*number).as_bytes(), NOW).is_none()).count()
}

/// A read that counts.
fn value_of_read(session: &mut SlabSession, key: &str) {
    let key = guira_contract::Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) };
    let mut sink = super::pins::Keep::default();
    let _ = session.read(key, NOW, &mut sink);
}

const POLICIES: [&str; 9] =
    ["clock", "clock:bits=1", "fifo", "lru", "lazy-lru", "seg-lru", "klru", "sieve", "s3-fifo"];

#[test]
fn what_is_read_of_a_small_class_stays_whatever_the_policy() {
    for policy in POLICIES {
        for hot in [1, 20, 200] {
            let load = Load { hot, hot_len: 10, cold_len: 1000, reads_a_fill: 40 };
            assert_eq!(lost(policy, load), 0, "{policy}, {load:?}");
        }
    }
}

#[test]
fn what_is_read_stays_whatever_the_sizes() {
    for hot_len in [10, 300, 4_000] {
        for cold_len in [60, 1_000, 20_000, 300_000] {
            for pages in [1, 2, 3] {
                let load = Load::of_pages(pages, hot_len, cold_len);
                assert_eq!(lost("clock", load), 0, "{load:?}");
            }
        }
    }
}

/// Of items that were read and are moved because an operator takes their page, how many are left when nobody reads them and the cache is filled several
/// times over.
fn rescued_and_left(policy: &str) -> (u64, usize) {
    let engine = engine(policy, MEMORY);
    let mut session = engine.session();
    let keys: Vec<String> = (0..8_000).map(|number| format!("old{number:06}")).collect();
    keys.iter().for_each(|key| put(&mut session, key, 100));
    session.rest();
    let class = engine.stats().classes.iter().max_by_key(|class| class.items).unwrap().id;
    for key in &keys {
        value_of(&mut session, key.as_bytes(), NOW).unwrap();
    }
    session.quiesce();
    assert_eq!(engine.reassign(Some(class), 0), Reassign::Begun);
    session.quiesce();
    let rescued = engine.stats().items_rescued;
    for number in 0..500_000 {
        put(&mut session, &format!("new{number:06}"), 100);
        if number % 16 == 0 {
            session.quiesce();
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
    (rescued, keys.iter().filter(|key| value_of(&mut session, key.as_bytes(), NOW).is_some()).count())
}

#[test]
fn what_an_operator_has_moved_goes_like_any_other() {
    for policy in ["clock", "fifo", "lru", "lazy-lru", "seg-lru", "s3-fifo"] {
        let (rescued, left) = rescued_and_left(policy);
        assert!(rescued > 0 && left == 0, "{policy}: {left} of {rescued}");
    }
}
