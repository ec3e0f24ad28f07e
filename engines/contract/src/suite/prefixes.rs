//! Deletes by prefix: `Control::flush_prefixes`.

use super::sink::{pin_of, settle, store, value_of};
use crate::{Amendment, Decision, Expiry, ItemState, ItemView, NewItem, Provision, Recency, Value};
use crate::{Engine, FlushBusy, Key, PREFIXES_MAX, Pace, Session, ValuePin};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Runs all of them on engines of their own.
pub fn prefixes<E: Engine>(open: &impl Fn(usize) -> E) {
    let cases: [fn(E); 11] = [
        a_prefix_takes_what_was_stored_before_under_it_and_nothing_else,
        several_prefixes_go_together_up_to_a_limit,
        the_memory_comes_free_in_the_background_and_other_items_stay,
        beside_requests_the_crawler_has_turns_and_its_steps_are_short,
        after_so_many_at_once_more_are_refused_until_they_are_removed,
        what_is_alive_outlives_any_number_of_prefixes,
        what_was_deleted_does_not_come_back_by_any_change,
        what_is_changed_in_place_is_judged_by_when_it_was_stored,
        a_flush_of_everything_ends_and_outlasts_prefixes,
        a_crawl_under_way_forgets_nothing_that_came_after_it_began,
        long_values_go_too_and_stay_with_who_is_sent_them,
    ];
    for case in cases {
        case(open(16 << 20));
    }
}

fn put<S: Session>(session: &mut S, key: &str) {
    store(session, key.as_bytes(), key.as_bytes(), 0, Expiry::Never, NOW).unwrap();
}

fn has<S: Session>(session: &mut S, key: &str) -> bool {
    value_of(session, key.as_bytes(), NOW).is_some()
}

fn flush<E: Engine>(engine: &E, prefix: &str) -> Result<(), FlushBusy> {
    engine.flush_prefixes(NOW, &[prefix.as_bytes()])
}

fn update<'d, S: Session>(
    session: &mut S,
    key: &str,
    decide: impl FnMut(Option<&dyn ItemView>) -> Decision<'d>,
) {
    let key = Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) };
    session.update(key, Default::default(), NOW, Provision::None, decide).expect("there is memory");
}

fn a_prefix_takes_what_was_stored_before_under_it_and_nothing_else<E: Engine>(engine: E) {
    let mut session = engine.session();
    let others = ["user", "users:1", "User:1", "a user:1", "\u{1}"];
    for key in others.iter().chain(&["user:1", "user:2", "user:"]) {
        put(&mut session, key);
    }
    flush(&engine, "user:").unwrap();
    put(&mut session, "user:2");
    assert!(!has(&mut session, "user:1") && !has(&mut session, "user:"));
    assert!(has(&mut session, "user:2"), "it was stored afterwards");
    assert!(others.iter().all(|key| has(&mut session, key)));
    // A key is a prefix of itself, however long.
    let long = "x".repeat(crate::KEY_MAX);
    put(&mut session, &long);
    flush(&engine, &long).unwrap();
    assert!(!has(&mut session, &long));
}

fn several_prefixes_go_together_up_to_a_limit<E: Engine>(engine: E) {
    let mut session = engine.session();
    let names: Vec<String> = (0..PREFIXES_MAX).map(|number| format!("{number:02}:")).collect();
    let key = |name: &str| format!("{name}key");
    names.iter().for_each(|name| put(&mut session, &key(name)));
    put(&mut session, "kept");
    let all: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    engine.flush_prefixes(NOW, &all).unwrap();
    assert!(names.iter().all(|name| !has(&mut session, &key(name))) && has(&mut session, "kept"));
    // There is no room for as many more until these are forgotten.
    assert_eq!(engine.flush_prefixes(NOW, &all), Err(FlushBusy));
    settle(&mut session, NOW);
    engine.flush_prefixes(NOW, &all).unwrap();
}

fn the_memory_comes_free_in_the_background_and_other_items_stay<E: Engine>(engine: E) {
    let mut session = engine.session();
    for number in 0..4000 {
        put(&mut session, &format!("{}{number}", if number % 4 == 0 { "gone:" } else { "kept:" }));
    }
    flush(&engine, "gone:").unwrap();
    settle(&mut session, NOW);
    assert_eq!(engine.stats().items, 3000);
    assert!((0..4000).all(|number| number % 4 == 0 || has(&mut session, &format!("kept:{number}"))));
    assert_eq!(engine.stats().evictions, 0);
}

/// Items that a step of the crawler may look at: it takes some ten microseconds.
const STEP_MAX: u64 = 256;

fn beside_requests_the_crawler_has_turns_and_its_steps_are_short<E: Engine>(engine: E) {
    let mut session = engine.session();
    for number in 0..20_000 {
        put(&mut session, &format!("{}{number}", if number % 4 == 0 { "gone:" } else { "kept:" }));
    }
    settle(&mut session, NOW);
    flush(&engine, "gone:").unwrap();
    let checked = || engine.stats().crawler_checked;
    let before = checked();
    for _ in 0..2000 {
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 32);
    }
    assert_eq!(checked(), before, "it had no turn");
    let (mut seen, mut steps) = (before, 0);
    while session.maintain(NOW, Pace::Crawl, 1) > 0 {
        session.quiesce();
        let looked = checked() - std::mem::replace(&mut seen, checked());
        assert!(looked <= STEP_MAX, "{looked} items in a step");
        steps += 1;
    }
    assert!((20_000 / STEP_MAX..2000).contains(&steps), "{steps} steps");
    assert_eq!(engine.stats().items, 15_000);
    assert!(seen - before >= 20_000);
    // It was everywhere: a generation is free again.
    assert!((0..6).all(|_| flush(&engine, "other").is_ok()));
    assert!((0..20_000).all(|number| number % 4 == 0 || has(&mut session, &format!("kept:{number}"))));
}

fn after_so_many_at_once_more_are_refused_until_they_are_removed<E: Engine>(engine: E) {
    let mut session = engine.session();
    for round in 0..20 {
        let mut flushed = Vec::new();
        loop {
            let key = format!("{round}-{}:", flushed.len());
            put(&mut session, &key);
            if flush(&engine, &key).is_err() {
                assert!(has(&mut session, &key), "what is refused changes nothing");
                break;
            }
            flushed.push(key);
        }
        assert!((4..=8).contains(&flushed.len()), "{}", flushed.len());
        assert!(flushed.iter().all(|key| !has(&mut session, key)));
        settle(&mut session, NOW);
        assert!(flushed.iter().all(|key| !has(&mut session, key)));
    }
}

fn what_is_alive_outlives_any_number_of_prefixes<E: Engine>(engine: E) {
    let mut session = engine.session();
    put(&mut session, "old");
    for round in 0..60 {
        let key = format!("round:{round}");
        put(&mut session, &key);
        while flush(&engine, "round:").is_err() {
            session.maintain(NOW, Pace::Crawl, 10);
            session.quiesce();
        }
        assert!((0..=round).all(|round| !has(&mut session, &format!("round:{round}"))));
        assert!(has(&mut session, "old"), "round {round}");
        // The crawl is anywhere when the next one comes.
        session.maintain(NOW, Pace::Idle, round % 7);
        session.quiesce();
    }
}

/// With values that fit where they lie, and such that do not.
fn what_was_deleted_does_not_come_back_by_any_change<E: Engine>(engine: E) {
    let mut session = engine.session();
    let cas = session.next_cas();
    let new = |value| NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value };
    let amendment = |number| match number {
        0 => Amendment { expiry: Some(Expiry::At(Seconds(2000))), ..Amendment::default() },
        1 => Amendment { cas: Some(cas), ..Amendment::default() },
        _ => Amendment { set: ItemState::STALE, recency: Recency::Bump, ..Amendment::default() },
    };
    for number in 0..8 {
        let key = format!("deleted:{number}");
        put(&mut session, &key);
        while flush(&engine, "deleted:").is_err() {
            settle(&mut session, NOW);
        }
        let mut seen = false;
        update(&mut session, &key, |item| {
            seen |= item.is_some();
            match number {
                0..3 => Decision::Amend(amendment(number)),
                3 => Decision::Put(new(Value::Joined { before: b"b", after: b"a" })),
                4 => item.map_or(Decision::Keep, |_| Decision::Put(new(Value::Bytes(b"x")))),
                5 => Decision::Put(new(Value::Bytes(&[7; 3000]))),
                6 => Decision::Remove,
                _ => Decision::Keep,
            }
        });
        assert!(!seen, "a decision has seen what was deleted ({number})");
        let value = value_of(&mut session, key.as_bytes(), NOW).map(|found| found.value);
        let expected = match number {
            3 => Some(b"ba".to_vec()),
            5 => Some(vec![7; 3000]),
            _ => None,
        };
        assert_eq!(value, expected, "{number}");
    }
}

/// A change of an item makes it no newer, and a store over it does.
fn what_is_changed_in_place_is_judged_by_when_it_was_stored<E: Engine>(engine: E) {
    let mut session = engine.session();
    for key in ["a", "b", "c"] {
        store(&mut session, key.as_bytes(), b"12345678", 0, Expiry::At(Seconds(5000)), NOW).unwrap();
    }
    flush(&engine, "other").unwrap();
    let later = Amendment { expiry: Some(Expiry::At(Seconds(6000))), ..Amendment::default() };
    update(&mut session, "a", |_| Decision::Amend(later));
    store(&mut session, b"b", b"87654321", 0, Expiry::At(Seconds(5000)), NOW).unwrap();
    for prefix in ["a", "b", "c"] {
        assert!(has(&mut session, prefix));
        flush(&engine, prefix).unwrap();
        assert!(!has(&mut session, prefix), "{prefix}");
    }
    store(&mut session, b"c", b"abcdefgh", 0, Expiry::At(Seconds(5000)), NOW).unwrap();
    assert!(has(&mut session, "c"));
    settle(&mut session, NOW);
    assert!(has(&mut session, "c") && engine.stats().items == 1);
}

fn a_flush_of_everything_ends_and_outlasts_prefixes<E: Engine>(engine: E) {
    let mut session = engine.session();
    for round in 0..30 {
        put(&mut session, "a1");
        put(&mut session, "b1");
        let is_taken = flush(&engine, "a").is_ok();
        assert_eq!((has(&mut session, "a1"), has(&mut session, "b1")), (!is_taken, true), "round {round}");
        engine.flush(NOW, NOW);
        assert!(!has(&mut session, "a1") && !has(&mut session, "b1"), "round {round}");
        if round % 5 == 0 {
            settle(&mut session, NOW);
        }
    }
    engine.flush(NOW, Seconds(1010));
    put(&mut session, "k");
    settle(&mut session, NOW);
    flush(&engine, "other").unwrap();
    assert!(has(&mut session, "k"));
    assert!(value_of(&mut session, b"k", Seconds(1010)).is_none(), "a flush that is due stays so");
}

/// Also if everything was flushed meanwhile.
fn a_crawl_under_way_forgets_nothing_that_came_after_it_began<E: Engine>(engine: E) {
    let mut session = engine.session();
    for flushes_all in [false, true] {
        let mut deleted = Vec::new();
        (0..20_000).for_each(|number| put(&mut session, &format!("fill:{number}")));
        flush(&engine, "first").unwrap();
        session.maintain(NOW, Pace::Idle, 20);
        session.quiesce();
        flush(&engine, "second").unwrap();
        if flushes_all {
            engine.flush(NOW, NOW);
        }
        // In all partitions.
        assert!((0..300).all(|number| has(&mut session, &format!("fill:{number}")) != flushes_all));
        for round in 0..9 {
            let prefix = format!("deleted{round}:");
            (0..300).for_each(|number| put(&mut session, &format!("{prefix}{number}")));
            if flush(&engine, &prefix).is_ok() {
                deleted.push(prefix);
            }
        }
        while session.maintain(NOW, Pace::Idle, 16) > 0 {
            session.quiesce();
            if flush(&engine, "next").is_ok() {
                break;
            }
        }
        for prefix in deleted {
            assert!((0..300).all(|number| !has(&mut session, &format!("{prefix}{number}"))), "{prefix}");
        }
        settle(&mut session, NOW);
    }
}

fn long_values_go_too_and_stay_with_who_is_sent_them<E: Engine>(engine: E) {
    let mut session = engine.session();
    let value: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    for key in ["long:1", "kept:1"] {
        store(&mut session, key.as_bytes(), &value, 0, Expiry::Never, NOW).unwrap();
    }
    let pins = ["long:1", "kept:1"].map(|key| pin_of(&mut session, key.as_bytes(), Recency::Leave, NOW));
    let pins = pins.map(|pin| pin.expect("it is long"));
    flush(&engine, "long:").unwrap();
    settle(&mut session, NOW);
    assert!(!has(&mut session, "long:1"));
    assert_eq!(value_of(&mut session, b"kept:1", NOW).expect("it is alive").value, value);
    for pin in &pins {
        let mut sent = Vec::new();
        while sent.len() < value.len() {
            let piece = pin.piece(sent.len());
            assert!(!piece.is_empty());
            sent.extend_from_slice(piece);
        }
        assert!(sent == value);
    }
}
