//! The metrics of an invalidator, as `/metrics` shows them.

use crate::counters::{Count, TargetCount};
use crate::shared::Shared;
use guira_web::{Exposition, Family, Form};

guira_web::families! {
    FAMILIES;
    UP = "guira_invalidator_up" [], "gauge", "1: the invalidator replies.";
    READY = "guira_invalidator_ready" [], "gauge", "Whether /ready returns 200.";
    CONNECTED = "guira_invalidator_source_connected" [], "gauge", "Whether the invalidator is reading the log of the database.";
    SILENCE = "guira_invalidator_silence_seconds" [], "gauge", "Whole seconds since the database, or the sender of change events, last sent anything. Omitted before the first data.";
    LAG = "guira_invalidator_lag_seconds" [], "gauge", "Age of the oldest change that is not yet deleted or spooled for all targets, from the start of its statement. Without such a change, and without a connection to the database, the time since the database last sent anything. By the clocks of both hosts, in whole seconds.";
    LAG_BYTES = "guira_invalidator_lag_bytes" [], "gauge", "Bytes of the log after the position that all targets have acknowledged or spooled: of MariaDB (the user needs BINLOG MONITOR), MySQL (REPLICATION CLIENT) or PostgreSQL (up to pg_current_wal_lsn()), up to 5 s old. Omitted while unknown.";
    SPOOL = "guira_invalidator_spool_bytes" ["target"], "gauge", "Size of the target's spool on disk: deletes to be delivered when the target is back.";
    RETAINED = "guira_invalidator_retained_log_bytes" [], "gauge", "Bytes of the log that PostgreSQL keeps for the slot, at the last check. 0 for a lost slot, and for other databases.";
    REFUSED_CALLS = "guira_invalidator_system_calls_refused_total" [], "counter", "System calls refused because they are not listed; with system-calls = listed.";
    TARGET_UP = "guira_invalidator_target_up" ["target"], "gauge", "Whether the target has acknowledged its last batch.";
}

/// All metrics, for docs/reference/metrics.md.
pub fn families() -> Vec<Family> {
    let rows = Count::ROWS.iter().map(|row| Family::counter(row, &[]));
    let of_targets = TargetCount::ROWS.iter().map(|row| Family::counter(row, &["target"]));
    FAMILIES.iter().copied().chain(rows).chain(of_targets).collect()
}

/// How many seconds deletes are behind the database.
pub(crate) fn lag(shared: &Shared, now: u64) -> u64 {
    let counts = &shared.counts;
    let since = match shared.view().ledger.oldest() {
        Some(oldest) => Some(oldest),
        None if counts.is_connected() => None,
        None => Some(counts.last_message()).filter(|at| *at > 0),
    };
    since.map_or(0, |since| now.saturating_sub(since))
}

/// How many bytes of the log deletes are behind, if that is known.
pub(crate) fn lag_bytes(shared: &Shared) -> Option<u64> {
    shared.view().ledger.place().and_then(|place| shared.counts.behind(place))
}

pub(crate) fn text(shared: &Shared, form: Form, is_ready: bool, now: u64) -> String {
    let view = shared.view();
    let mut out = Exposition::default();
    out.sample(UP, &[], 1);
    out.sample(READY, &[], u32::from(is_ready));
    out.sample(CONNECTED, &[], u32::from(shared.counts.is_connected()));
    if let Some(seconds) = shared.counts.silence(now) {
        out.sample(SILENCE, &[], seconds);
    }
    out.sample(LAG, &[], lag(shared, now));
    if let Some(bytes) = lag_bytes(shared) {
        out.sample(LAG_BYTES, &[], bytes);
    }
    out.sample(RETAINED, &[], shared.counts.retained());
    out.sample(REFUSED_CALLS, &[], guira_sandbox::refused());
    for (counter, row) in Count::ALL.into_iter().zip(Count::ROWS) {
        out.sample(Family::counter(row, &[]), &[], shared.counts.get(counter));
    }
    for target in &view.targets {
        out.sample(TARGET_UP, &[target.name()], u32::from(target.is_up()));
        out.sample(SPOOL, &[target.name()], target.spool());
        for (counter, row) in TargetCount::ALL.into_iter().zip(TargetCount::ROWS) {
            out.sample(Family::counter(row, &["target"]), &[target.name()], target.get(counter));
        }
    }
    out.text(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::source::{Extent, Place};

    fn shared() -> Shared {
        let shared = Shared::default();
        shared.begin(&shared.next(&Config::of_targets(&["east", "west"])));
        shared
    }

    #[test]
    fn every_family_is_shown_once_and_begins_with_the_name_of_the_process() {
        let shared = shared();
        shared.counts.set_extent(Some(Extent::new(vec![(3, 100)])));
        let hidden = text(&shared, Form::Classic, true, 7);
        assert!(!hidden.contains("guira_invalidator_lag_bytes"), "it is not known where it is");
        assert!(!hidden.contains("guira_invalidator_silence"), "nothing was heard yet");
        shared.counts.record_message(5);
        shared.view().ledger.passed(Place { file: 3, offset: 40 });
        let text = text(&shared, Form::Classic, true, 7);
        assert!(text.contains("\nguira_invalidator_lag_bytes 60\n"), "{text}");
        assert!(text.contains("\nguira_invalidator_silence_seconds 2\n"), "{text}");
        for family in families() {
            assert!(family.name.starts_with("guira_invalidator_"), "{}", family.name);
            let types = format!("# TYPE {} {}\n", family.name, family.kind);
            assert_eq!(text.matches(&types).count(), 1, "{}", family.name);
        }
        assert_eq!(text.matches("# TYPE ").count(), families().len());
        assert!(text.contains("\nguira_invalidator_deletes_total{target=\"west\"} 0\n"), "{text}");
    }

    #[test]
    fn what_the_database_keeps_is_shown() {
        let shared = shared();
        shared.counts.set_retained(12_345);
        let text = text(&shared, Form::Classic, true, 7);
        assert!(text.contains("\nguira_invalidator_retained_log_bytes 12345\n"), "{text}");
    }

    #[test]
    fn the_lag_is_that_of_the_oldest_change_under_way() {
        let shared = shared();
        assert_eq!(lag(&shared, 100), 0, "nothing is known yet");
        shared.counts.record_message(90);
        assert_eq!(lag(&shared, 100), 0);
        shared.view().ledger.sent(1, 80, None);
        shared.view().ledger.sent(2, 85, None);
        assert_eq!(lag(&shared, 100), 20);
        for target in 0..2 {
            shared.view().ledger.acknowledged(target, 1);
        }
        assert_eq!(lag(&shared, 100), 15);
        for target in 0..2 {
            shared.view().ledger.acknowledged(target, 2);
        }
        shared.counts.lost();
        assert_eq!(lag(&shared, 100), 10, "the database may have gone on");
        assert_eq!(lag(&shared, 50), 0, "clocks differ");
    }

    #[test]
    fn a_spool_is_not_told_to_be_empty_before_it_was_opened() {
        let shared = Shared::default();
        let view = shared.next(&Config::of_targets(&["east"]));
        let spools = || text(&shared, Form::Classic, true, 7).matches("spool_bytes{target=").count();
        assert_eq!(spools(), 0);
        view.targets[0].set_spool(5);
        shared.begin(&view);
        let text = text(&shared, Form::Classic, true, 7);
        assert!(text.contains("guira_invalidator_spool_bytes{target=\"east\"} 5\n"), "{text}");
        assert_eq!(spools(), 1);
    }

    #[test]
    fn counters_of_targets_that_stay_go_on_when_the_configuration_is_another() {
        let shared = shared();
        shared.view().targets[1].add(TargetCount::Deletes, 7);
        shared.view().ledger.sent(1, 80, None);
        let view = shared.next(&Config::of_targets(&["west", "north"]));
        shared.begin(&view);
        assert_eq!(view.targets.iter().map(|it| it.get(TargetCount::Deletes)).collect::<Vec<_>>(), [7, 0]);
        assert_eq!(lag(&shared, 100), 0, "nothing is under way any more");
    }
}
