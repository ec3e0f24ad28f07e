//! The admin listener of a checker: readiness, status and metrics.

use crate::metrics;
use crate::report::{Example, Origin, Tally};
use crate::shared::Shared;
use guira_sync::clock::CoarseClock;
use guira_web::{Admin, AdminError, Form, Page, Site, object};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn serve(at: &str, token_file: Option<&Path>, shared: Arc<Shared>) -> Result<Admin, AdminError> {
    let secrets = ", keys, and the beginnings of values";
    Admin::serve(at, token_file, secrets, move || CheckerSite { shared, clock: CoarseClock::system() })
}

#[derive(Debug)]
struct CheckerSite {
    shared: Arc<Shared>,
    clock: CoarseClock,
}

impl Site for CheckerSite {
    const PAGE: Page = Page {
        title: "Guira checker",
        grid: include_str!("web/grid.html"),
        script: include_str!("web/page.js"),
    };
    const JSON: &'static [&'static str] = &["/status.json"];

    fn clock(&self) -> &CoarseClock {
        &self.clock
    }

    fn look(&mut self) {}

    /// A checker that answers is healthy: what it cannot reach, it counts as unknown.
    fn fault(&mut self) -> Option<String> {
        None
    }

    fn metrics(&mut self, form: Form) -> String {
        metrics::text(&self.shared, form, true)
    }

    fn json(&mut self, path: &str) -> Option<String> {
        (path == "/status.json").then(|| status(&self.shared, self.clock.millis().0).to_string())
    }
}

/// The data of the page; `now` is in milliseconds of any clock.
fn status(shared: &Shared, now: u64) -> Value {
    let report = shared.report();
    let tally = |tally: &Tally| {
        let rows = tally.rows().into_iter().map(|(name, count)| (name.to_owned(), count.into()));
        let mut shown = object(rows);
        shown.insert("share".to_owned(), tally.share().into());
        shown.insert("nines".to_owned(), tally.nines().into());
        Value::from(shown)
    };
    let delays: Vec<Value> = report
        .delays
        .iter()
        .map(|at| {
            json!({
                "delay": at.delay.as_secs_f64(),
                "all": tally(&at.all),
                "regions": at.regions.iter().map(tally).collect::<Vec<_>>(),
                "clusters": at.clusters.iter().map(tally).collect::<Vec<_>>(),
            })
        })
        .collect();
    let example = |example: &Example| {
        json!({
            "key": example.key.escape_ascii().to_string(),
            "cluster": shared.clusters[example.cluster].name,
            "told": shared.started + example.changed.as_secs(),
            "hinted": example.origin == Origin::Hint,
            "cache": example.cache.to_string(),
            "truth": example.truth.to_string(),
            "seen": example.seen.map(|delay| delay.as_secs_f64()),
        })
    };
    let counts = report.counts;
    json!({
        "version": concat!("guira ", env!("CARGO_PKG_VERSION")),
        "ready": null,
        "time_ns": now * 1_000_000,
        "hints": counts.hints,
        "unmatched": counts.unmatched,
        "unmatched_example": report.unmatched.map(|key| key.escape_ascii().to_string()),
        "sampled": counts.sampled,
        "dropped": counts.dropped,
        "untold": counts.untold,
        "under_way": report.under_way,
        "clusters": shared.clusters.iter().map(|it| json!({ "name": it.name, "region": it.region, "is_up": it.counts.is_up() })).collect::<Vec<_>>(),
        "regions": shared.regions,
        "delays": delays,
        "examples": report.examples.iter().map(example).collect::<Vec<_>>(),
        "more_examples": report.more_examples,
    })
}
