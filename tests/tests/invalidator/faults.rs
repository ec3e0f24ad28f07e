//! What goes wrong around an invalidator.

use super::deletes::expect_gone;
use super::{ARRIVAL_MAX, Fleet, Invalidator, metric};
use guira_tests::deadline::Deadline;
use guira_tests::http::HttpClient;
use guira_tests::mounted::Mounted;
use guira_tests::skip::say;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// How long a million rows may take.
const LONG: Duration = Duration::from_secs(600);
/// What an invalidator may take of memory, whatever a transaction changes, in KiB.
const MEMORY_MAX_KIB: u64 = 64 << 10;

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn nothing_is_lost_when_a_disk_is_full_or_a_database_is_restarted() {
    let Some(mut fleet) = Fleet::start() else {
        say("MariaDB is not installed (Debian: mariadb-server)");
        return;
    };
    a_database_that_is_restarted_is_read_on(&mut fleet);
    if let Some(disk) = Mounted::new(8) {
        a_full_disk_loses_nothing(&fleet, &disk);
    }
}

/// Waits until a counter has grown.
#[track_caller]
fn wait_for_more(admin: &mut HttpClient, name: &str, than: u64) {
    let is_there = || (metric(admin, name) > than).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_there).unwrap_or_else(|| panic!("{name} is still {than}"));
}

pub(super) fn a_database_that_is_restarted_is_read_on(fleet: &mut Fleet) {
    let mut invalidator = Invalidator::start(fleet, "");
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("before-the-restart");
    fleet.store(["user:101", "user:102"]);
    fleet.database.execute("INSERT INTO shop.users (id) VALUES (101)");
    fleet.database.restart();
    wait_for_more(&mut admin, "guira_invalidator_source_failures_total", 0);
    fleet.database.execute("INSERT INTO shop.users (id) VALUES (102)");
    fleet.catch_up("after-the-restart");
    expect_gone(fleet, &["user:101", "user:102"], &[]);
    invalidator.end();
}

/// Neither the position nor a spool can be written, while one target is stopped.
fn a_full_disk_loses_nothing(fleet: &Fleet, disk: &Mounted) {
    let settings = format!("spool = {:?}\nspool-max-mb = 64\nspool-after-ms = 100", disk.file("spool"));
    let file = fleet.configuration(&settings, "again-after-ms = 0");
    let text = fs::read_to_string(&file).expect("it was written");
    let (own, full) = (fleet.scratch.file("position"), disk.file("position"));
    fs::write(&file, text.replace(&format!("{own:?}"), &format!("{full:?}"))).expect("it can be written");
    let mut invalidator = Invalidator::start_by(&file);
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("before-it-is-full");
    disk.take_all();
    fleet.catch_up("while-it-is-full");
    wait_for_more(&mut admin, "guira_invalidator_position_save_failures_total", 0);
    let keys: Vec<String> = (200_000..205_000).map(|id| format!("user:{id}")).collect();
    fleet.store(&keys);
    let west = &fleet.caches.0[1];
    west.signal("STOP");
    let rows: Vec<_> = (200_000..205_000).map(|id| format!("({id})")).collect();
    fleet.database.execute(&format!("INSERT INTO shop.users (id) VALUES {}", rows.join(",")));
    wait_for_more(&mut admin, "guira_invalidator_spool_failures_total{target=\"west\"}", 0);
    west.signal("CONT");
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    fleet.catch_up("after-the-target-was-away");
    assert_eq!(fleet.kept(&keys), [BTreeSet::new(), BTreeSet::new()]);
    let saved = metric(&mut admin, "guira_invalidator_position_saves_total");
    disk.give();
    wait_for_more(&mut admin, "guira_invalidator_position_saves_total", saved);
    invalidator.end();
}

#[test]
#[ignore = "takes a minute: a million rows"]
fn a_transaction_of_a_million_rows_takes_little_memory() {
    a_million_rows_take_little_memory(&Fleet::start().expect("MariaDB is installed"));
}

pub(super) fn a_million_rows_take_little_memory(fleet: &Fleet) {
    let mut invalidator = Invalidator::start(fleet, "");
    invalidator.wait_until_ready();
    fleet.catch_up("before-the-million");
    fleet.store(["user:0", "user:999999", "user:1000000"]);
    let digit = |name: char, factor: u64| format!("{factor} * {name}.id");
    let sum: Vec<_> =
        ('a'..='f').zip([1, 10, 100, 1000, 10_000, 100_000]).map(|(a, b)| digit(a, b)).collect();
    let tables: Vec<_> = ('a'..='f').map(|name| format!("digits {name}")).collect();
    fleet.database.execute(&format!(
        "USE shop; CREATE TABLE digits (id INT); INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
         INSERT INTO users (id, name) SELECT {0}, CONCAT('a name ', {0}) FROM {1}",
        sum.join(" + "),
        tables.join(", ")
    ));
    fleet.store(["after-the-million"]);
    fleet.database.execute("/* mc: after-the-million */ INSERT INTO shop.ends VALUES ()");
    let is_over = || fleet.kept(&["after-the-million"]).iter().all(BTreeSet::is_empty).then_some(());
    Deadline::after(LONG).poll(is_over).expect("all is deleted");
    expect_gone(fleet, &["user:0", "user:999999"], &["user:1000000"]);
    let status = fs::read_to_string(format!("/proc/{}/status", invalidator.process.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u64 = peak.and_then(|peak| peak.trim().parse().ok()).expect("the kernel tells it");
    println!("{}: at most {peak} KiB resident", fleet.product);
    assert!(peak < MEMORY_MAX_KIB, "{peak} KiB");
    invalidator.end();
}
