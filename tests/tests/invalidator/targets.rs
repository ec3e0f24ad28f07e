//! Targets that are away, deletes that come twice, and parts of the log that are read once more.

use super::{ARRIVAL_MAX, Fleet, Invalidator, metric};
use guira_harness::server::Signal;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::http::HttpClient;
use guira_tests::server::run_guira;
use guira_tests::skip::say;
use std::collections::BTreeSet;
use std::path::Path;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn targets_are_given_what_they_have_missed() {
    let Some(fleet) = Fleet::start() else {
        say("MariaDB is not installed (Debian: mariadb-server)");
        return;
    };
    a_part_of_the_log_is_replayed(&fleet);
    a_target_that_is_away_does_not_hold_up_the_others(&fleet);
    what_a_late_reader_stores_is_deleted_again(&fleet);
    keys_are_held_off_if_that_is_wanted(&fleet);
}

fn position(fleet: &Fleet) -> String {
    let variable = if fleet.product == "mysql" { "gtid_executed" } else { "gtid_binlog_pos" };
    // MySQL writes each server's on a line of its own, which the client program shows as a word.
    fleet.database.execute(&format!("SELECT @@{variable}")).trim().replace("\\n", "")
}

fn insert(fleet: &Fleet, ids: std::ops::Range<u64>) {
    let rows: Vec<_> = ids.map(|id| format!("({id})")).collect();
    fleet.database.execute(&format!("INSERT INTO shop.users (id) VALUES {}", rows.join(",")));
}

fn users(ids: std::ops::Range<u64>) -> Vec<String> {
    ids.map(|id| format!("user:{id}")).collect()
}

/// Waits until the east has none of these keys.
#[track_caller]
fn expect_gone_in_the_east(fleet: &Fleet, keys: &[String]) {
    let mut client = fleet.caches.0[0].connect();
    let is_gone = || keys.iter().all(|key| client.value(key).is_none()).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_gone).expect("the east has deleted them");
}

pub(super) fn a_part_of_the_log_is_replayed(fleet: &Fleet) {
    let mut invalidator = Invalidator::start(fleet, "");
    invalidator.wait_until_ready();
    let mut positions = vec![position(fleet)];
    for id in [1, 2, 3] {
        insert(fleet, id..id + 1);
        positions.push(position(fleet));
    }
    fleet.catch_up("before");
    let all = ["user:1", "user:2", "user:3"];
    let replay = |arguments: &[&str]| {
        let config = fleet.configuration("", "");
        let config = config.to_string_lossy();
        run_guira(&[&["invalidate", "replay", "--config", &config], arguments].concat())
    };
    let set = |keys: &[&'static str]| keys.iter().copied().collect::<BTreeSet<_>>();
    fleet.store(all);
    let output = replay(&["--from", &positions[1], "--to", &positions[2], "--target", "east"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "east: 1 deletes\n");
    assert_eq!(fleet.kept(&all), [set(&["user:1", "user:3"]), set(&all)]);
    fleet.store(all);
    let output = replay(&["--from", &positions[1]]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fleet.kept(&all), [set(&["user:1"]), set(&["user:1"])]);
    let nowhere = match fleet.product {
        "mysql" => "8b9875c4-e970-11f1-8f31-02fc00000001:1-7",
        _ => "0-1-999999",
    };
    for (arguments, expected) in [
        (&["--from", nowhere][..], "log has a gap"),
        (&["--from", "yesterday"], "is not a log position"),
        (&["--from", &positions[0], "--to", "tomorrow"], "is not a log position"),
        (&["--from", &positions[0], "--target", "north"], "no target is called north"),
    ] {
        let output = replay(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments:?}: {errors}");
    }
    // Whoever tails the log meanwhile has gone on.
    fleet.catch_up("after");
    invalidator.end();
    assert!(!invalidator.process.errors().contains("cannot read the database log"));
}

fn spool_bytes(admin: &mut HttpClient) -> u64 {
    metric(admin, "guira_invalidator_spool_bytes{target=\"west\"}")
}

fn a_target_that_is_away_does_not_hold_up_the_others(fleet: &Fleet) {
    let spool = fleet.scratch.file("spool");
    let settings = format!("spool = {spool:?}\nspool-after-ms = 200\nqueue-batches = 2");
    let start = || Invalidator::start_with(fleet, &settings, "timeout-ms = 1000");
    let mut invalidator = start();
    let mut admin = invalidator.wait_until_ready();
    let keys = users(1000..6000);
    fleet.store(&keys);
    let [_, west] = &fleet.caches.0;
    west.signal("STOP");
    insert(fleet, 1000..5500);
    expect_gone_in_the_east(fleet, &keys[..4500]);
    assert!(spool_bytes(&mut admin) > 0);
    insert(fleet, 5500..6000);
    let last = position(fleet);
    expect_gone_in_the_east(fleet, &keys);
    // The position is saved although the target has not acknowledged anything.
    let file = fleet.scratch.file("position");
    let is_saved = || (saved(&file).trim_end().ends_with(&last)).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_saved).expect("the position is saved");
    invalidator.process.signal(Signal::KILL);
    invalidator.process.wait(PATIENCE).unwrap();
    west.signal("CONT");
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert!(!fleet.kept(&all)[1].is_empty(), "the west has missed something");
    let mut invalidator = start();
    let mut admin = invalidator.wait_until_ready();
    let is_read = || (spool_bytes(&mut admin) == 0).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_read).expect("the spool is delivered");
    assert_eq!(fleet.kept(&all), [BTreeSet::new(), BTreeSet::new()]);
    fleet.catch_up("spooled");
}

fn saved(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// As one that has read the row before the commit was visible, and stores it after the delete.
fn what_a_late_reader_stores_is_deleted_again(fleet: &Fleet) {
    let mut invalidator = Invalidator::start_with(fleet, "", "again-after-ms = 5000");
    let mut admin = invalidator.wait_until_ready();
    let key = ["user:7000".to_owned()];
    fleet.store(&key);
    insert(fleet, 7000..7001);
    expect_gone_in_the_east(fleet, &key);
    fleet.store(&key);
    expect_gone_in_the_east(fleet, &key);
    let hits = || {
        let hits = metric(&mut admin, "guira_invalidator_again_hits_total{target=\"east\"}");
        (hits == 1).then_some(())
    };
    Deadline::after(ARRIVAL_MAX).poll(hits).expect("it is counted");
}

fn keys_are_held_off_if_that_is_wanted(fleet: &Fleet) {
    let mut invalidator = Invalidator::start_by_socket(fleet, "hold-off-s = 60");
    invalidator.wait_until_ready();
    let key = ["user:8000".to_owned()];
    fleet.store(&key);
    insert(fleet, 8000..8001);
    expect_gone_in_the_east(fleet, &key);
    fleet.caches.0[0].connect().exchange("add user:8000 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
}
