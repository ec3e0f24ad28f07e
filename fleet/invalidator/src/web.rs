//! The pages of the admin listener.

use crate::counters::{Count, TargetCount};
use crate::metrics;
use crate::shared::Shared;
use guira_sync::clock::{CoarseClock, wall_clock};
use guira_web::{Admin, AdminError, Form, Page, Reading, Site, object};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn serve(at: &str, token_file: Option<&Path>, shared: Arc<Shared>) -> Result<Admin, AdminError> {
    Admin::serve(at, token_file, " and the names of targets", move || InvalidatorSite {
        shared,
        clock: CoarseClock::system(),
    })
}

#[derive(Debug)]
struct InvalidatorSite {
    shared: Arc<Shared>,
    clock: CoarseClock,
}

impl Site for InvalidatorSite {
    const PAGE: Page = Page {
        title: "Guira invalidator",
        grid: include_str!("web/grid.html"),
        script: include_str!("web/page.js"),
    };
    const JSON: &'static [&'static str] = &["/status.json"];
    const SERIES: &'static [&'static str] = &["transactions", "deletes", "lag"];

    fn clock(&self) -> &CoarseClock {
        &self.clock
    }

    fn sample(&mut self) -> Vec<Reading> {
        vec![
            Reading::Total(self.shared.counts.get(Count::Transactions)),
            Reading::Total(deletes(&self.shared)),
            Reading::Level(Some(metrics::lag(&self.shared, wall_clock()) as f64)),
        ]
    }

    fn look(&mut self) {}

    fn fault(&mut self) -> Option<String> {
        fault(&self.shared, wall_clock())
    }

    fn metrics(&mut self, form: Form) -> String {
        let is_ready = self.fault().is_none();
        metrics::text(&self.shared, form, is_ready, wall_clock())
    }

    fn json(&mut self, path: &str) -> Option<String> {
        let fault = self.fault();
        (path == "/status.json").then(|| status(&self.shared, fault, self.clock.millis().0).to_string())
    }
}

/// The reason for not being ready; `now` is in seconds since 1970.
fn fault(shared: &Shared, now: u64) -> Option<String> {
    let (counts, view) = (&shared.counts, shared.view());
    if !counts.is_connected() {
        return Some("the invalidator is not reading the database log".to_owned());
    }
    // A reader that full queues block receives nothing either.
    let is_idle = view.ledger.is_settled();
    if let Some(seconds) = view.undue_silence(counts.silence(now)).filter(|_| is_idle) {
        return Some(format!("the sender of change events sent nothing for {seconds} s"));
    }
    if let Some((lines, seconds)) = counts.useless_lines(now) {
        return Some(format!(
            "none of {lines} lines from the sender in {seconds} s was a change event; their keys stay in the caches"
        ));
    }
    let unflushed = view.targets.iter().find(|target| target.refuses_flush());
    unflushed.map(|target| format!("the log had a gap, and target {} rejects flush_all", target.name()))
}

fn deletes(shared: &Shared) -> u64 {
    shared.view().targets.iter().map(|target| target.get(TargetCount::Deletes)).sum()
}

/// The status page; `now` is in milliseconds of any clock.
fn status(shared: &Shared, fault: Option<String>, now: u64) -> Value {
    let stats =
        Count::ALL.map(|counter| (Count::name(counter).to_owned(), shared.counts.get(counter).into()));
    let mut stats = object(stats);
    let targets = shared.view().targets;
    stats.insert("deletes".to_owned(), deletes(shared).into());
    let target = |target: &Arc<crate::counters::TargetCounts>| {
        let counts = TargetCount::ALL
            .map(|counter| (TargetCount::name(counter).to_owned(), target.get(counter).into()));
        let mut shown = object(counts);
        shown.insert("name".to_owned(), target.name().into());
        shown.insert("is_up".to_owned(), target.is_up().into());
        Value::from(shown)
    };
    json!({
        "version": concat!("guira ", env!("CARGO_PKG_VERSION")),
        "ready": fault,
        "time_ns": now * 1_000_000,
        "lag": metrics::lag(shared, wall_clock()),
        "lag_bytes": metrics::lag_bytes(shared),
        "stats": stats,
        "targets": targets.iter().map(target).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::counters::Flushed;
    use crate::source::{Extent, Place};

    #[test]
    fn it_is_not_ready_while_a_target_does_not_flush() {
        let shared = Shared::default();
        shared.begin(&shared.next(&Config::of_targets(&["east", "west"])));
        shared.counts.record_message(5);
        assert_eq!(fault(&shared, 7), None);
        shared.view().targets[1].set_flushed(Flushed::Refused);
        assert!(fault(&shared, 7).is_some_and(|fault| fault.contains("west rejects flush_all")));
        shared.view().targets[1].set_flushed(Flushed::Done);
        assert_eq!(fault(&shared, 7), None);
        shared.counts.lost();
        assert!(fault(&shared, 7).is_some());
    }

    #[test]
    fn it_is_not_ready_while_a_sender_is_silent_for_longer_than_it_may_be() {
        let shared = Shared::default();
        shared.begin(&shared.next(&Config::of_silent_sender(60)));
        shared.counts.record_message(5);
        assert_eq!(fault(&shared, 65), None);
        shared.view().ledger.sent(1, 5, None);
        assert_eq!(fault(&shared, 66), None, "a target may hold up the reader");
        shared.view().ledger.acknowledged(0, 1);
        assert_eq!(fault(&shared, 66).as_deref(), Some("the sender of change events sent nothing for 61 s"));
    }

    #[test]
    fn it_is_not_ready_while_a_sender_sends_only_what_is_no_change_event() {
        let shared = Shared::default();
        shared.begin(&shared.next(&Config::of_targets(&["east"])));
        shared.counts.record_message(100);
        (0..9).for_each(|_| shared.counts.skipped_line(100));
        assert_eq!(fault(&shared, 1000), None, "some lines may be wrong");
        shared.counts.skipped_line(103);
        assert_eq!(fault(&shared, 109), None, "so are some of one moment");
        let fault_at = |now| fault(&shared, now).unwrap_or_default();
        assert!(
            fault_at(110).contains("none of 10 lines from the sender in 10 s was a change event"),
            "{}",
            fault_at(110)
        );
        shared.counts.used_line();
        assert_eq!(fault(&shared, 110), None);
        shared.counts.skipped_line(111);
        assert_eq!(fault(&shared, 500), None, "they are counted anew");
    }

    #[test]
    fn the_page_is_told_the_lag_in_bytes_if_it_is_known() {
        let shared = Shared::default();
        shared.begin(&shared.next(&Config::of_targets(&["east"])));
        assert_eq!(status(&shared, None, 7)["lag_bytes"], Value::Null);
        shared.counts.set_extent(Some(Extent::new(vec![(3, 100)])));
        shared.view().ledger.passed(Place { file: 3, offset: 40 });
        assert_eq!(status(&shared, None, 7)["lag_bytes"], 60);
    }
}
