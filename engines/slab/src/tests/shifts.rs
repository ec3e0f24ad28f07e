//! Loads whose sizes shift, long values, and sessions that stand still meanwhile.

use super::SlabSession;
use super::open;
use guira_contract::suite::{store, value_of};
use guira_contract::{
    Decision, Engine, Expiry, ItemState, Key, NewItem, Pace, Room, Session, Value, ValueDraft,
};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Stores a value that arrives in pieces. False if it is refused.
fn store_long(session: &mut SlabSession, key: &str, length: usize) -> bool {
    let key = key.as_bytes();
    let room = Room { value_len: length, flags: 0, expiry: Expiry::Never, cas: None };
    let Ok(mut draft) = session.draft(key, room) else {
        return false;
    };
    draft.append(&vec![7; length]);
    let new =
        NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value: Value::Draft };
    let key = Key { bytes: key, hash: session.hash(key) };
    session.update(key, NOW, None, Some(draft), |_| Decision::Put(new)).is_ok()
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

fn store_many(session: &mut SlabSession, tag: &str, count: u64, length: usize) {
    let value = vec![7; length];
    for i in 0..count {
        store(session, format!("{tag}{i}").as_bytes(), &value, 0, Expiry::Never, NOW).unwrap();
        if i % 64 == 63 {
            end_batch(session);
        }
    }
}

/// Of the last `newest` of `count` keys, how many are there?
fn present(session: &mut SlabSession, tag: &str, count: u64, newest: u64) -> u64 {
    let keys = (count - newest..count).map(|i| format!("{tag}{i}"));
    keys.filter(|key| value_of(session, key.as_bytes(), NOW).is_some()).count() as u64
}

#[test]
fn the_newest_of_long_values_are_kept_however_many_chunks_they_take() {
    for length in [20_000, 64_000, 100_000, 200_000, 900_000] {
        let engine = open(32 << 20);
        let mut session = engine.session();
        let fit = (32 << 20) / length as u64;
        let count = 4 * fit;
        for i in 0..count {
            assert!(store_long(&mut session, &format!("long{i}"), length), "{length}: {i}");
            end_batch(&mut session);
        }
        let newest = fit / 10;
        let kept = present(&mut session, "long", count, newest);
        // A page that changes its class may take one with it.
        assert!(kept + newest / 10 + 1 >= newest, "{kept} of the newest {newest} values of {length} bytes");
    }
}

#[test]
fn a_small_cache_takes_long_values_among_short_ones() {
    let engine = open(11 << 20);
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
    assert!(session.core.memory.pool_size() <= 2, "{} pages are idle", session.core.memory.pool_size());
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
    assert!(present(&mut session, "small", 120_000, 20_000) > 19_500);
}

#[test]
fn values_that_only_arrive_leave_room_for_others() {
    let engine = open(16 << 20);
    let mut session = engine.session();
    let room = Room { value_len: 500_000, flags: 0, expiry: Expiry::Never, cas: None };
    let drafts: Vec<_> =
        (0..100).map_while(|i| session.draft(format!("{i}").as_bytes(), room).ok()).collect();
    assert!((10..=16).contains(&drafts.len()), "{}", drafts.len());
    store_many(&mut session, "other", 1000, 1000);
    assert!(present(&mut session, "other", 1000, 1000) == 1000);
    drop(drafts);
    assert!(session.draft(b"again", room).is_ok());
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
