//! Engines go on where others have left off. [`restarts!`](crate::restarts) makes a test of each of these functions.

mod amounts;
mod head;
mod model;

pub use amounts::{
    a_region_without_room_is_not_lost, another_amount_of_memory_is_taken_over_and_reached,
    counters_and_gauges_are_as_they_were,
};
pub use head::{
    another_engine_begins_with_nothing, no_head_with_a_byte_changed_is_believed,
    no_state_makes_an_engine_panic_or_serve_another_value,
};
pub use model::{
    other_suites_hold_in_a_region_that_lasts, what_threads_have_left_is_restored_whatever_they_did,
    whatever_was_not_counted_as_lost_is_there_after_any_number_of_restarts,
};

use super::lasting::{LATER, Lasting, NOTES, NOW, RegionSize, Site, UNIX, close, put, reason};
use super::sink::{remove, value_of};
use super::walks::walk_all;
use crate::{
    Amendment, CloseError, Decision, ItemSpec, ItemState, NotHandedOver, OldItem, Provision, Session,
};
use crate::{Control, Emptied, Engine, Expiry, Key, Opened, Opening, Pace};
use guira_memory::MIB;
use guira_memory::lasting::Loss;
use guira_sync::clock::{Seconds, TimeBase};

/// Makes a test of each restart that an engine has to survive, for an expression that is [`Lasting`](crate::suite::Lasting).
#[macro_export]
macro_rules! restarts {
    ($setup:expr) => {
        $crate::restarts! { $setup;
            everything_about_an_item_is_there_again,
            a_region_that_was_not_closed_is_emptied,
            two_engines_never_share_a_region,
            a_region_that_was_set_up_in_another_way_is_emptied_and_says_why,
            time_goes_on_between_two_runs_and_never_back,
            what_was_flushed_stays_flushed_across_many_restarts,
            prefixes_stay_deleted_across_restarts_and_nothing_else_goes,
            a_walk_after_a_restart_shows_everything,
            a_region_without_room_is_not_lost,
            another_amount_of_memory_is_taken_over_and_reached,
            counters_and_gauges_are_as_they_were,
            another_engine_begins_with_nothing,
            no_head_with_a_byte_changed_is_believed,
            no_state_makes_an_engine_panic_or_serve_another_value,
            whatever_was_not_counted_as_lost_is_there_after_any_number_of_restarts,
            other_suites_hold_in_a_region_that_lasts,
            what_threads_have_left_is_restored_whatever_they_did,
        }
    };
    ($setup:expr; $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::suite::restarts::$case(&$setup);
            }
        )*
    };
}

/// Key, value, flags, expiry, cas unique, state, class and last access of an item, the notes, the time and the cas uniques.
pub fn everything_about_an_item_is_there_again<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(16 * MIB));
    let Opened { engine, opening, notes, base, .. } = site.open();
    assert_eq!((opening, notes.len()), (Opening::New, 0));
    assert_eq!(base, TimeBase { unix: UNIX + LATER - 2, reached: Seconds(2) });
    let mut session = engine.session();
    let spec =
        |value_len| ItemSpec { value_len, flags: 7, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let length = if session.fits(4, &spec(300_000)) { 300_000 } else { 100_000 };
    let long: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
    let keys = ["short", "long", "empty", "plain"];
    put(&mut session, "short", b"value", Expiry::Never);
    put(&mut session, "long", &long, Expiry::At(Seconds(2000)));
    put(&mut session, "empty", b"", Expiry::At(Seconds(3000)));
    put(&mut session, "plain", &[9; 77], Expiry::Never);
    let cas = session.next_cas();
    let change = || Amendment { cas: Some(cas), set: ItemState::STALE, ..Amendment::default() };
    let short = Key { bytes: b"short", hash: session.hash(b"short") };
    let amended =
        session.update(short, Default::default(), NOW, Provision::None, |_| Decision::Amend(change()));
    amended.expect("it can be changed");
    // The first read changes the state, the next one finds it so.
    let read = |session: &mut _| keys.map(|key| value_of(session, key.as_bytes(), NOW).expect("it is there"));
    read(&mut session);
    let before = read(&mut session);
    let stats = engine.stats();
    drop(session);
    close(engine);

    let Opened { engine, opening, notes, base, .. } = site.open();
    assert_eq!((opening, notes.as_slice()), (Opening::Restored { items: 4 }, NOTES));
    let reached = TimeBase { unix: UNIX + LATER - u64::from(NOW.0), reached: NOW };
    assert_eq!(base, reached, "the wall clock is behind");
    let mut session = engine.session();
    for (key, (before, after)) in keys.iter().zip(before.into_iter().zip(read(&mut session))) {
        assert!(after.value == before.value && after.meta.state.has(ItemState::FETCHED), "{key}");
        assert_eq!(after.meta, before.meta, "{key}");
    }
    assert!(value_of(&mut session, b"long", Seconds(2000)).is_none(), "it expires when it would have");
    assert!(session.next_cas() > cas);
    let again = engine.stats();
    assert_eq!((again.total_items, again.memory_used), (stats.total_items, stats.memory_used));
    drop(session);
    site.check(&engine);
}

/// As after a kill, or if something uses the engine when it is to be closed, or the notes are too long.
pub fn a_region_that_was_not_closed_is_emptied<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    site.close_with_one_item();
    drop(site.restored(1));
    let emptied = site.open();
    assert_eq!(reason(&emptied), &Emptied::Lost(Loss::NotClosed));
    let engine = emptied.engine;
    let mut session = engine.session();
    assert_eq!((engine.stats().items, value_of(&mut session, b"k", NOW)), (0, None));
    let other = engine.clone();
    let NotHandedOver { engine, why } = engine.hand_over(NOW, b"").expect_err("it is in use");
    assert!(matches!(why, CloseError::InUse) && engine.stats().items == 0, "it comes back: {why}");
    assert!(matches!(engine.close(NOW, b""), Err(CloseError::InUse)), "a session and another handle exist");
    drop(session);
    assert!(matches!(other.close(NOW, &[0; 20_000]), Err(CloseError::Notes(20_000))));
    assert_eq!(reason(&site.open()), &Emptied::Lost(Loss::NotClosed));
}

/// The second is refused, and changes nothing.
pub fn two_engines_never_share_a_region<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    let first = site.open().engine;
    let second = setup.open(site.size, &site.place(), UNIX);
    let error = second.expect_err("the file is in use").to_string();
    assert!(error.contains("as a region"), "{error}");
    close(first);
    site.restored(0);
}

/// What the options of both setups decide has to be the same, or not to matter.
pub fn a_region_that_was_set_up_in_another_way_is_emptied_and_says_why<L: Lasting>(setup: &L) {
    let mut emptied = Vec::new();
    for (other, text) in setup.incompatible() {
        let site = Site::new(setup, RegionSize::of(8 * MIB));
        site.close_with_one_item();
        let opened = Site { setup: other, ..site }.open();
        emptied.push((opened, text));
    }
    let site = Site::new(setup, RegionSize::of(8 * MIB));
    site.close_with_one_item();
    emptied.push((site.open_with(64 * MIB), "up to 33554432 bytes"));
    for (opened, text) in emptied {
        assert!(reason(&opened).to_string().contains(text), "{}", opened.opening);
        let mut session = opened.engine.session();
        assert!(value_of(&mut session, b"k", NOW).is_none());
        put(&mut session, "k", b"new", Expiry::Never);
        assert!(value_of(&mut session, b"k", NOW).is_some());
    }
    let mut site = Site::new(setup, RegionSize::of(8 * MIB));
    site.close_with_one_item();
    let smaller = site.open_with(2 * MIB);
    assert_eq!(smaller.opening, Opening::Restored { items: 1 });
    close(smaller.engine);
    for other in setup.compatible() {
        site.setup = other;
        let engine = site.restored(1);
        let found = value_of(&mut engine.session(), b"k", NOW);
        assert!(found.is_some_and(|found| found.value == b"v"));
        close(engine);
    }
}

/// Items expire and flushes fall due while nothing uses the Region. If the wall clock was set back, no time has passed.
pub fn time_goes_on_between_two_runs_and_never_back<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    let Opened { engine, base, .. } = site.open_at(UNIX);
    assert_eq!(base.unix, UNIX - 2);
    let mut session = engine.session();
    put(&mut session, "expired", b"v", Expiry::At(Seconds(900)));
    put(&mut session, "soon", b"v", Expiry::At(Seconds(1100)));
    put(&mut session, "later", b"v", Expiry::At(Seconds(5000)));
    engine.flush(NOW, Seconds(3000));
    drop(session);
    close(engine);
    let an_hour_back = UNIX + LATER - 3600;
    let Opened { engine, base, .. } = site.open_at(an_hour_back);
    assert_eq!(base, TimeBase { unix: UNIX - 2 - 3600, reached: NOW });
    let mut session = engine.session();
    assert!(value_of(&mut session, b"expired", base.reached).is_none());
    assert!(value_of(&mut session, b"soon", base.reached).is_some());
    drop(session);
    engine.close(base.reached, b"").expect("nothing uses it");
    let Opened { engine, base, .. } = site.open_at(an_hour_back + 1500);
    assert_eq!(base.reached, Seconds(2500));
    let mut session = engine.session();
    assert!(value_of(&mut session, b"soon", base.reached).is_none());
    assert!(value_of(&mut session, b"later", Seconds(2999)).is_some());
    assert!(value_of(&mut session, b"later", Seconds(3000)).is_none(), "the flush is still due");
    drop(session);
    engine.close(base.reached, b"").expect("nothing uses it");
    assert_eq!(reason(&site.open_at(UNIX + (1 << 31))), &Emptied::TooOld);
}

/// Generations of flushes come round: the item of eight rounds ago has the one of those that are stored now, and nothing has met it since.
pub fn what_was_flushed_stays_flushed_across_many_restarts<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    let is_there =
        |session: &mut _, round: u32| value_of(session, format!("flushed{round}").as_bytes(), NOW).is_some();
    for round in 8..40 {
        let engine = site.open().engine;
        let mut session = engine.session();
        assert!(!is_there(&mut session, round - 8), "{round}");
        put(&mut session, &format!("flushed{round}"), b"v", Expiry::Never);
        engine.flush(NOW, NOW);
        put(&mut session, "kept", b"v", Expiry::Never);
        drop(session);
        close(engine);
        let engine = site.open().engine;
        assert!(value_of(&mut engine.session(), b"kept", NOW).is_some());
        close(engine);
    }
    let mut session = site.open().engine.session();
    assert!((8..40).all(|round| !is_there(&mut session, round)));
}

/// Whatever the crawler has found by then, also if the next process deletes other prefixes.
pub fn prefixes_stay_deleted_across_restarts_and_nothing_else_goes<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    let is_there = |session: &mut _, key: &str| value_of(session, key.as_bytes(), NOW).is_some();
    for round in 0..30 {
        let engine = site.open().engine;
        let mut session = engine.session();
        let key = format!("gone{round}:");
        assert!((0..100).all(|number| put(&mut session, &format!("{key}{number}"), b"v", Expiry::Never)));
        if round > 0 {
            (0..round).for_each(|round| assert!(!is_there(&mut session, &format!("gone{round}:7"))));
            (0..2000).for_each(|number| assert!(is_there(&mut session, &format!("kept{number}")), "{round}"));
        }
        while engine.flush_prefixes(NOW, &[key.as_bytes()]).is_err() {
            session.maintain(NOW, Pace::Idle, 4);
            session.quiesce();
        }
        if round == 0 {
            assert!((0..2000).all(|n| put(&mut session, &format!("kept{n}"), b"v", Expiry::Never)));
        }
        session.maintain(NOW, Pace::Idle, round % 5);
        drop(session);
        close(engine);
    }
}

/// It shows what is there, and nothing that was removed or evicted.
pub fn a_walk_after_a_restart_shows_everything<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(8 * MIB));
    let engine = site.open().engine;
    let mut session = engine.session();
    for number in 0..30_000 {
        put(&mut session, &format!("key{number}"), &vec![1; number * 7 % 750], Expiry::Never);
        if number % 5 == 0 {
            remove(&mut session, format!("key{}", number / 2).as_bytes(), NOW);
        }
    }
    drop(session);
    let items = engine.stats().items;
    close(engine);
    let engine = site.restored(items);
    let mut session = engine.session();
    let walked = walk_all(&mut session, NOW);
    assert!(walked.len() as u64 == items && walked.values().all(|times| *times == 1));
    assert!(walked.keys().all(|key| value_of(&mut session, key, NOW).is_some()));
}
