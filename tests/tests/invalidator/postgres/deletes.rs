//! What a database changes is deleted in all caches, and nothing else.

use super::{Fleet, Settings};
use crate::metric;
use guira_tests::http::HttpClient;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn what_a_database_changes_is_deleted_everywhere() {
    let Some(fleet) = Fleet::start("") else { return };
    let mut invalidator = fleet.invalidator(Settings::default());
    let mut admin = invalidator.wait_until_ready();
    keys_of_changes_are_deleted_and_no_others(&fleet);
    assert_eq!(metric(&mut admin, "guira_invalidator_refused_keys_total"), 4);
    assert!(metric(&mut admin, "guira_invalidator_delete_hits_total{target=\"west\"}") >= 10);
    assert_eq!(metric(&mut admin, "guira_invalidator_unfilled_templates_total"), 0);
    names_are_those_of_the_database(&fleet);
    a_table_may_be_altered_meanwhile(&fleet);
    truncated_tables_are_told(&fleet, &mut admin);
    what_the_log_does_not_have_is_counted(&fleet, &mut admin);
    long_values_that_do_not_change_are_known(&fleet);
    invalidator.end();
}

fn keys_of_changes_are_deleted_and_no_others(fleet: &Fleet) {
    let gone = [
        "user:1",
        "user:2",
        "user:3",
        "user:-9223372036854775808",
        "user:8",
        "name:Zoë😀",
        "name:old",
        "name:new",
        "name:it's\"`",
        "level:7:1",
        "list:a",
        "list:b",
        "list:Zoë😀'\"",
        "list:at-once",
        "list:one",
        "list:of-rolled-back",
        "outbox:1",
        "outbox:2",
    ];
    let kept = [
        "user:4",
        "user:5",
        "user:6",
        "name:other",
        "list:rolled-back",
        "list:savepoint",
        "list:other-prefix",
        "level:7:8",
        "outbox:3",
    ];
    fleet.execute("INSERT INTO users (id, name) VALUES (2, 'old'), (3, 'gone'), (4, 'other')");
    fleet.catch_up("first");
    fleet.caches.store(gone.iter().chain(&kept));
    fleet.execute(
        "INSERT INTO users VALUES (1, 'Zoë😀', 7, NULL);
         UPDATE users SET name = 'new' WHERE id = 2;
         DELETE FROM users WHERE id = 3;
         INSERT INTO users VALUES (-9223372036854775808, E'it''s\"`', 1);
         INSERT INTO others VALUES (1);
         SELECT pg_logical_emit_message(true, 'mc', E'list:a\\tlist:b\\n list:Zoë😀''\"');
         SELECT pg_logical_emit_message(false, 'mc', 'list:at-once');
         SELECT pg_logical_emit_message(true, 'mcx', 'list:other-prefix');
         INSERT INTO outbox (cached) VALUES ('outbox:1 outbox:2'), (NULL);
         UPDATE outbox SET cached = 'outbox:3' WHERE id = 2; DELETE FROM outbox;
         BEGIN; INSERT INTO users VALUES (5); SELECT pg_logical_emit_message(true, 'mc', 'list:rolled-back');
         SELECT pg_logical_emit_message(false, 'mc', 'list:of-rolled-back'); ROLLBACK;
         BEGIN; SELECT pg_logical_emit_message(true, 'mc', 'list:one');
         SAVEPOINT s; INSERT INTO users VALUES (6); SELECT pg_logical_emit_message(true, 'mc', 'list:savepoint');
         ROLLBACK TO s; INSERT INTO users VALUES (8); COMMIT;",
    );
    let long = "x".repeat(246);
    fleet.execute(&format!(
        "INSERT INTO users (id, name) VALUES (10, 'a b'), (11, E'a\\nb'), (12, '{long}');
         SELECT pg_logical_emit_message(true, 'mc', '{long}xxxxx');"
    ));
    fleet.catch_up("second");
    fleet.caches.expect_gone(&gone, &kept);
}

/// With small and capital letters, quotes, and letters beyond ASCII.
fn names_are_those_of_the_database(fleet: &Fleet) {
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let key = format!("t:1:{uuid}");
    fleet.caches.store([&*key, "small:2", "small:1", "t:2:"]);
    fleet.execute(&format!("INSERT INTO \"Größe\".\"T\" VALUES (1, 2, '{uuid}')"));
    fleet.catch_up("names");
    fleet.caches.expect_gone(&[&key, "small:2"], &["small:1", "t:2:"]);
}

fn a_table_may_be_altered_meanwhile(fleet: &Fleet) {
    fleet.caches.store(["user:21", "user:22", "user:23", "user:24", "user:7", "name:x"]);
    fleet.execute(
        "INSERT INTO users (id) VALUES (21);
         ALTER TABLE users RENAME COLUMN name TO label;
         ALTER TABLE users ADD COLUMN name bigint DEFAULT 7;
         INSERT INTO users (id, label) VALUES (22, 'x');
         ALTER TABLE users DROP COLUMN name;
         ALTER TABLE users RENAME COLUMN label TO name;
         INSERT INTO users (id) VALUES (23);
         BEGIN; ALTER TABLE users ALTER COLUMN id TYPE numeric; INSERT INTO users (id) VALUES (24); COMMIT;
         ALTER TABLE users ALTER COLUMN id TYPE bigint;",
    );
    fleet.catch_up("third");
    fleet.caches.expect_gone(&["user:21", "user:22", "user:23", "user:24"], &["user:7", "name:x"]);
}

fn truncated_tables_are_told(fleet: &Fleet, admin: &mut HttpClient) {
    let before = metric(admin, "guira_invalidator_unseen_statements_total");
    fleet.execute("INSERT INTO others VALUES (2); TRUNCATE others; TRUNCATE users");
    fleet.catch_up("fourth");
    assert_eq!(metric(admin, "guira_invalidator_unseen_statements_total"), before + 1);
}

/// Without REPLICA IDENTITY FULL the log has the key of the row before, and nothing else of it.
fn what_the_log_does_not_have_is_counted(fleet: &Fleet, admin: &mut HttpClient) {
    let unfilled = "guira_invalidator_unfilled_templates_total";
    fleet.execute(
        "INSERT INTO users VALUES (31, 'old', 1), (32, 'old', 1);
         ALTER TABLE users REPLICA IDENTITY DEFAULT",
    );
    fleet.catch_up("fifth");
    let before = metric(admin, unfilled);
    fleet.caches.store(["user:31", "user:33", "user:32", "name:old", "name:new", "level:1:33"]);
    fleet.execute("UPDATE users SET name = 'new' WHERE id = 31");
    fleet.catch_up("sixth");
    // Of the old image: by name and by level.
    assert_eq!(metric(admin, unfilled), before + 2);
    fleet.execute("UPDATE users SET id = 33 WHERE id = 31; DELETE FROM users WHERE id = 32");
    fleet.catch_up("seventh");
    assert_eq!(metric(admin, unfilled), before + 6);
    fleet.caches.expect_gone(&["user:31", "user:33", "user:32", "name:new", "level:1:33"], &["name:old"]);
    fleet.execute("ALTER TABLE users REPLICA IDENTITY FULL");
}

/// What lies outside of the row is not in the log again when another column changes.
fn long_values_that_do_not_change_are_known(fleet: &Fleet) {
    fleet.execute(
        "ALTER TABLE users ALTER COLUMN tags SET STORAGE EXTERNAL;
         INSERT INTO users VALUES (41, 'tagged', 1, repeat('x', 100000))",
    );
    fleet.catch_up("eighth");
    fleet.caches.store(["user:41", "level:2:41"]);
    fleet.execute("UPDATE users SET level = 2 WHERE id = 41");
    fleet.catch_up("ninth");
    fleet.caches.expect_gone(&["user:41", "level:2:41"], &[]);
}
