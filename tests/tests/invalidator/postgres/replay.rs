//! A part of the log once more, from a copy of a slot.

use super::{Fleet, Settings};
use guira_tests::server::run_guira;
use std::collections::BTreeSet;
use std::fs;

fn position(fleet: &Fleet) -> String {
    let row = fleet.execute(
        "SELECT system_identifier || '-' || timeline_id || '-' || pg_current_wal_lsn() FROM pg_control_system(), pg_control_checkpoint()",
    );
    row.trim_end().to_owned()
}

#[test]
fn a_part_of_the_log_is_replayed_as_far_as_a_slot_has_it() {
    let Some(fleet) = Fleet::start("") else { return };
    let mut invalidator = fleet.invalidator(Settings::default());
    invalidator.wait_until_ready();
    fleet.catch_up("first");
    fleet.execute("SELECT pg_copy_logical_replication_slot('guira', 'kept')");
    let mut positions = vec![position(&fleet)];
    for id in [1, 2, 3] {
        fleet.execute(&format!("INSERT INTO users (id) VALUES ({id})"));
        positions.push(position(&fleet));
    }
    fleet.catch_up("before");
    fleet.wait_until_confirmed();
    let tails = fleet.configuration(Settings::default());
    let text = fs::read_to_string(&tails).expect("it was written");
    let keeps = fleet.scratch.write("kept.toml", &text.replace("slot = \"guira\"", "slot = \"kept\""));
    let replay = |config: &std::path::Path, arguments: &[&str]| {
        let config = config.to_string_lossy();
        run_guira(&[&["invalidate", "replay", "--config", &config], arguments].concat())
    };
    let all = ["user:1", "user:2", "user:3"];
    let set = |keys: &[&'static str]| keys.iter().copied().collect::<BTreeSet<_>>();
    fleet.caches.store(all);
    let output = replay(&keeps, &["--from", &positions[1], "--to", &positions[2], "--target", "east"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fleet.caches.kept(&all), [set(&["user:1", "user:3"]), set(&all)]);
    fleet.caches.store(all);
    let output = replay(&keeps, &["--from", &positions[1]]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fleet.caches.kept(&all), [set(&["user:1"]), set(&["user:1"])]);
    // Again, since the slot that was copied has not moved.
    let output = replay(&keeps, &["--from", &positions[0]]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fleet.caches.kept(&all), [set(&[]), set(&[])]);
    for (config, arguments, expected) in [
        (&tails, &["--from", &*positions[0]][..], "slot guira starts at"),
        (&keeps, &["--from", "yesterday"], "is not a log position"),
        (&keeps, &["--from", &positions[0], "--to", "tomorrow"], "is not a log position"),
    ] {
        let output = replay(config, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments:?}: {errors}");
    }
    // Copies are gone, and whoever tails the log has gone on.
    assert_eq!(fleet.execute("SELECT count(*) FROM pg_replication_slots").trim_end(), "2");
    fleet.catch_up("after");
    invalidator.end();
    assert!(!invalidator.process.errors().contains("cannot read the database log"));
}
