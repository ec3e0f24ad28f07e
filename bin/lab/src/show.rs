//! Output of a run: progress and results.

use std::time::Duration;

use guira_load::counters::{Counters, Percentiles};
use guira_load::engine::Observer;
use guira_load::run::Outcome;
use guira_workload::trace::TraceError;
use indicatif::{ProgressBar, ProgressStyle};

use guira_cli::failure::Failure;

/// An open loop with less delay at its end has kept its rate.
const BEHIND_S_MIN: f64 = 0.1;

const MEASURED: &str = "{prefix} {bar:40} {percent} %, {eta} left; {msg}";

/// The progress of a simulation of this number of requests, on a terminal.
pub(crate) fn simulating(requests: u64) -> ProgressBar {
    let bar = ProgressBar::new(requests);
    if let Ok(style) = ProgressStyle::with_template("simulating {bar:40} {percent} %, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Total {
    After(Duration),
    Operations(u64),
    /// The number of requests of a trace is unknown.
    Unknown,
}

pub(crate) struct Bar {
    bar: ProgressBar,
    total: Total,
}

impl Bar {
    pub(crate) fn new(title: &'static str, total: Total) -> Self {
        let (bar, template) = match total {
            Total::After(time) => (ProgressBar::new(time.as_millis() as u64), MEASURED),
            Total::Operations(count) => (ProgressBar::new(count), MEASURED),
            Total::Unknown => (ProgressBar::new_spinner(), "{spinner} {prefix} {elapsed_precise} {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(title);
        Self { bar, total }
    }
}

impl Observer for Bar {
    fn started(&mut self) {
        self.bar.reset();
    }

    fn ended(&mut self) {
        self.bar.finish_and_clear();
    }

    fn skipped(&mut self, count: u64, first: &TraceError) {
        skipped(count, first);
    }

    fn progress(&mut self, counters: &Counters) {
        let counts = &counters.counts;
        self.bar.set_message(format!("{} operations, {} wrong", counts.operations(), counts.wrong));
        match self.total {
            Total::After(_) => self.bar.set_position(self.bar.elapsed().as_millis() as u64),
            Total::Operations(_) => self.bar.set_position(counts.operations()),
            Total::Unknown => self.bar.tick(),
        }
    }
}

/// Reports invalid requests of a trace that were skipped.
pub(crate) fn skipped(count: u64, first: &TraceError) {
    eprintln!("guira: skipped {count} invalid requests; the first: {first}");
}

pub(crate) fn json(outcome: &Outcome) -> Result<String, Failure> {
    to_json(&outcome.record())
}

pub(crate) fn to_json(what: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(what).map_err(|error| Failure::caused("cannot write JSON", error))
}

pub(crate) fn print(outcome: &Outcome) {
    let counts = &outcome.counters.counts;
    println!(
        "{:.0} operations per second over {:.2} s: {} gets, {} sets, {} deletes, {} fills",
        outcome.per_second(),
        outcome.elapsed_s,
        counts.gets,
        counts.sets,
        counts.deletes,
        counts.fills
    );
    if let (Some(cpu_s), Some(figure)) = (outcome.server_cpu_s, outcome.per_cpu_second()) {
        println!("{figure:.0} operations per second of server CPU time ({cpu_s:.3} s used)");
    }
    println!(
        "hit ratio {:.4}; {} wrong, {} refused; contents of {} values compared",
        counts.hit_ratio(),
        counts.wrong,
        counts.refused,
        counts.contents_checked
    );
    if counts.gets > 0 && counts.hit_ratio() == 0.0 {
        println!(
            "no hits: use --preload to store all keys first, or --fill-misses to store keys after a miss"
        );
    }
    if counts.lost + counts.late > 0 {
        println!(
            "{} requests without a reply ({:.4} %), {} late datagrams",
            counts.lost,
            counts.lost_ratio() * 100.0,
            counts.late
        );
    }
    let behind_s = counts.behind_ns as f64 / 1e9;
    if behind_s >= BEHIND_S_MIN {
        println!("{behind_s:.1} s behind schedule at the end: the client or server cannot keep this rate");
    }
    for (name, histogram) in [("get", &outcome.counters.get_ns), ("set", &outcome.counters.set_ns)] {
        if !histogram.is_empty() {
            let p = Percentiles::of(histogram);
            println!(
                "{name} latency in µs: mean {:.1}, p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
                p.mean_us, p.p50_us, p.p90_us, p.p99_us, p.p999_us, p.max_us
            );
        }
    }
    outcome.counters.examples.iter().for_each(|example| println!("  {example}"));
}
