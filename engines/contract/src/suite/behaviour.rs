//! One behaviour after another, single-threaded.

use super::arrivals::values_that_never_arrive_leave_room_for_those_that_are_kept;
use super::kept::what_a_command_needs_is_not_evicted_for_it;
use super::leavings::an_emptied_page_costs_no_item_elsewhere;
use super::sink::{pin_of, store, value_of};
use crate::stats::EngineStats;
use crate::{Amendment, Decision, Digits, Expiry, ItemState, ItemView, NewItem, Provision, Recency, Value};
use crate::{Engine, ItemSpec, Key, OldItem, Pace, Session, StoreError, ValuePin};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

fn key<'k, S: Session>(session: &S, bytes: &'k [u8]) -> Key<'k> {
    Key { bytes, hash: session.hash(bytes) }
}

/// Runs all of them on engines of their own.
pub fn behaviour<E: Engine>(open: &impl Fn(usize) -> E) {
    common(open);
    let cases: [fn(E); 3] = [
        a_full_cache_evicts_and_counts,
        other_sizes_are_stored_after_the_cache_is_full,
        a_smaller_cache_comes_to_keep_its_ceiling_and_goes_on,
    ];
    for case in cases {
        case(open(16 << 20));
    }
    values_that_never_arrive_leave_room_for_those_that_are_kept(open);
    an_emptied_page_costs_no_item_elsewhere(open);
    what_a_command_needs_is_not_evicted_for_it(open);
}

/// Those that hold for caches and stores alike.
pub(super) fn common<E: Engine>(open: &impl Fn(usize) -> E) {
    let cases: [fn(E); 12] = [
        what_is_stored_is_read_until_it_is_replaced_or_removed,
        values_of_every_length_come_back,
        an_expired_item_is_gone_on_the_second,
        a_flush_takes_what_was_stored_before_and_nothing_after,
        a_delayed_flush_takes_effect_on_the_second,
        a_flush_falls_due_in_an_update_after_many_others,
        many_flushes_never_bring_anything_back,
        an_amendment_changes_metadata_and_keeps_the_value,
        a_joined_value_surrounds_the_old_one,
        a_number_with_much_behind_it_is_overwritten_and_a_connection_that_sends_it_sends_the_old_one,
        what_is_too_large_is_refused_and_changes_nothing,
        an_engine_is_closed_when_nobody_uses_it,
    ];
    for case in cases {
        case(open(16 << 20));
    }
}

fn what_is_stored_is_read_until_it_is_replaced_or_removed<E: Engine>(engine: E) {
    let mut session = engine.session();
    assert_eq!(value_of(&mut session, b"k", NOW), None);
    store(&mut session, b"k", b"one", 7, Expiry::Never, NOW).unwrap();
    let item = value_of(&mut session, b"k", NOW).unwrap();
    assert_eq!((item.value.as_slice(), item.meta.flags), (b"one".as_slice(), 7));
    assert!(!item.meta.state.has(ItemState::FETCHED), "metadata is as before the read");
    assert!(value_of(&mut session, b"k", NOW).unwrap().meta.state.has(ItemState::FETCHED));
    store(&mut session, b"k", b"another", 0, Expiry::Never, NOW).unwrap();
    assert_eq!(value_of(&mut session, b"k", NOW).unwrap().value, b"another");
    assert_eq!(engine.stats().items, 1);
    let k = key(&session, b"k");
    session.update(k, Default::default(), NOW, Provision::None, |_| Decision::Remove).unwrap();
    assert_eq!(value_of(&mut session, b"k", NOW), None);
    assert_eq!((engine.stats().items, engine.stats().bytes), (0, 0));
}

fn values_of_every_length_come_back<E: Engine>(engine: E) {
    let mut session = engine.session();
    let lengths =
        (0..70).chain([255, 256, 257, 1000, 16_383, 16_384, 16_385, 100_000, 131_000, 131_200, 262_144]);
    for length in lengths.chain([300_001, 1_048_000]) {
        let value: Vec<u8> = (0..length).map(|i| (i * 31 + length) as u8).collect();
        let name = format!("length-{length}");
        store(&mut session, name.as_bytes(), &value, length as u32, Expiry::Never, NOW).unwrap();
        let item = value_of(&mut session, name.as_bytes(), NOW).unwrap();
        assert_eq!((item.value.len(), item.meta.value_len, item.meta.flags), (length, length, length as u32));
        assert!(item.value == value, "length {length}");
        session.quiesce();
    }
}

fn an_expired_item_is_gone_on_the_second<E: Engine>(engine: E) {
    let mut session = engine.session();
    store(&mut session, b"k", b"v", 0, Expiry::At(Seconds(1005)), NOW).unwrap();
    assert!(value_of(&mut session, b"k", Seconds(1004)).is_some());
    assert!(value_of(&mut session, b"k", Seconds(1005)).is_none());
    assert_eq!(engine.stats().items, 0, "it was removed when it was met");
    store(&mut session, b"k", b"v", 0, Expiry::At(Seconds(1005)), NOW).unwrap();
    let k = key(&session, b"k");
    let mut seen = true;
    let look = |item: Option<&dyn ItemView>| {
        seen = item.is_some();
        Decision::Keep
    };
    session.update(k, Default::default(), Seconds(1006), Provision::None, look).unwrap();
    assert!(!seen, "an update does not see it either");
    store(&mut session, b"old", b"v", 0, Expiry::At(Seconds(1010)), NOW).unwrap();
    for _ in 0..100 {
        session.maintain(Seconds(2000), Pace::Idle, 100);
        session.quiesce();
    }
    assert_eq!(engine.stats().items, 0, "the crawler removes what no request meets");
}

fn a_flush_takes_what_was_stored_before_and_nothing_after<E: Engine>(engine: E) {
    let mut session = engine.session();
    store(&mut session, b"before", b"v", 0, Expiry::Never, NOW).unwrap();
    engine.flush(NOW, NOW);
    assert!(value_of(&mut session, b"before", NOW).is_none());
    store(&mut session, b"after", b"v", 0, Expiry::Never, NOW).unwrap();
    assert!(value_of(&mut session, b"after", NOW).is_some());
}

fn a_delayed_flush_takes_effect_on_the_second<E: Engine>(engine: E) {
    let mut session = engine.session();
    engine.flush(NOW, Seconds(1010));
    store(&mut session, b"k", b"v", 0, Expiry::Never, Seconds(1009)).unwrap();
    assert!(value_of(&mut session, b"k", Seconds(1009)).is_some());
    assert!(value_of(&mut session, b"k", Seconds(1010)).is_none());
    store(&mut session, b"k", b"v", 0, Expiry::Never, Seconds(1010)).unwrap();
    assert!(value_of(&mut session, b"k", Seconds(2000)).is_some());
    engine.flush(Seconds(2000), Seconds(2010));
    engine.flush(Seconds(2020), Seconds(2030));
    assert!(
        value_of(&mut session, b"k", Seconds(2020)).is_none(),
        "the first has taken effect before the second"
    );
}

/// There are eight generations of flushes, and each has items.
fn a_flush_falls_due_in_an_update_after_many_others<E: Engine>(engine: E) {
    let mut session = engine.session();
    for round in 0..7 {
        for i in 0..100 {
            store(&mut session, format!("{round}-{i}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        }
        engine.flush(NOW, NOW);
    }
    store(&mut session, b"k", b"before", 0, Expiry::Never, NOW).unwrap();
    engine.flush(NOW, Seconds(1010));
    // The sweep that this takes locks the buckets of every item, those of this key included.
    store(&mut session, b"k", b"after", 0, Expiry::Never, Seconds(1010)).unwrap();
    assert_eq!(value_of(&mut session, b"k", Seconds(1010)).unwrap().value, b"after");
    assert!(value_of(&mut session, b"6-1", Seconds(1010)).is_none());
}

fn many_flushes_never_bring_anything_back<E: Engine>(engine: E) {
    let mut session = engine.session();
    for round in 0..50 {
        let name = format!("round-{round}");
        store(&mut session, name.as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        engine.flush(NOW, NOW);
        for earlier in 0..=round {
            assert!(value_of(&mut session, format!("round-{earlier}").as_bytes(), NOW).is_none());
        }
        store(&mut session, b"kept until the next", b"v", 0, Expiry::Never, NOW).unwrap();
        assert!(value_of(&mut session, b"kept until the next", NOW).is_some());
        if round % 3 == 0 {
            session.maintain(Seconds(NOW.0 + round), Pace::Idle, 1000);
        }
        session.quiesce();
    }
}

fn an_amendment_changes_metadata_and_keeps_the_value<E: Engine>(engine: E) {
    let mut session = engine.session();
    for length in [5usize, 20_000, 400_000] {
        let value = vec![b'x'; length];
        store(&mut session, b"k", &value, 9, Expiry::Never, NOW).unwrap();
        let k = key(&session, b"k");
        let change = || Amendment {
            expiry: Some(Expiry::At(Seconds(5000))),
            cas: Some(1234),
            set: ItemState::STALE,
            recency: Recency::Bump,
            ..Amendment::default()
        };
        session.update(k, Default::default(), NOW, Provision::None, |_| Decision::Amend(change())).unwrap();
        let item = value_of(&mut session, b"k", NOW).unwrap();
        assert!(item.value == value, "length {length}");
        assert_eq!((item.meta.flags, item.meta.expiry), (9, Expiry::At(Seconds(5000))));
        assert_eq!(item.meta.cas, Some(1234));
        assert!(item.meta.state.has(ItemState::STALE));
        let clear = || Amendment {
            clear: ItemState::STALE,
            expiry: Some(Expiry::Never),
            overwrite: (length == 5).then_some(Digits::of(123)),
            ..Amendment::default()
        };
        session.update(k, Default::default(), NOW, Provision::None, |_| Decision::Amend(clear())).unwrap();
        let item = value_of(&mut session, b"k", NOW).unwrap();
        assert_eq!((item.meta.expiry, item.meta.state.has(ItemState::STALE)), (Expiry::Never, false));
        assert_eq!(item.value == b"123  ", length == 5);
        assert_eq!(engine.stats().items, 1);
    }
    let absent = key(&session, b"absent");
    session
        .update(absent, Default::default(), NOW, Provision::None, |_| Decision::Amend(Amendment::default()))
        .unwrap();
    assert_eq!(engine.stats().items, 1);
}

fn a_joined_value_surrounds_the_old_one<E: Engine>(engine: E) {
    let mut session = engine.session();
    store(&mut session, b"k", b"middle", 3, Expiry::Never, NOW).unwrap();
    let k = key(&session, b"k");
    let mut expected = b"middle".to_vec();
    for length in [3, 300, 20_000, 200_000, 300_000] {
        let (before, after) = (vec![b'<'; length], vec![b'>'; length / 2]);
        let join = |item: Option<&dyn ItemView>| {
            let flags = item.map_or(0, |item| item.flags());
            let value = Value::Joined { before: &before, after: &after };
            Decision::Put(NewItem { flags, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value })
        };
        session.update(k, Default::default(), NOW, Provision::None, join).unwrap();
        expected = [before.as_slice(), &expected, &after].concat();
        let item = value_of(&mut session, b"k", NOW).unwrap();
        assert!(item.value == expected && item.meta.flags == 3, "{length}");
        session.quiesce();
    }
}

/// A number may be followed by as much as one likes, and memcached overwrites all of it.
fn a_number_with_much_behind_it_is_overwritten_and_a_connection_that_sends_it_sends_the_old_one<E: Engine>(
    engine: E,
) {
    let mut session = engine.session();
    for length in [16_384, 16_385, 20_000, 100_000, 700_000] {
        let mut before = vec![b'a'; length];
        before[..3].copy_from_slice(b"99 ");
        store(&mut session, b"k", &before, 0, Expiry::Never, NOW).unwrap();
        let pin = pin_of(&mut session, b"k", Recency::Bump, NOW);
        let overwrite = || Amendment { overwrite: Some(Digits::of(100)), ..Amendment::default() };
        let k = key(&session, b"k");
        session
            .update(k, Default::default(), NOW, Provision::None, |_| Decision::Amend(overwrite()))
            .unwrap();
        if let Some(pin) = pin {
            let mut sent = Vec::new();
            while sent.len() < length {
                sent.extend_from_slice(pin.piece(sent.len()));
            }
            assert!(sent == before, "{length}: what is being sent was changed");
        }
        let mut after = vec![b' '; length];
        after[..3].copy_from_slice(b"100");
        assert!(value_of(&mut session, b"k", NOW).unwrap().value == after, "{length}");
        assert_eq!(engine.stats().items, 1);
        session.quiesce();
    }
}

fn a_full_cache_evicts_and_counts<E: Engine>(engine: E) {
    let mut session = engine.session();
    let count = 250_000u32;
    for i in 0..count {
        store(&mut session, format!("key-{i:08}").as_bytes(), &[i as u8; 100], 0, Expiry::Never, NOW)
            .unwrap();
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Idle, 64);
            session.quiesce();
        }
    }
    let stats = engine.stats();
    assert!(stats.items > 80_000 && stats.evictions > 0, "{stats:?}");
    assert_eq!(stats.items + stats.evictions, u64::from(count));
    assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
    let newest = (count - 1000..count)
        .filter(|i| value_of(&mut session, format!("key-{i:08}").as_bytes(), NOW).is_some());
    assert!(newest.count() > 990, "the newest are there");
}

fn other_sizes_are_stored_after_the_cache_is_full<E: Engine>(engine: E) {
    let mut session = engine.session();
    for i in 0..150_000 {
        store(&mut session, format!("small-{i}").as_bytes(), &[1; 80], 0, Expiry::Never, NOW).unwrap();
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Idle, 64);
            session.quiesce();
        }
    }
    for i in 0..4000 {
        store(&mut session, format!("large-{i}").as_bytes(), &[2; 10_000], 0, Expiry::Never, NOW)
            .unwrap_or_else(|refusal| panic!("item {i} of 10 kB was refused: {refusal}"));
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Idle, 64);
            session.quiesce();
        }
    }
    let kept =
        (3200..4000).filter(|i| value_of(&mut session, format!("large-{i}").as_bytes(), NOW).is_some());
    let kept = kept.count();
    // A policy that draws its victims loses some of the newest as well.
    assert!(kept > 720, "memory has gone over to the new size: {kept} of 800");
    store(&mut session, b"huge", &vec![3; 1_000_000], 0, Expiry::Never, NOW).unwrap();
    assert!(value_of(&mut session, b"huge", NOW).is_some());
}

fn what_is_too_large_is_refused_and_changes_nothing<E: Engine>(engine: E) {
    let mut session = engine.session();
    store(&mut session, b"k", b"v", 0, Expiry::Never, NOW).unwrap();
    assert_eq!(
        store(&mut session, b"k", &vec![0; 1 << 20], 0, Expiry::Never, NOW),
        Err(StoreError::TooLarge)
    );
    let spec =
        ItemSpec { value_len: 2 << 20, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    assert_eq!(session.begin_value(b"k", spec).err(), Some(StoreError::TooLarge));
    assert_eq!(value_of(&mut session, b"k", NOW).unwrap().value, b"v");
}

fn a_smaller_cache_comes_to_keep_its_ceiling_and_goes_on<E: Engine>(engine: E) {
    let mut session = engine.session();
    let name = |i: u32| format!("key-{i:08}").into_bytes();
    for i in 0..80_000 {
        store(&mut session, &name(i), &[i as u8; 100], 0, Expiry::Never, NOW).unwrap();
    }
    let before = engine.stats();
    let half = before.memory_limit as usize / 2;
    assert!(engine.resize(usize::MAX).is_err() && engine.resize(0).is_err());
    assert_eq!(engine.stats().memory_limit, before.memory_limit, "what is refused changes nothing");
    engine.resize(half).unwrap();
    let mut stored = 80_000;
    // To ask for the statistics takes longer than to store an item.
    while stored % 64 != 0 || stored < 90_000 || engine.stats().memory_used > half as u64 {
        store(&mut session, &name(stored), &[stored as u8; 100], 0, Expiry::Never, NOW).unwrap();
        assert!(value_of(&mut session, &name(stored), NOW).is_some(), "what is stored meanwhile is there");
        session.maintain(NOW, Pace::Busy, 64);
        session.quiesce();
        stored += 1;
        assert!(stored < 1_000_000, "the ceiling is not reached: {:?}", engine.stats());
    }
    let after = engine.stats();
    assert_eq!(after.memory_limit, half as u64);
    assert_eq!(after.items + after.evictions, u64::from(stored), "what had to go was counted");
    engine.resize(before.memory_limit as usize).unwrap();
    for i in stored..stored + 10_000 {
        store(&mut session, &name(i), &[i as u8; 100], 0, Expiry::Never, NOW).unwrap();
    }
    // An index that is lossy by design gives up an item now and then, however much memory there is.
    let for_memory = |stats: EngineStats| stats.evictions - stats.index_evictions;
    assert_eq!(for_memory(engine.stats()), for_memory(after), "more memory can be used at once");
}

fn an_engine_is_closed_when_nobody_uses_it<E: Engine>(engine: E) {
    let mut session = engine.session();
    store(&mut session, b"k", b"v", 0, Expiry::Never, NOW).unwrap();
    drop(session);
    engine.close(NOW, b"notes").unwrap();
}
