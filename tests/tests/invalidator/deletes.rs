//! What a database changes is deleted in all caches, and nothing else.

use super::mysql::transactions_may_be_prepared;
use super::{ARRIVAL_MAX, Fleet, Invalidator, metric, wait_for_lag};
use guira_harness::server::Signal;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::http::HttpClient;
use guira_tests::skip::say;
use std::collections::BTreeSet;
use std::fs;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn what_a_database_changes_is_deleted_everywhere() {
    let Some(fleet) = Fleet::start() else {
        say("MariaDB is not installed (Debian: mariadb-server)");
        return;
    };
    let mut invalidator = Invalidator::start(&fleet, "");
    let mut admin = invalidator.wait_until_ready();
    keys_of_changes_are_deleted_and_no_others(&fleet);
    assert_eq!(metric(&mut admin, "guira_invalidator_refused_keys_total"), 4);
    assert!(metric(&mut admin, "guira_invalidator_delete_hits_total{target=\"west\"}") >= 10);
    assert_eq!(metric(&mut admin, "guira_invalidator_unfilled_templates_total"), 0);
    the_lag_is_told_in_bytes(&fleet, &mut admin);
    the_log_may_be_compressed(&fleet);
    a_table_may_be_altered_meanwhile(&fleet);
    statements_without_rows_are_told(&fleet, &mut admin);
    transactions_may_be_prepared(&fleet, &mut invalidator);
    invalidator.end();
    nothing_is_lost_by_kills(&fleet, 6);
    a_gap_is_an_error(&fleet);
    a_gap_is_flushed_if_that_is_wanted(&fleet);
    a_second_reader_of_the_same_number_flushes_nothing(&fleet);
    only_the_servers_concerned_are_flushed(&fleet);
}

#[track_caller]
pub(super) fn expect_gone(fleet: &Fleet, gone: &[&str], kept: &[&str]) {
    fleet.caches.expect_gone(gone, kept);
}

pub(super) fn keys_of_changes_are_deleted_and_no_others(fleet: &Fleet) {
    let high = "user:18446744073709551615";
    let gone = [
        "user:1",
        "user:2",
        "user:3",
        high,
        "name:Zoë😀",
        "name:old",
        "name:new",
        "name:it's\"`",
        "level:200:2026",
        "level:1:1999",
        "list:a",
        "list:b",
        "list:Zoë😀'\"",
        "list:deleted",
        "list:one",
        "outbox:1",
        "outbox:2",
    ];
    let kept = [
        "user:4",
        "user:18",
        "name:other",
        "level:200:0",
        "list:text",
        "list:rolled-back",
        "user:5",
        "outbox:3",
    ];
    fleet.database.execute("INSERT INTO shop.users (id, name) VALUES (2, 'old'), (3, 'gone'), (4, 'other')");
    fleet.catch_up("first");
    fleet.store(gone.iter().chain(&kept));
    fleet.database.execute(
        "USE shop;
         INSERT INTO users VALUES (1, 2026, -1.5, '2026-01-02 03:04:05.678', 'b', 'Zoë😀', 200);
         UPDATE users SET name = 'new' WHERE id = 2;
         DELETE FROM users WHERE id = 3;
         INSERT INTO users (id, name, level, year) VALUES (18446744073709551615, 'it''s\"`', 1, 1999);
         INSERT INTO others VALUES (1) /* mc: list:a list:b */;
         UPDATE /*mc:list:Zoë😀'\"*/ others SET id = 2;
         /* mc: list:deleted
             */ DELETE FROM others;
         INSERT INTO others VALUES (length('/* mc: list:text */'));
         INSERT INTO outbox (cached) VALUES ('outbox:1 outbox:2'), (NULL);
         UPDATE outbox SET cached = 'outbox:3' WHERE id = 2;
         DELETE FROM outbox;
         BEGIN; INSERT INTO users (id) VALUES (5) /* mc: list:rolled-back */; ROLLBACK;
         BEGIN; INSERT INTO others VALUES (6) /* mc: list:one */; INSERT INTO others VALUES (7); COMMIT;",
    );
    let long = "x".repeat(246);
    let refused = format!(
        "INSERT INTO shop.users (id, name) VALUES (10, 'a b'), (11, 'a\\nb'), (12, '{long}');
         INSERT INTO shop.others VALUES (8) /* mc: {long}xxxxx */;"
    );
    fleet.database.execute(&refused);
    fleet.catch_up("second");
    expect_gone(fleet, &gone, &kept);
}

/// Also across files of the log, and none is left once everything is acknowledged.
pub(super) fn the_lag_is_told_in_bytes(fleet: &Fleet, admin: &mut HttpClient) {
    wait_for_lag(admin, 0..1, || {});
    let west = &fleet.caches.0[1];
    west.signal("STOP");
    let write = "/* mc: lag */ INSERT INTO shop.ends VALUES ()";
    fleet.database.execute(&format!("{write}; FLUSH BINARY LOGS; {write}"));
    wait_for_lag(admin, 100_000.., || drop(fleet.database.execute(&format!("{write};").repeat(50))));
    west.signal("CONT");
    fleet.catch_up("after-the-lag");
    fleet.database.execute("FLUSH BINARY LOGS");
    wait_for_lag(admin, 0..1, || {});
}

/// Rows and statements of at least ten bytes, while it is read.
fn the_log_may_be_compressed(fleet: &Fleet) {
    fleet.database.execute("SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10");
    let long = "z".repeat(200);
    let (named, renamed) = (format!("name:{long}"), format!("name:{long}2"));
    let gone = ["user:41", "user:42", &named, &renamed, "list:compressed"];
    fleet.store(gone.iter().chain(&["user:43"]));
    fleet.database.execute(&format!(
        "USE shop;
         INSERT INTO users (id, name) VALUES (41, '{long}'), (42, NULL);
         UPDATE users SET name = '{long}2' WHERE id = 41;
         DELETE FROM users WHERE id = 41;
         CREATE /* mc: list:compressed */ TABLE of_a_long_statement (id INT COMMENT '{long}'); DROP TABLE of_a_long_statement;"
    ));
    fleet.catch_up("compressed");
    expect_gone(fleet, &gone, &["user:43"]);
    let events = fleet.database.execute("SHOW BINLOG EVENTS IN 'binlog.000002'")
        + &fleet.database.execute("SHOW BINLOG EVENTS IN 'binlog.000003'");
    for kind in
        ["Query_compressed", "Write_rows_compressed", "Update_rows_compressed", "Delete_rows_compressed"]
    {
        assert!(events.contains(kind), "{kind} in {events}");
    }
    fleet.database.execute("SET GLOBAL log_bin_compress = OFF");
}

pub(super) fn a_table_may_be_altered_meanwhile(fleet: &Fleet) {
    fleet.store(["user:21", "user:22", "user:23", "user:7"]);
    fleet.database.execute(
        "USE shop;
         INSERT INTO users (id) VALUES (21);
         ALTER TABLE users ADD COLUMN first BIGINT DEFAULT 7 FIRST;
         INSERT INTO users (id) VALUES (22);
         ALTER TABLE users DROP COLUMN first;
         INSERT INTO users (id) VALUES (23);",
    );
    fleet.catch_up("third");
    expect_gone(fleet, &["user:21", "user:22", "user:23"], &["user:7"]);
}

pub(super) fn statements_without_rows_are_told(fleet: &Fleet, admin: &mut HttpClient) {
    let before = metric(admin, "guira_invalidator_unseen_statements_total");
    fleet.store(["list:all"]);
    fleet.database.execute("TRUNCATE /* mc: list:all */ shop.users");
    fleet.catch_up("fourth");
    expect_gone(fleet, &["list:all"], &[]);
    assert_eq!(metric(admin, "guira_invalidator_unseen_statements_total"), before + 1);
    // Two that rename the table, and two that do not.
    fleet.database.execute(
        "USE shop;
         ALTER TABLE others RENAME COLUMN id TO number;
         ALTER TABLE others COMMENT 'RENAME TO any', RENAME TO renamed;
         ALTER TABLE renamed RENAME others, RENAME COLUMN number TO id;
         ALTER TABLE others COMMENT ''",
    );
    fleet.catch_up("after-the-renames");
    assert_eq!(metric(admin, "guira_invalidator_unseen_statements_total"), before + 3);
}

#[test]
#[ignore = "takes minutes: a hundred kills"]
fn nothing_is_lost_by_a_hundred_kills() {
    let fleet = Fleet::start().expect("MariaDB is installed");
    Invalidator::start(&fleet, "").wait_until_ready();
    nothing_is_lost_by_kills(&fleet, 150);
}

/// Transactions of one row and of a thousand, while invalidators are killed. One round in three has none at first.
pub(super) fn nothing_is_lost_by_kills(fleet: &Fleet, rounds: u64) {
    let start = || {
        let spool = format!("spool = {:?}", fleet.scratch.file("spool"));
        Invalidator::start_with(fleet, &spool, "again-after-ms = 200")
    };
    let id = |round: u64, number: u64| 1_000_000 * (round + 1) + number;
    let mut all = Vec::new();
    for round in 0..rounds {
        let keys: Vec<_> = (0..1100).map(|number| format!("user:{}", id(round, number))).collect();
        fleet.store(&keys);
        all.extend(keys);
        let mut statements = String::from("USE shop;\n");
        let rows = |numbers: std::ops::Range<u64>| {
            let rows = numbers.map(|number| format!("({}, NULL)", id(round, number)));
            let rows = rows.collect::<Vec<_>>().join(",");
            format!("INSERT INTO users (id, name) VALUES {rows};\n")
        };
        statements.extend((0..50).map(|number| rows(number..number + 1)));
        statements += &rows(50..1050);
        statements.extend((1050..1100).map(|number| rows(number..number + 1)));
        let mut invalidator = (round % 3 > 0).then(start);
        if round % 3 == 2 {
            invalidator.as_mut().expect("one was started").wait_until_ready();
        }
        fleet.database.execute(&statements);
        if let Some(invalidator) = &mut invalidator {
            // Killed as soon as some, but not all, deletes of the round have arrived.
            let watched: Vec<&str> = all.iter().rev().take(1100).map(String::as_str).collect();
            let has_begun =
                || (fleet.kept(&watched[1000..]).iter().any(|kept| kept.len() < 100)).then_some(());
            Deadline::after(ARRIVAL_MAX).poll(has_begun).expect("deletes have begun");
            invalidator.process.signal(Signal::KILL);
            invalidator.process.wait(PATIENCE).unwrap();
        }
    }
    let mut invalidator = start();
    invalidator.wait_until_ready();
    fleet.catch_up("fifth");
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(fleet.kept(&all), [BTreeSet::new(), BTreeSet::new()]);
}

/// The log was purged while no invalidator was there.
pub(super) fn a_gap_is_an_error(fleet: &Fleet) {
    purge(fleet);
    let mut invalidator = Invalidator::start(fleet, "");
    let errors = invalidator.wait_for_fault();
    assert!(errors.contains("log has a gap") && errors.contains("flush the caches"), "{errors}");
}

/// Has changes that nobody has read removed from the log.
fn purge(fleet: &Fleet) {
    fleet.database.execute(
        "INSERT INTO shop.users (id) VALUES (31) ON DUPLICATE KEY UPDATE level = 1; FLUSH BINARY LOGS; REPLACE INTO shop.users (id) VALUES (32)",
    );
    fleet.database.execute("FLUSH BINARY LOGS");
    let files = fleet.database.execute("SHOW BINARY LOGS");
    let newest = files.lines().last().and_then(|line| line.split_whitespace().next()).expect("a file");
    // A file is kept as long as the database believes that the last reader is there.
    let is_purged = || {
        fleet.database.execute(&format!("PURGE BINARY LOGS TO '{newest}'"));
        (fleet.database.execute("SHOW BINARY LOGS").lines().count() == 1).then_some(())
    };
    Deadline::after(ARRIVAL_MAX).poll(is_purged).expect("the log is purged");
}

/// The first one ends, and says why.
fn a_second_reader_of_the_same_number_flushes_nothing(fleet: &Fleet) {
    let file = fleet.configuration("on-gap = \"flush\"", "again-after-ms = 0");
    let text = fs::read_to_string(&file).expect("it was written");
    let mut first = Invalidator::start_by(&file);
    first.wait_until_ready();
    fleet.store(["anything"]);
    let own = fleet.scratch.file("position");
    let other = text.replace(&format!("{own:?}"), &format!("{:?}", fleet.scratch.file("second-position")));
    let mut second = Invalidator::start_by(&fleet.scratch.write("second.toml", &other));
    let mut admin = second.wait_until_ready();
    let errors = first.wait_for_fault();
    assert!(errors.contains("server-id"), "{errors}");
    assert_eq!(metric(&mut admin, "guira_invalidator_gaps_total"), 0);
    assert_eq!(fleet.kept(&["anything"]), [BTreeSet::from(["anything"]), BTreeSet::from(["anything"])]);
    second.end();
}

/// Both targets stand for routers here, behind which only one server has keys of this database.
fn only_the_servers_concerned_are_flushed(fleet: &Fleet) {
    let east = fleet.caches.addresses()[0];
    purge(fleet);
    fleet.store(["anything"]);
    let of_targets = format!("again-after-ms = 0\nflush = [\"{east}\"]");
    let mut invalidator = Invalidator::start_with(fleet, "on-gap = \"flush\"", &of_targets);
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("seventh");
    assert_eq!(metric(&mut admin, "guira_invalidator_gaps_total"), 1);
    assert_eq!(fleet.kept(&["anything"]), [BTreeSet::new(), BTreeSet::from(["anything"])]);
    invalidator.end();
}

pub(super) fn a_gap_is_flushed_if_that_is_wanted(fleet: &Fleet) {
    fleet.store(["anything", "user:32"]);
    let mut invalidator = Invalidator::start(fleet, "on-gap = \"flush\"");
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("sixth");
    expect_gone(fleet, &["anything", "user:32"], &[]);
    assert_eq!(metric(&mut admin, "guira_invalidator_gaps_total"), 1);
    // The next one goes on from there, and flushes nothing.
    invalidator.end();
    fleet.store(["anything"]);
    Invalidator::start(fleet, "").wait_until_ready();
    expect_gone(fleet, &[], &["anything"]);
}
