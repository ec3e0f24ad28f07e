//! Targets that are away, and transactions that are large.

use super::{Fleet, Settings};
use crate::{ARRIVAL_MAX, metric, wait_for_lag};
use guira_tests::deadline::Deadline;
use guira_tests::server::wait_for_log;

/// What the process may hold, in bytes.
const RESIDENT_MAX: u64 = 64 << 20;

/// The reader waits for a target, and the database must not take that for a connection that has failed; nor may it be forgotten that all of this has to be kept.
#[test]
fn a_target_that_is_away_holds_up_the_log_and_not_the_connection() {
    let Some(fleet) = Fleet::start("wal_sender_timeout = 3s") else { return };
    let settings = Settings { top: "queue-batches = 1", ..Settings::default() };
    let mut invalidator = fleet.invalidator(settings);
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("first");
    let west = &fleet.caches.0[1];
    west.signal("STOP");
    let started = fleet.execute("SELECT pid, backend_start FROM pg_stat_replication");
    fleet.execute("INSERT INTO users SELECT n FROM generate_series(1, 1000000) n");
    // It is looked every 5 s, so that the timeout has passed between two looks.
    let mut looks = 0;
    let mut last = 0;
    let is_kept = || {
        let retained = metric(&mut admin, "guira_invalidator_retained_log_bytes");
        looks += u32::from(retained != last && retained > 50_000_000);
        last = retained;
        fleet.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 100000))");
        (looks >= 2).then_some(())
    };
    Deadline::after(ARRIVAL_MAX).poll(is_kept).expect("the log is kept, and that is told");
    // A place within a transaction that is not over counts; how far the database had read when it began to send it depends on who was faster.
    wait_for_lag(&mut admin, 10_000_000.., || {
        drop(fleet.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 100000))"));
    });
    assert_eq!(
        fleet.execute("SELECT pid, backend_start FROM pg_stat_replication"),
        started,
        "the same connection"
    );
    wait_for_log(|| invalidator.process.errors(), "slot guira retains");
    let is_away = || (metric(&mut admin, "guira_invalidator_target_up{target=\"west\"}") == 0).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_away).expect("the target is away");
    west.signal("CONT");
    fleet.catch_up("second");
    let failures = metric(&mut admin, "guira_invalidator_source_failures_total");
    assert_eq!(failures, 0, "{}", invalidator.process.errors());
    for target in ["east", "west"] {
        let deletes = metric(&mut admin, &format!("guira_invalidator_deletes_total{{target=\"{target}\"}}"));
        assert!(deletes >= 1_000_000, "{target}: {deletes}");
    }
    let resident = invalidator.process.process().resident_bytes().expect("it runs");
    assert!(resident < RESIDENT_MAX, "{resident} bytes");
    fleet.wait_until_confirmed();
    wait_for_lag(&mut admin, 0..1, || {});
    invalidator.end();
}
