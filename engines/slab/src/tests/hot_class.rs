//! A class of few items that are read again and again, beside a stream of items of other sizes.

use super::all::{SlabEngine, SlabSession, weigh_by_length};
use crate::Policy;
use crate::SlabOptions;
use crate::pins::guard::PinGuard;
use crate::session::drain;
use guira_contract::suite::{HotItems, hits, settle, sevens, store, value_of};
use guira_contract::{Control, Engine, Expiry, Key, Pace, Reassign, Session, Spec};
use guira_items::EngineOptions;
use guira_memory::slab::{ClassId, PageState};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const MEMORY: usize = 12 << 20;

fn engine(policy: &str, memory: usize) -> SlabEngine {
    let policy = Policy::read(&Spec::parse(policy).unwrap()).unwrap();
    SlabEngine::open(SlabOptions { engine: EngineOptions::of(memory), policy, ..SlabOptions::default() })
        .unwrap()
}

fn put(session: &mut SlabSession, key: &str, length: usize) {
    assert!(store(session, key.as_bytes(), sevens(length), 0, Expiry::Never, NOW).is_ok(), "{key}");
}

#[test]
fn what_is_read_of_a_small_class_stays_whatever_the_policy() {
    for policy in
        Policy::all().map(|(policy, _)| policy).filter(super::tries).map(Policy::name).chain(["clock:bits=1"])
    {
        for hot in [1, 20, 200] {
            let load = HotItems { memory: MEMORY, hot, hot_len: 10, cold_len: 1000, reads_a_fill: 40 };
            assert_eq!(load.lost(&engine(policy, MEMORY)), 0, "{policy}, {load:?}");
        }
    }
}

#[test]
fn what_is_read_stays_whatever_the_sizes() {
    for hot_len in [10, 300, 4_000] {
        for cold_len in [60, 1_000, 20_000, 300_000] {
            for pages in [1, 2, 3] {
                let load = HotItems::of_pages(MEMORY, pages, hot_len, cold_len);
                assert_eq!(load.lost(&engine("clock", MEMORY)), 0, "{load:?}");
                let by_length = engine("clock", MEMORY);
                weigh_by_length(&by_length);
                assert_eq!(load.lost(&by_length), 0, "by length: {load:?}");
            }
        }
    }
}

#[test]
fn what_is_read_of_a_class_of_many_pages_stays() {
    const MEMORY: usize = 32 << 20;
    for (hot_len, cold_len) in [(1_000, 3_000), (700, 5_000), (3_000, 300)] {
        for policy in ["clock", "seg-lru", "s3-fifo"] {
            let hot = MEMORY / 12 / (hot_len + 24);
            let load = HotItems { memory: MEMORY, hot, hot_len, cold_len, reads_a_fill: 11 };
            assert_eq!(load.lost(&engine(policy, MEMORY)), 0, "{policy}, {load:?}");
        }
    }
}

/// Of items that were read and are moved because an operator takes their page, how many are left when none is read and the cache is filled several
/// times over.
fn rescued_and_left(policy: &str) -> (u64, usize) {
    let engine = engine(policy, MEMORY);
    let mut session = engine.session();
    let keys: Vec<String> = (0..8_000).map(|number| format!("old{number:06}")).collect();
    keys.iter().for_each(|key| put(&mut session, key, 100));
    session.release_caches();
    let class = engine.stats().classes.iter().max_by_key(|class| class.items).unwrap().id;
    for key in &keys {
        assert!(hits(&mut session, key.as_bytes(), NOW));
    }
    session.quiesce();
    assert_eq!(engine.reassign(Some(class), 0), Reassign::Begun);
    session.quiesce();
    let rescued = engine.stats().items_rescued;
    for number in 0..500_000 {
        put(&mut session, &format!("new{number:06}"), 100);
        // S3-FIFO keeps what it has rather than what nobody reads twice.
        let before = format!("new{:06}", number.max(1_000) - 1_000);
        (0..2).for_each(|_| _ = hits(&mut session, before.as_bytes(), NOW));
        if number % 16 == 0 {
            session.quiesce();
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
    (rescued, keys.iter().filter(|key| hits(&mut session, key.as_bytes(), NOW)).count())
}

#[test]
fn what_an_operator_has_moved_goes_like_any_other() {
    for policy in ["clock", "fifo", "lru", "lazy-lru", "seg-lru", "s3-fifo"] {
        let (rescued, left) = rescued_and_left(policy);
        assert!(rescued > 0 && left == 0, "{policy}: {left} of {rescued}");
    }
}

/// A session that looks for memory for a replacement holds the item. To look may take its page from its class.
#[test]
fn what_is_held_stays_where_it_is_when_its_page_goes() {
    let engine = engine("clock", MEMORY);
    let mut session = engine.session();
    let keys: Vec<String> = (0..8_000).map(|number| format!("old{number:06}")).collect();
    keys.iter().for_each(|key| put(&mut session, key, 100));
    keys.iter().for_each(|key| assert!(hits(&mut session, key.as_bytes(), NOW)));
    // Of all the others room is made.
    let held: Vec<Key<'_>> = keys
        .iter()
        .step_by(2)
        .map(|key| Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) })
        .collect();
    let holds: Vec<_> = held.iter().map(|key| PinGuard::take(&engine.core, *key, NOW).unwrap()).collect();
    let class = engine.stats().classes.iter().max_by_key(|class| class.items).unwrap().id;
    session.quiesce();
    assert_eq!(engine.reassign(Some(class), 0), Reassign::Begun);
    assert!(engine.stats().items_rescued > 0);
    assert!(holds.iter().zip(held).all(|(hold, key)| hold.holds(key, NOW)));
}

/// A session stores in a chunk that it has kept since before the page began to drain.
#[test]
fn what_comes_into_a_page_that_drains_is_moved() {
    let engine = engine("clock", MEMORY);
    let (mut one, mut other) = (engine.session(), engine.session());
    let fill = |one: &mut SlabSession, numbers: std::ops::Range<u32>| {
        for number in numbers {
            put(one, &format!("old{number:06}"), 100);
            if number % 16 == 0 {
                one.quiesce();
            }
        }
    };
    fill(&mut one, 0..120_000);
    assert!(engine.stats().evictions > 0, "memory is full");
    let class = ClassId(engine.stats().classes.iter().max_by_key(|class| class.items).unwrap().id as u8 - 1);
    put(&mut other, "first", 100);
    let (pool, kept) = (&engine.core.pool, other.state().local.cache.pop(class).unwrap());
    other.state().local.cache.put_back(class, kept);
    let page = pool.memory().page_at(kept).unwrap();
    // The hand goes on, half of the way to where it was.
    fill(&mut one, 120_000..150_000);
    while pool.memory().state_of(page) == PageState::Serving(class) {
        drain::begin(&mut one.state(), class, 1);
    }
    put(&mut other, "fresh", 100);
    let rescued = engine.stats().items_rescued;
    assert_eq!(drain::evict_draining(&mut one.state()), 1);
    assert_eq!(engine.stats().items_rescued, rescued + 1);
    assert!(hits(&mut other, b"fresh", NOW));
}

#[test]
fn long_values_that_were_read_stay_when_their_pages_go() {
    for policy in ["clock", "lru"] {
        let engine = engine(policy, 24 << 20);
        let mut session = engine.session();
        let long = |number: u8| vec![number; 300_000 + 1_000 * usize::from(number)];
        let key = |name: &str, number: u8| format!("{name}{number}").into_bytes();
        for number in 0..20 {
            for name in ["read", "cold", "other"] {
                store(&mut session, &key(name, number), &long(number), 0, Expiry::Never, NOW).unwrap();
                session.quiesce();
            }
        }
        let class = engine.stats().classes.iter().map(|class| class.id).max();
        for round in 0..12 {
            for number in 0..20 {
                let value = value_of(&mut session, &key("read", number), NOW).map(|item| item.value);
                assert!(value == Some(long(number)), "{policy}, round {round}: {number}");
            }
            session.quiesce();
            let _ = engine.reassign(class, 0);
            settle(&mut session, NOW);
        }
        let stats = engine.stats();
        assert!(
            stats.pages_moved >= 10 && stats.items_rescued + stats.parts_rescued > 10,
            "{policy}: {stats:?}"
        );
        assert!(
            stats.items_rescued <= 12 && stats.parts_rescued > stats.items_rescued,
            "{policy}: {stats:?}"
        );
    }
}
