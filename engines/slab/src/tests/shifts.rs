//! Loads whose sizes shift, long values, and sessions that stand still meanwhile.

use super::SlabSession;
use super::{SlabEngine, open, open_by_length, weigh_by_length};
use crate::{Eviction, SlabOptions};
use guira_contract::suite::{hits, remove, sevens, store};
use guira_contract::{
    Control, Decision, Engine, Expiry, ItemSpec, ItemState, Key, NewItem, OldItem, Pace, Provision, Session,
    Switch, Tuning, Value,
};
use guira_items::EngineOptions;
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Stores a value that arrives in pieces. False if it is refused.
pub(super) fn store_long(session: &mut SlabSession, key: &str, length: usize) -> bool {
    let key = key.as_bytes();
    let room =
        ItemSpec { value_len: length, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let Ok(mut pending) = session.begin_value(key, room) else {
        return false;
    };
    if session.extend(&mut pending, sevens(length)).is_err() {
        return false;
    }
    let new =
        NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value: Value::Pending };
    let key = Key { bytes: key, hash: session.hash(key) };
    session.update(key, Default::default(), NOW, Provision::Pending(pending), |_| Decision::Put(new)).is_ok()
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

fn store_many(session: &mut SlabSession, tag: &str, count: u64, length: usize) {
    let value = vec![7; length];
    for i in 0..count {
        let stored = store(session, format!("{tag}{i}").as_bytes(), &value, 0, Expiry::Never, NOW);
        assert!(stored.is_ok(), "{tag}{i}: {:?}", crate::stats::collect(session.state().core));
        if i % 64 == 63 {
            end_batch(session);
        }
    }
}

/// Of the last `newest` of `count` keys, how many are there?
fn present(session: &mut SlabSession, tag: &str, count: u64, newest: u64) -> u64 {
    let keys = (count - newest..count).map(|i| format!("{tag}{i}"));
    keys.filter(|key| hits(session, key.as_bytes(), NOW)).count() as u64
}

#[test]
fn long_values_with_short_ends_do_not_go_by_the_thousand() {
    // An end of 72 bytes: a page of such ends belongs to 3,640 values, more than there are here.
    for engine in [open(64 << 20), open_by_length(64 << 20)] {
        let mut session = engine.session();
        let mut most = 0;
        for i in 0..12_000 {
            assert!(store_long(&mut session, &format!("long{i}"), 32_768), "{i}");
            end_batch(&mut session);
            if i % 50 == 0 {
                let items = engine.stats().items;
                most = most.max(items);
                assert!(items * 10 >= most * 9, "{items} of {most} are left after {i}");
            }
        }
        assert!(most > 1_700, "{most}");
    }
}

/// How many values of this length fit into 32 MiB, if they take no more than their length.
fn fit(length: usize) -> u64 {
    (32 << 20) / length as u64
}

/// Stores four times as many values of this length as fit into 32 MiB. Returns how many of the newest are there.
fn newest_kept(length: usize, newest: u64, weigh: impl Fn(&SlabEngine)) -> u64 {
    let engine = open(32 << 20);
    let mut session = engine.session();
    let count = 4 * fit(length);
    for i in 0..count {
        assert!(store_long(&mut session, &format!("long{i}"), length), "{length}: {i}");
        end_batch(&mut session);
        weigh(&engine);
    }
    present(&mut session, "long", count, newest)
}

#[test]
fn most_long_values_that_fit_are_the_newest() {
    let lengths = (57_000..1_000_000).step_by(24_000);
    let shares: Vec<f64> =
        lengths.map(|length| newest_kept(length, fit(length), |_| ()) as f64 / fit(length) as f64).collect();
    let (mean, worst) =
        (shares.iter().sum::<f64>() / shares.len() as f64, shares.iter().copied().fold(1.0, f64::min));
    println!("of {} lengths: {mean:.3} on average, {worst:.3} in the worst case", shares.len());
    // No bound for the worst: CLOCK meets some new values at once (docs/develop/decisions/0005-balance-of-classes.md).
    assert!(mean > 0.87, "{mean}, {worst}: {shares:.2?}");
}

#[test]
fn the_newest_of_long_values_are_kept_however_many_chunks_they_take() {
    let lengths = [20_000, 64_000, 100_000, 200_000, 900_000];
    let weighings: [fn(&SlabEngine); 2] = [|_| (), weigh_by_length];
    for (length, weigh) in lengths.into_iter().flat_map(|length| weighings.map(|weigh| (length, weigh))) {
        let newest = fit(length) / 10;
        let kept = newest_kept(length, newest, weigh);
        // A page that changes its class may take one with it.
        assert!(kept + newest / 10 + 1 >= newest, "{kept} of the newest {newest} values of {length} bytes");
    }
}

#[test]
fn a_small_cache_takes_long_values_among_short_ones() {
    for engine in [open(11 << 20), open_by_length(11 << 20)] {
        take_long_values_among_short_ones(&engine);
    }
}

fn take_long_values_among_short_ones(engine: &SlabEngine) {
    let mut session = engine.session();
    for i in 0..4000u64 {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        if i % 20 == 7 {
            let length = 50_000 + random as usize % 850_000;
            assert!(store_long(&mut session, &format!("long{i}"), length), "{i}: {length} bytes");
        } else {
            store_many(&mut session, &format!("short{i}-"), 1, 10 + random as usize % 1490);
        }
        end_batch(&mut session);
    }
    let stats = engine.stats();
    assert!(stats.bytes > 2 << 20, "the cache is not nearly empty: {stats:?}");
}

#[test]
fn pages_given_while_a_session_stands_still_are_put_to_use_afterwards() {
    let engine = open(16 << 20);
    let (mut session, still) = (engine.session(), engine.session());
    store_many(&mut session, "small", 150_000, 100);
    // Until this session passes a quiescent point, no page can change its class: who has none may be refused.
    let mut refused = 0;
    for i in 0..10_000 {
        let stored = store(&mut session, format!("stalled{i}").as_bytes(), &[7; 1000], 0, Expiry::Never, NOW);
        refused += usize::from(stored.is_err());
        end_batch(&mut session);
        if refused == 3 {
            break;
        }
    }
    drop(still);
    store_many(&mut session, "large", 60_000, 1000);
    let stats = engine.stats();
    assert!(
        session.state().core.pool.memory().pool_size() <= 2,
        "{} pages are idle",
        session.state().core.pool.memory().pool_size()
    );
    assert!(stats.items > 12_000, "{stats:?}");
}

#[test]
fn a_session_that_sleeps_with_chunks_does_not_keep_the_table_from_growing() {
    let engine = open(11 << 20);
    let (mut session, mut sleeper) = (engine.session(), engine.session());
    for i in 0..60 {
        let awake = if i % 2 == 0 { &mut session } else { &mut sleeper };
        awake.online();
        store_long(awake, &format!("long{i}"), 50_000 + i * 14_000);
        end_batch(awake);
        awake.offline();
    }
    session.online();
    store_many(&mut session, "small", 120_000, 100);
    let stats = engine.stats();
    assert!(stats.index_growths > 0 && stats.items > 50_000, "{stats:?}");
    // Some go for want of a slot before the table has grown.
    let kept = present(&mut session, "small", 120_000, 20_000);
    assert!(kept > 19_900, "{kept}: {stats:?}");
}

#[test]
fn the_hand_spares_what_was_read_whatever_its_size() {
    for length in [10, 20, 100, 1000, 5000] {
        let engine = open(8 << 20);
        let mut session = engine.session();
        let capacity = (8 << 20) / (length as u64 + 40);
        store_many(&mut session, "read", capacity / 10, length);
        for round in 0..30 {
            assert_eq!(
                present(&mut session, "read", capacity / 10, capacity / 10),
                capacity / 10,
                "{length} in round {round}: {:?}",
                engine.stats()
            );
            store_many(&mut session, &format!("other{round}-"), capacity / 8, length);
        }
    }
}

#[test]
fn items_that_are_shorter_stay_for_longer_where_ages_count_by_length() {
    // As many bytes of each are stored.
    let kept = |engine: &SlabEngine| {
        let mut session = engine.session();
        for round in 0..400 {
            store_many(&mut session, &format!("long{round}-"), 32, 10_000);
            store_many(&mut session, &format!("short{round}-"), 320, 1000);
        }
        let stats = engine.stats();
        let pages = |least| {
            stats
                .classes
                .iter()
                .filter(|class| class.chunk_size > least)
                .map(|class| class.pages)
                .sum::<u64>()
        };
        pages(2000) as f64 / pages(0) as f64
    };
    let (alike, by_length) = (kept(&open(32 << 20)), kept(&open_by_length(32 << 20)));
    assert!((0.4..0.6).contains(&alike), "{alike}");
    assert!((0.05..0.2).contains(&by_length), "{by_length}");
}

#[test]
fn a_few_short_items_have_no_page_of_their_own_in_a_small_cache() {
    let engine = open(16 << 20);
    let mut session = engine.session();
    // A few of many sizes, while there is room, and then many of one.
    let lengths = (20..1500).step_by(20);
    lengths.clone().for_each(|length| store_many(&mut session, &format!("few{length}-"), 3, length));
    store_many(&mut session, "many", 100_000, 1500);
    let stats = engine.stats();
    let free: u64 = stats.classes.iter().map(|class| class.free_chunks * class.chunk_size).sum();
    assert!(free < 1 << 20, "{free}: {stats:?}");
    // They have not gone with the pages.
    assert!(stats.items_rescued > 150, "{stats:?}");
}

#[test]
fn pages_that_are_to_keep_still_stay_with_the_few_items_that_they_hold() {
    let engine = open(16 << 20);
    let mut session = engine.session();
    (20..1500).step_by(20).for_each(|length| store_many(&mut session, &format!("few{length}-"), 3, length));
    engine.tune(Tuning::Automove(Switch::Off));
    store_many(&mut session, "many", 100_000, 1500);
    assert_eq!(engine.stats().pages_moved, 0);
    engine.tune(Tuning::Automove(Switch::On));
    store_many(&mut session, "more", 100_000, 1500);
    assert!(engine.stats().pages_moved > 20, "{:?}", engine.stats());
}

#[test]
fn empty_pages_go_to_whoever_needs_them_before_anything_is_evicted() {
    for eviction in [Eviction::On, Eviction::Off] {
        let options = SlabOptions {
            engine: EngineOptions { memory: 64 << 20, eviction, ..EngineOptions::default() },
            ..SlabOptions::default()
        };
        let engine = super::SlabEngine::open(options).unwrap();
        let mut session = engine.session();
        let mut long = 0;
        while long < 550 && store_long(&mut session, &format!("long{long}"), 100_000) {
            long += 1;
            end_batch(&mut session);
        }
        (0..long).for_each(|i| remove(&mut session, format!("long{i}").as_bytes(), NOW));
        assert_eq!(engine.stats().items, 0);
        let evicted = engine.stats().evictions;
        store_many(&mut session, "small", 300_000, 10);
        store_many(&mut session, "middle", 3_000, 5000);
        let stats = engine.stats();
        // A few go while the first page is on its way.
        assert!(stats.evictions - evicted < 100, "{eviction:?}: {stats:?}");
        assert!(stats.items + 100 > 303_000, "{eviction:?}: {stats:?}");
    }
}

#[test]
fn the_only_page_of_a_class_stays_while_its_one_item_comes_and_goes() {
    let engine = open(16 << 20);
    let mut session = engine.session();
    store_many(&mut session, "small", 200_000, 100);
    let moved = engine.stats().pages_moved;
    for i in 0..300 {
        store_many(&mut session, &format!("short{i}-"), 40, 100);
        store_many(&mut session, "medium", 1, 3000);
        remove(&mut session, b"medium0", NOW);
        session.release_caches();
    }
    assert!(engine.stats().pages_moved - moved < 10, "{:?}", engine.stats());
}

#[test]
fn without_eviction_what_has_expired_in_one_class_makes_room_in_others() {
    let options = SlabOptions {
        engine: EngineOptions { memory: 16 << 20, eviction: Eviction::Off, ..EngineOptions::default() },
        ..SlabOptions::default()
    };
    let engine = super::SlabEngine::open(options).unwrap();
    let mut session = engine.session();
    let put = |session: &mut SlabSession, key: &str, length: usize, expiry, now| {
        let stored = store(session, key.as_bytes(), sevens(length), 0, expiry, now);
        session.quiesce();
        session.maintain(now, Pace::Busy, 32);
        stored.is_ok()
    };
    let at = Seconds(1005);
    let full = (0..).find(|i| !put(&mut session, &format!("first{i}"), 3000, Expiry::At(at), NOW));
    assert!(full.is_some());
    let refused =
        (0..5000).filter(|i| !put(&mut session, &format!("small{i}"), 100, Expiry::Never, at)).count();
    assert!(refused < 500, "{refused}");
}

#[test]
fn long_values_that_are_all_read_make_room_for_another() {
    for memory in [4, 8, 16] {
        let engine = open(memory << 20);
        let mut session = engine.session();
        for i in 0..600_u64 {
            let length = 40_000 + (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % 400_000;
            assert!(store_long(&mut session, &format!("long{i}"), length), "{memory} MiB, {i}");
            end_batch(&mut session);
            for _ in 0..2 {
                present(&mut session, "long", i + 1, i.min(200));
            }
        }
    }
}
