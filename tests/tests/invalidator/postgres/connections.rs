//! How the database is reached, and what it must have.

use super::{Fleet, Settings};
use guira_tests::server::wait_for_log;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn a_database_is_reached_in_all_ways_and_checked() {
    let Some(fleet) = Fleet::start("password_encryption = 'scram-sha-256'") else { return };
    what_the_database_lacks_is_told(&fleet);
    let port = fleet.database.address().port();
    let root = fleet.database.authority();
    let socket = fleet.database.socket();
    for (number, connection) in [
        format!("address = \"unix:{}\"", socket.display()),
        format!("address = \"127.0.0.1:{port}\"\ntls = {{ mode = \"require\" }}"),
        format!("address = \"localhost:{port}\"\ntls = {{ ca = {root:?} }}"),
    ]
    .iter()
    .enumerate()
    {
        let mut invalidator = fleet.invalidator(Settings { connection, ..Settings::default() });
        invalidator.wait_until_ready();
        // More than a record of TLS, and than a buffer.
        fleet.execute(&format!(
            "INSERT INTO users SELECT {number}*10000+n, repeat('x', 200) FROM generate_series(1, 3000) n"
        ));
        fleet.catch_up(&format!("way-{number}"));
        let is_encrypted = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)";
        assert_eq!(
            fleet.execute(is_encrypted).trim_end(),
            if number == 0 { "f" } else { "t" },
            "{connection}"
        );
        invalidator.end();
    }
    servers_that_are_not_trusted_are_refused(&fleet);
    passwords_are_proved_in_all_ways(&fleet);
    the_slot_may_be_made_by_others(&fleet);
}

#[track_caller]
fn expect_fault(fleet: &Fleet, settings: Settings<'_>, expected: &str) {
    let errors = fleet.invalidator(settings).wait_for_fault();
    assert!(errors.contains(expected), "{errors}");
}

fn what_the_database_lacks_is_told(fleet: &Fleet) {
    fleet.execute("ALTER PUBLICATION \"my \"\"pub\" RENAME TO other");
    expect_fault(
        fleet,
        Settings::default(),
        "publication my \"pub does not exist: run CREATE PUBLICATION \"my \"\"pub\" FOR TABLE",
    );
    fleet.execute("CREATE PUBLICATION \"my \"\"pub\" FOR TABLE users");
    expect_fault(fleet, Settings::default(), "table Größe.T has templates but is not in publication");
    fleet.execute("ALTER PUBLICATION \"my \"\"pub\" SET (publish = 'insert, update'); ALTER PUBLICATION \"my \"\"pub\" ADD TABLE \"Größe\".\"T\"");
    expect_fault(fleet, Settings::default(), "does not publish all of insert, update and delete");
    fleet.execute("DROP PUBLICATION \"my \"\"pub\"; ALTER PUBLICATION other RENAME TO \"my \"\"pub\"");
    assert_eq!(fleet.slot("slot_name"), "", "no slot was made");
}

fn servers_that_are_not_trusted_are_refused(fleet: &Fleet) {
    let port = fleet.database.address().port();
    let other = guira_tests::tls::Certificate::issue();
    let connection = format!("address = \"127.0.0.1:{port}\"\ntls = {{ ca = {:?} }}", other.root());
    let mut invalidator = fleet.invalidator(Settings { connection: &connection, ..Settings::default() });
    // It may have a better certificate the next time.
    wait_for_log(|| invalidator.process.errors(), "retrying: invalid peer certificate");
    invalidator.end();
}

fn passwords_are_proved_in_all_ways(fleet: &Fleet) {
    let quoted = super::PASSWORD.replace('\'', "''");
    fleet.execute("ALTER USER guira PASSWORD 'another'");
    expect_fault(fleet, Settings::default(), "password authentication failed for user \"guira\" (28P01)");
    let hba = fleet.execute("SHOW hba_file");
    let hba = hba.trim_end();
    let rules = std::fs::read_to_string(hba).expect("it can be read");
    let port = fleet.database.address().port();
    let encrypted = format!("address = \"127.0.0.1:{port}\"\ntls = {{ mode = \"require\" }}");
    for (way, connection) in [("md5", ""), ("password", &*encrypted)] {
        std::fs::write(hba, rules.replace("scram-sha-256", way)).expect("it can be written");
        let how = if way == "md5" { "md5" } else { "scram-sha-256" };
        fleet.execute(&format!(
            "SET password_encryption = '{how}'; ALTER USER guira PASSWORD '{quoted}'; SELECT pg_reload_conf()"
        ));
        let mut invalidator = fleet.invalidator(Settings { connection, ..Settings::default() });
        invalidator.wait_until_ready();
        fleet.catch_up(way);
        invalidator.end();
    }
    expect_fault(fleet, Settings::default(), "the password would be sent unencrypted");
    std::fs::write(hba, rules).expect("it can be written");
    fleet.execute("SELECT pg_reload_conf()");
}

fn the_slot_may_be_made_by_others(fleet: &Fleet) {
    let tcp = format!("address = \"{}\"", fleet.database.address());
    let connection = format!("{tcp}\ncreate-slot = false");
    let settings = Settings { connection: &connection, ..Settings::default() };
    std::fs::remove_file(fleet.scratch.file("position")).expect("there is one");
    fleet.execute("SELECT pg_drop_replication_slot('guira')");
    expect_fault(fleet, settings, "slot guira is missing or lost, and create-slot is false");
    fleet.execute("SELECT pg_create_logical_replication_slot('guira', 'test_decoding')");
    expect_fault(fleet, settings, "or another output plugin than pgoutput");
    fleet.execute("SELECT pg_drop_replication_slot('guira'); SELECT pg_create_logical_replication_slot('guira', 'pgoutput')");
    // What was changed since then is read too.
    fleet.caches.store(["user:900001"]);
    fleet.execute("INSERT INTO users VALUES (900001)");
    let mut invalidator = fleet.invalidator(settings);
    invalidator.wait_until_ready();
    fleet.caches.wait_for_delete("user:900001");
    invalidator.end();
}
