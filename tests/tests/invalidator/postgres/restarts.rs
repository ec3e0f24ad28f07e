//! Whatever ends and begins again, no delete is lost in silence.

use super::{Fleet, Settings};
use crate::{ARRIVAL_MAX, metric};
use guira_harness::server::Signal;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::postgres::Shutdown;
use guira_tests::server::wait_for_log;
use std::collections::BTreeSet;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn no_delete_is_lost_by_restarts_and_gaps_are_told() {
    let Some(mut fleet) = Fleet::start("max_slot_wal_keep_size = 64MB") else { return };
    nothing_is_lost_by_kills(&fleet);
    nothing_is_lost_by_restarts_of_the_database(&mut fleet);
    the_slot_is_a_position_too(&fleet);
    a_slot_that_was_dropped_is_a_gap(&fleet);
    a_slot_that_is_ahead_is_a_gap(&fleet);
    a_slot_that_is_lost_is_a_gap(&fleet);
    a_database_that_was_promoted_is_followed(&mut fleet);
}

/// Transactions of one row and of a thousand, while invalidators are killed. Some rounds have none at first.
fn nothing_is_lost_by_kills(fleet: &Fleet) {
    const ROUNDS: u64 = 20;
    const KEYS: u64 = 400;
    fleet.invalidator(Settings::default()).wait_until_ready();
    let id = |round: u64, number: u64| 1_000_000 * (round + 1) + number;
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let keys: Vec<_> = (0..KEYS).map(|number| format!("user:{}", id(round, number))).collect();
        fleet.caches.store(&keys);
        all.extend(keys);
        let rows = |numbers: std::ops::Range<u64>| {
            let rows: Vec<_> = numbers.map(|number| format!("({})", id(round, number))).collect();
            format!("INSERT INTO users (id) VALUES {};\n", rows.join(","))
        };
        let mut statements: String = (0..50).map(|number| rows(number..number + 1)).collect();
        statements += &rows(50..KEYS - 50);
        statements.extend((KEYS - 50..KEYS).map(|number| rows(number..number + 1)));
        let mut invalidator = (round % 3 > 0).then(|| fleet.invalidator(Settings::default()));
        if round % 3 == 2 {
            invalidator.as_mut().expect("one was started").wait_until_ready();
        }
        fleet.execute(&statements);
        if let Some(invalidator) = &mut invalidator {
            // Killed as soon as some, but not always all, deletes of the round have arrived.
            let first = all[all.len() - KEYS as usize + (round as usize * 17) % 300].clone();
            fleet.caches.wait_for_delete(&first);
            invalidator.process.signal(Signal::KILL);
            invalidator.process.wait(PATIENCE).unwrap();
        }
    }
    let mut invalidator = fleet.invalidator(Settings::default());
    invalidator.wait_until_ready();
    fleet.catch_up("killed");
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(fleet.caches.kept(&all), [BTreeSet::new(), BTreeSet::new()]);
    invalidator.end();
}

fn nothing_is_lost_by_restarts_of_the_database(fleet: &mut Fleet) {
    let mut invalidator = fleet.invalidator(Settings::default());
    let mut admin = invalidator.wait_until_ready();
    for (number, how) in [Shutdown::Fast, Shutdown::Immediate].into_iter().enumerate() {
        let key = format!("user:{}", 500 + number);
        fleet.caches.store([&key]);
        fleet.execute(&format!("INSERT INTO users (id) VALUES ({})", 500 + number));
        fleet.database.stop(how);
        fleet.database.run_again();
        fleet.catch_up(&format!("restarted-{number}"));
        fleet.caches.expect_gone(&[&key], &[]);
    }
    assert!(metric(&mut admin, "guira_invalidator_source_failures_total") >= 2);
    assert_eq!(metric(&mut admin, "guira_invalidator_gaps_total"), 0);
    // A log that goes on without changes that concern anybody is acknowledged too, so that it need not be kept.
    fleet.execute(
        "CREATE TEMP TABLE t (id int); SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))",
    );
    fleet.wait_until_confirmed();
    invalidator.end();
}

/// The position file is lost; the slot knows what was acknowledged.
fn the_slot_is_a_position_too(fleet: &Fleet) {
    fleet.caches.store(["user:601"]);
    fleet.execute("INSERT INTO users (id) VALUES (601)");
    std::fs::remove_file(fleet.scratch.file("position")).expect("there is one");
    let mut invalidator = fleet.invalidator(Settings::default());
    invalidator.wait_until_ready();
    fleet.caches.wait_for_delete("user:601");
    invalidator.end();
}

/// A gap ends the process, or flushes the targets; both are tried.
#[track_caller]
fn expect_gap(fleet: &Fleet, expected: &str) {
    fleet.caches.store(["anything"]);
    let errors = fleet.invalidator(Settings::default()).wait_for_fault();
    assert!(errors.contains("log has a gap") && errors.contains("flush the caches"), "{errors}");
    assert!(errors.contains(expected), "{errors}");
    fleet.caches.expect_gone(&[], &["anything"]);
    let mut invalidator = fleet.invalidator(Settings { top: "on-gap = \"flush\"", ..Settings::default() });
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("after-the-gap");
    fleet.caches.expect_gone(&["anything"], &[]);
    assert_eq!(metric(&mut admin, "guira_invalidator_gaps_total"), 1);
    invalidator.end();
    // The next one goes on from there, and flushes nothing.
    fleet.caches.store(["anything", "user:1"]);
    let mut invalidator = fleet.invalidator(Settings::default());
    invalidator.wait_until_ready();
    fleet.catch_up("later");
    fleet.caches.expect_gone(&[], &["anything"]);
    invalidator.end();
}

/// The database sees a little later than everybody else that a process has ended which has read from the slot.
#[track_caller]
fn wait_until_free(fleet: &Fleet) {
    let is_free = || (fleet.slot("active") == "f").then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_free).expect("nobody reads from the slot");
}

fn a_slot_that_was_dropped_is_a_gap(fleet: &Fleet) {
    wait_until_free(fleet);
    fleet.execute("SELECT pg_drop_replication_slot('guira'); INSERT INTO users (id) VALUES (701)");
    expect_gap(fleet, "slot guira no longer exists");
}

/// Somebody else has read from it, or has made it again.
fn a_slot_that_is_ahead_is_a_gap(fleet: &Fleet) {
    wait_until_free(fleet);
    fleet.execute(
        "INSERT INTO users (id) VALUES (702);
         SELECT pg_replication_slot_advance('guira', pg_current_wal_lsn())",
    );
    expect_gap(fleet, ", after the position");
}

/// More was to be kept than the database is allowed to keep.
fn a_slot_that_is_lost_is_a_gap(fleet: &Fleet) {
    let write = "INSERT INTO users (id) VALUES (800 + (random() * 1e9)::int);
         SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, 60);
         SELECT pg_switch_wal(); CHECKPOINT";
    let is_lost = || {
        fleet.execute(write);
        (fleet.slot("wal_status") == "lost").then_some(())
    };
    Deadline::after(ARRIVAL_MAX).poll(is_lost).expect("the slot is lost");
    expect_gap(fleet, "slot guira is lost");
}

/// The log of the new timeline begins where the old one has ended.
fn a_database_that_was_promoted_is_followed(fleet: &mut Fleet) {
    fleet.caches.store(["user:901", "user:902"]);
    fleet.execute("INSERT INTO users (id) VALUES (901)");
    fleet.database.stop(Shutdown::Fast);
    fleet.database.make_standby();
    fleet.database.run_again();
    let mut invalidator = fleet.invalidator(Settings::default());
    wait_for_log(|| invalidator.process.errors(), "the database is a standby");
    fleet.execute("SELECT pg_promote()");
    fleet.execute("INSERT INTO users (id) VALUES (902)");
    invalidator.wait_until_ready();
    fleet.catch_up("promoted");
    fleet.caches.expect_gone(&["user:901", "user:902"], &[]);
    invalidator.end();
    let position = std::fs::read_to_string(fleet.scratch.file("position")).expect("there is one");
    assert!(position.contains("-2-0/"), "of timeline 2: {position}");
}
