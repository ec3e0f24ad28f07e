//! What may be changed while it runs.

use super::{ARRIVAL_MAX, Fleet, Invalidator, metric};
use guira_harness::server::Signal;
use guira_tests::deadline::Deadline;
use guira_tests::http::HttpClient;
use guira_tests::server::wait_for_log;
use guira_tests::skip::say;
use std::fs;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn a_configuration_and_a_password_may_be_changed_meanwhile() {
    let Some(fleet) = Fleet::start() else {
        say("MariaDB is not installed (Debian: mariadb-server)");
        return;
    };
    let mut invalidator = Invalidator::start(&fleet, "");
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("first");
    a_configuration_is_read_anew(&fleet, &invalidator, &mut admin);
    a_wrong_one_leaves_everything_as_it_was(&fleet, &invalidator, &mut admin);
    a_password_is_read_anew(&fleet, &mut admin);
    invalidator.end();
}

/// Waits until a counter has come to this.
#[track_caller]
fn wait_for(admin: &mut HttpClient, name: &str, value: u64) {
    let is_there = || (metric(admin, name) == value).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_there).unwrap_or_else(|| panic!("{name} is not {value}"));
}

/// Other templates and one target less; what was committed before, and what the target has counted, is not forgotten.
fn a_configuration_is_read_anew(fleet: &Fleet, invalidator: &Invalidator, admin: &mut HttpClient) {
    let file = fleet.configuration("", "again-after-ms = 0");
    let text = fs::read_to_string(&file).expect("it was written");
    let other = text.replace("\"user:{id}\"", "\"member:{id}\"");
    let west = other.rfind("[[target]]").expect("there are two");
    fs::write(&file, &other[..west]).expect("it can be written");
    fleet.store(["user:50", "member:50"]);
    let before = metric(admin, "guira_invalidator_deletes_total{target=\"east\"}");
    invalidator.process.signal(Signal::HUP);
    wait_for(admin, "guira_invalidator_reloads_total", 1);
    fleet.database.execute("INSERT INTO shop.users (id) VALUES (50)");
    let mut east = fleet.caches.0[0].connect();
    let is_gone = || east.value("member:50").is_none().then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_gone).expect("it is deleted by the new template");
    let [east, west] = fleet.kept(&["user:50", "member:50"]);
    assert_eq!((east.into_iter().collect::<Vec<_>>(), west.len()), (vec!["user:50"], 2));
    assert!(metric(admin, "guira_invalidator_deletes_total{target=\"east\"}") > before);
    fs::write(&file, text).expect("it can be written");
    invalidator.process.signal(Signal::HUP);
    wait_for(admin, "guira_invalidator_reloads_total", 2);
    fleet.catch_up("second");
}

fn a_wrong_one_leaves_everything_as_it_was(fleet: &Fleet, invalidator: &Invalidator, admin: &mut HttpClient) {
    let file = fleet.configuration("queue-batches = 0", "");
    invalidator.process.signal(Signal::HUP);
    wait_for(admin, "guira_invalidator_reload_failures_total", 1);
    // This one is right, but what it names cannot be used.
    let text = fs::read_to_string(&file).expect("it was written").replace("queue-batches = 0", "");
    let position = fleet.scratch.file("position");
    fs::write(&file, text.replacen(&format!("{position:?}"), "\"/dev/null/position\"", 1))
        .expect("it can be written");
    invalidator.process.signal(Signal::HUP);
    wait_for(admin, "guira_invalidator_reload_failures_total", 2);
    for expected in ["cannot reload the configuration", "line 5", "cannot open /dev/null/position.lock"] {
        wait_for_log(|| invalidator.process.errors(), expected);
    }
    fleet.catch_up("third");
    fleet.configuration("", "again-after-ms = 0");
}

/// The password is changed in the database first: until it is in the file too, the login is refused, and tried again.
fn a_password_is_read_anew(fleet: &Fleet, admin: &mut HttpClient) {
    fleet.database.execute("ALTER USER guira@'127.0.0.1' IDENTIFIED BY 'another'");
    let threads =
        fleet.database.execute("SELECT id FROM information_schema.processlist WHERE user = 'guira'");
    for thread in threads.lines() {
        fleet.database.execute(&format!("KILL {thread}"));
    }
    let is_refused = || (metric(admin, "guira_invalidator_source_failures_total") >= 2).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_refused).expect("the login is refused");
    fleet.scratch.write("password", "another\n");
    fleet.catch_up("fourth");
    wait_for(admin, "guira_invalidator_source_connected", 1);
}
