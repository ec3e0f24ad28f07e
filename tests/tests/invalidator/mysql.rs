//! The same with MySQL.

use super::deletes::{
    a_gap_is_an_error, a_gap_is_flushed_if_that_is_wanted, a_table_may_be_altered_meanwhile, expect_gone,
    keys_of_changes_are_deleted_and_no_others, nothing_is_lost_by_kills, statements_without_rows_are_told,
    the_lag_is_told_in_bytes,
};
use super::faults::{a_database_that_is_restarted_is_read_on, a_million_rows_take_little_memory};
use super::targets::a_part_of_the_log_is_replayed;
use super::{ARRIVAL_MAX, Fleet, Invalidator, metric};
use guira_tests::deadline::Deadline;
use guira_tests::http::HttpClient;
use guira_tests::mysql::{self, MISSING};
use guira_tests::skip::say;
use std::fs;
use std::path::PathBuf;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn what_a_mysql_changes_is_deleted_everywhere() {
    let Some(fleet) = Fleet::start_mysql(&[]) else {
        say(MISSING);
        return;
    };
    let mut invalidator = Invalidator::start(&fleet, "");
    let mut admin = invalidator.wait_until_ready();
    keys_of_changes_are_deleted_and_no_others(&fleet);
    assert_eq!(metric(&mut admin, "guira_invalidator_refused_keys_total"), 4);
    assert_eq!(metric(&mut admin, "guira_invalidator_unfilled_templates_total"), 0);
    the_lag_is_told_in_bytes(&fleet, &mut admin);
    transactions_may_be_compressed(&fleet);
    transactions_may_have_tags(&fleet);
    checksums_may_come_and_go(&fleet, &mut admin);
    parts_of_json_may_be_logged(&fleet, &mut admin);
    rows_of_foreign_keys_are_deleted(&fleet);
    a_table_may_be_altered_meanwhile(&fleet);
    statements_without_rows_are_told(&fleet, &mut admin);
    transactions_may_be_prepared(&fleet, &mut invalidator);
    invalidator.end();
    nothing_is_lost_by_kills(&fleet, 6);
    a_part_of_the_log_is_replayed(&fleet);
    a_gap_is_an_error(&fleet);
    a_gap_is_flushed_if_that_is_wanted(&fleet);
}

/// Short ones and one of several MiB.
fn transactions_may_be_compressed(fleet: &Fleet) {
    fleet.database.execute("SET GLOBAL binlog_transaction_compression = ON");
    let long = "z".repeat(200);
    let (named, renamed) = (format!("name:{long}"), format!("name:{long}2"));
    let many: Vec<String> = (7_000_000..7_020_000).map(|id| format!("user:{id}")).collect();
    let gone = ["user:41", "user:42", &named, &renamed, "list:compressed"];
    fleet.store(gone.iter().chain(&["user:43"]));
    fleet.store(&many);
    let rows: Vec<_> = (7_000_000..7_020_000).map(|id| format!("({id}, '{id} {long}')")).collect();
    fleet.database.execute(&format!(
        "USE shop;
         INSERT INTO users (id, name) VALUES (41, '{long}'), (42, NULL);
         BEGIN; /* mc: list:compressed */ UPDATE users SET name = '{long}2' WHERE id = 41;
         DELETE FROM users WHERE id = 41; COMMIT;
         INSERT INTO users (id, name) VALUES {};",
        rows.join(",")
    ));
    fleet.catch_up("compressed");
    expect_gone(fleet, &gone, &["user:43"]);
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(fleet.kept(&many).iter().all(|kept| kept.is_empty()));
    let events = fleet.database.execute("SHOW BINARY LOGS");
    let newest = events.lines().last().and_then(|line| line.split_whitespace().next()).expect("a file");
    let events = fleet.database.execute(&format!("SHOW BINLOG EVENTS IN '{newest}'"));
    assert!(events.contains("Transaction_payload"), "{events}");
    fleet.database.execute("SET GLOBAL binlog_transaction_compression = OFF");
}

/// From MySQL 8.3 on.
fn transactions_may_have_tags(fleet: &Fleet) {
    if fleet.database.execute("SELECT @@version").starts_with("8.0.") {
        return;
    }
    fleet.store(["user:51", "user:52"]);
    fleet.database.execute(
        "SET gtid_next = 'AUTOMATIC:shop'; INSERT INTO shop.users (id) VALUES (51);
         SET gtid_next = 'AUTOMATIC:other'; INSERT INTO shop.users (id) VALUES (52);",
    );
    fleet.catch_up("tagged");
    expect_gone(fleet, &["user:51", "user:52"], &[]);
}

fn checksums_may_come_and_go(fleet: &Fleet, admin: &mut HttpClient) {
    for (id, kind) in [(55, "NONE"), (56, "CRC32")] {
        let key = format!("user:{id}");
        fleet.store([&key]);
        fleet.database.execute(&format!(
            "SET GLOBAL binlog_checksum = {kind}; INSERT INTO shop.users (id) VALUES ({id})"
        ));
        fleet.catch_up(&format!("checksum-{kind}"));
        expect_gone(fleet, &[&key], &[]);
    }
    assert_eq!(metric(admin, "guira_invalidator_source_failures_total"), 0);
}

fn parts_of_json_may_be_logged(fleet: &Fleet, admin: &mut HttpClient) {
    let columns: Vec<_> = (0..9).map(|number| format!("j{number} JSON")).collect();
    fleet.store(["user:61", "name:parts", "name:of-json"]);
    fleet.database.execute(&format!(
        "USE shop;
         ALTER TABLE users ADD COLUMN ({columns});
         INSERT INTO users (id, name, j0, j8) VALUES
             (61, 'parts', JSON_OBJECT('a', REPEAT('x', 300), 'b', 1), JSON_OBJECT('a', REPEAT('x', 300), 'b', 1));
         SET binlog_row_value_options = PARTIAL_JSON;",
        columns = columns.join(", ")
    ));
    fleet.catch_up("parts-first");
    fleet.store(["user:61", "name:parts", "name:of-json"]);
    let before = metric(admin, "guira_invalidator_rows_total");
    fleet.database.execute(
        "USE shop; SET binlog_row_value_options = PARTIAL_JSON;
         UPDATE users SET j8 = JSON_SET(j8, '$.b', 2), j0 = JSON_SET(j0, '$.b', 3), name = 'of-json' WHERE id = 61;
         SET binlog_row_image = MINIMAL;
         UPDATE users SET j8 = JSON_SET(j8, '$.b', 4) WHERE id = 61;",
    );
    fleet.catch_up("parts-second");
    expect_gone(fleet, &["user:61", "name:parts", "name:of-json"], &[]);
    assert_eq!(metric(admin, "guira_invalidator_rows_total"), before + 2);
    let columns: Vec<_> = (0..9).map(|number| format!("DROP COLUMN j{number}")).collect();
    fleet.database.execute(&format!("ALTER TABLE shop.users {}", columns.join(", ")));
}

/// From MySQL 9.6 on they are in the log.
fn rows_of_foreign_keys_are_deleted(fleet: &Fleet) {
    let native = fleet.database.execute("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'");
    if native.trim().is_empty() {
        return;
    }
    fleet.database.execute(
        "USE shop;
         ALTER TABLE users ADD COLUMN other INT, ADD FOREIGN KEY (other) REFERENCES others (id) ON DELETE CASCADE;
         INSERT INTO others VALUES (900); INSERT INTO users (id, other) VALUES (71, 900);",
    );
    fleet.catch_up("cascade-first");
    fleet.store(["user:71"]);
    fleet.database.execute("DELETE FROM shop.others WHERE id = 900");
    fleet.catch_up("cascade-second");
    expect_gone(fleet, &["user:71"], &[]);
    fleet.database.execute(
        "USE shop; ALTER TABLE users DROP FOREIGN KEY users_ibfk_1; ALTER TABLE users DROP COLUMN other;",
    );
}

/// What is prepared is deleted when it is committed, also by an invalidator that was started between.
pub(super) fn transactions_may_be_prepared(fleet: &Fleet, invalidator: &mut Invalidator) {
    let keys = ["user:81", "user:82", "user:83", "list:prepared"];
    fleet.store(keys);
    // MariaDB's sessions can do nothing else once they have prepared one.
    for statements in [
        "XA START 'jk', 'b', 7; INSERT INTO users (id) VALUES (81) /* mc: list:prepared */; XA END 'jk', 'b', 7; XA PREPARE 'jk', 'b', 7",
        "XA START 'other'; INSERT INTO users (id) VALUES (82); XA END 'other'; XA PREPARE 'other'; XA ROLLBACK 'other'",
        "XA START 'once'; INSERT INTO users (id) VALUES (83); XA END 'once'; XA COMMIT 'once' ONE PHASE",
    ] {
        fleet.database.execute(&format!("USE shop; {statements}"));
    }
    fleet.catch_up("prepared-first");
    expect_gone(fleet, &["user:83"], &["user:81", "user:82", "list:prepared"]);
    invalidator.end();
    *invalidator = Invalidator::start(fleet, "");
    invalidator.wait_until_ready();
    fleet.catch_up("prepared-second");
    expect_gone(fleet, &[], &["user:81", "user:82", "list:prepared"]);
    fleet.database.execute("XA COMMIT 'jk', 'b', 7");
    fleet.catch_up("prepared-third");
    expect_gone(fleet, &["user:81", "list:prepared"], &["user:82"]);
}

#[test]
#[ignore = "takes minutes: a hundred kills"]
fn nothing_is_lost_by_a_hundred_kills_beside_a_mysql() {
    let Some(fleet) = Fleet::start_mysql(&[]) else {
        say(MISSING);
        return;
    };
    Invalidator::start(&fleet, "").wait_until_ready();
    nothing_is_lost_by_kills(&fleet, 150);
}

/// A configuration of MySQL with these lines beside the others, and this address in the place of its own.
fn configuration(fleet: &Fleet, lines: &str, address: &str) -> PathBuf {
    let text = fs::read_to_string(fleet.configuration("", "again-after-ms = 0")).expect("it was written");
    let text = text.replace("ask-public-key = true", "").replace("server-id", &format!("{lines}\nserver-id"));
    fleet.scratch.write("login.toml", &text.replace(&fleet.database.address().to_string(), address))
}

#[test]
fn a_mysql_is_told_the_password_only_where_nobody_listens() {
    let Some(fleet) = Fleet::start_mysql(&[]) else {
        say(MISSING);
        return;
    };
    fleet.database.execute(
        "CREATE USER guira@localhost IDENTIFIED BY 'it''s secret'; GRANT REPLICATION SLAVE ON *.* TO guira@localhost",
    );
    let tcp = fleet.database.address().to_string();
    // Who has logged in once has proved it for all that come later.
    let forget = || fleet.database.execute("FLUSH PRIVILEGES");
    let mut round = 0;
    let mut works = |lines: &str, address: &str| {
        round += 1;
        let mut invalidator = Invalidator::start_by(&configuration(&fleet, lines, address));
        invalidator.wait_until_ready();
        fleet.catch_up(&format!("login-{round}"));
        invalidator.end();
    };
    forget();
    let errors = Invalidator::start_by(&configuration(&fleet, "", &tcp)).wait_for_fault();
    assert!(errors.contains("the password of guira would be sent unencrypted"), "{errors}");
    works(&format!("tls = {{ ca = {:?} }}", fleet.database.authority()), &tcp);
    // The proof is enough now.
    works("", &tcp);
    forget();
    works("ask-public-key = true", &tcp);
    forget();
    works(&format!("public-key-file = {:?}", mysql::public_key(&fleet.database)), &tcp);
    forget();
    works("", &format!("unix:{}", fleet.database.socket().display()));
    let path = configuration(&fleet, "ask-public-key = true", &tcp);
    fleet.scratch.write("password", "wrong\n");
    let errors = Invalidator::start_by(&path).wait_for_fault();
    assert!(errors.contains("rejected the login"), "{errors}");
    let mariadb = fs::read_to_string(&path)
        .expect("it was written")
        .replace("[source.mysql]", "[source.mariadb]")
        .replace("ask-public-key = true", "tls = { mode = \"require\" }");
    let path = fleet.scratch.write("mariadb.toml", &mariadb);
    fleet.scratch.write("password", "it's secret\n");
    let errors = Invalidator::start_by(&path).wait_for_fault();
    assert!(errors.contains("the database is not MariaDB, but"), "{errors}");
    a_native_password_is_known_too(&fleet, &tcp);
    settings_are_checked(&fleet, &tcp);
}

/// MySQL 9 does not know it any more.
fn a_native_password_is_known_too(fleet: &Fleet, tcp: &str) {
    let plugins = fleet.database.execute("SHOW PLUGINS");
    if !plugins.lines().any(|line| line.starts_with("mysql_native_password\tACTIVE")) {
        return;
    }
    fleet.database.execute(
        "ALTER USER guira@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY 'it''s secret';
         ALTER USER guira@localhost IDENTIFIED WITH mysql_native_password BY 'it''s secret'",
    );
    let mut invalidator = Invalidator::start_by(&configuration(fleet, "", tcp));
    invalidator.wait_until_ready();
    fleet.catch_up("native");
    invalidator.end();
}

fn settings_are_checked(fleet: &Fleet, tcp: &str) {
    for (setting, back, expected) in [
        (
            "binlog_rows_query_log_events = OFF",
            "binlog_rows_query_log_events = ON",
            "set binlog_rows_query_log_events = ON",
        ),
        ("binlog_row_metadata = MINIMAL", "binlog_row_metadata = FULL", "set binlog_row_metadata = FULL"),
        ("binlog_format = STATEMENT", "binlog_format = ROW", "set binlog_format = ROW"),
        ("gtid_mode = ON_PERMISSIVE", "gtid_mode = ON", "set gtid_mode = ON"),
    ] {
        fleet.database.execute(&format!("SET GLOBAL {setting}"));
        let tls = format!("tls = {{ ca = {:?} }}", fleet.database.authority());
        let errors = Invalidator::start_by(&configuration(fleet, &tls, tcp)).wait_for_fault();
        assert!(errors.contains(expected), "{setting}: {errors}");
        fleet.database.execute(&format!("SET GLOBAL {back}"));
    }
}

/// A reader that has said the same number before is ended, so that none is left behind.
#[test]
fn a_mysql_that_goes_away_is_read_on_when_it_is_back() {
    let Some(mut fleet) = Fleet::start_mysql(&[]) else {
        say(MISSING);
        return;
    };
    let mut invalidator = Invalidator::start(&fleet, "");
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("first");
    let dumps = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
    let before = fleet.database.execute(dumps);
    fleet.database.execute(&format!("KILL {}", before.trim()));
    let failures = "guira_invalidator_source_failures_total";
    let is_back = || (metric(&mut admin, failures) > 0).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_back).expect("the connection has failed");
    fleet.store(["user:1"]);
    fleet.database.execute("INSERT INTO shop.users (id) VALUES (1)");
    fleet.catch_up("second");
    expect_gone(&fleet, &["user:1"], &[]);
    assert_eq!(fleet.database.execute(dumps).lines().count(), 1, "there is one reader");
    invalidator.end();
    a_database_that_is_restarted_is_read_on(&mut fleet);
}

#[test]
#[ignore = "takes a minute: a million rows, twice"]
fn a_transaction_of_a_million_rows_takes_little_memory() {
    for compression in ["OFF", "ON"] {
        let setting = format!("--binlog-transaction-compression={compression}");
        let Some(fleet) = Fleet::start_mysql(&[&setting]) else {
            say(MISSING);
            return;
        };
        a_million_rows_take_little_memory(&fleet);
    }
}
