//! The results of a probe.

use std::fmt::Write as _;
use std::time::Duration;

/// The result of a delete at one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Consistent,
    Stale,
    Absent,
    Unknown,
}

/// The number of deletes by result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// The old item was gone.
    pub consistent: u64,
    pub stale: u64,
    /// There was no item to delete.
    pub absent: u64,
    /// The node could not be read, before or after.
    pub unknown: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Consistent => &mut self.consistent,
            Outcome::Stale => &mut self.stale,
            Outcome::Absent => &mut self.absent,
            Outcome::Unknown => &mut self.unknown,
        } += 1;
    }

    /// The deletes of which it is known whether they were in time.
    pub const fn judged(self) -> u64 {
        self.consistent + self.stale
    }

    /// The share of those that were in time, unless there are none.
    pub fn share(self) -> Option<f64> {
        (self.judged() > 0).then(|| self.consistent as f64 / self.judged() as f64)
    }

    /// The share as a number of nines: 3 for 99.9 %. If all were in time, what that number of deletes can show at all.
    pub fn nines(self) -> Option<f64> {
        nines(self.judged(), self.stale)
    }

    const fn rows(self) -> [(&'static str, u64); 4] {
        [
            ("consistent", self.consistent),
            ("stale", self.stale),
            ("absent", self.absent),
            ("unknown", self.unknown),
        ]
    }
}

/// The share of what has not failed as a number of nines: 3 for 99.9 %. If nothing has, what `judged` can show at all.
pub fn nines(judged: u64, failed: u64) -> Option<f64> {
    (judged > 0).then(|| (judged as f64 / failed.max(1) as f64).log10())
}

/// The results of all samples read at one delay after their delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtDelay {
    /// The time from the delete to the look.
    pub delay: Duration,
    /// Over all nodes: a delete is in time if it was so on every node that had the item.
    pub overall: Tally,
    pub nodes: Vec<Tally>,
}

/// A delete that was not in time on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub key: Vec<u8>,
    pub node: usize,
    /// When the delete was sent on.
    pub sent: Duration,
    /// The cas unique of the item, before and after.
    pub unique: u64,
    /// The first and the last delay at which it was still there.
    pub seen: [Duration; 2],
}

/// All that was found so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub deletes: u64,
    pub sampled: u64,
    /// Deletes that would have been sampled, but for the limit of samples.
    pub dropped: u64,
    /// Samples that are not settled yet.
    pub under_way: usize,
    pub delays: Vec<AtDelay>,
    /// Deletes that were late, the first ones.
    pub examples: Vec<Example>,
    /// Failures beyond the limit of examples.
    pub more_examples: u64,
}

impl Report {
    /// The figures as OpenMetrics text; `nodes` are the names of the nodes.
    pub fn openmetrics(&self, nodes: &[String]) -> String {
        let mut out = String::new();
        for (name, help, value) in [
            ("guira_probe_deletes", "Deletes read.", self.deletes),
            ("guira_probe_sampled", "Deletes sampled.", self.sampled),
            (
                "guira_probe_dropped",
                "Deletes not sampled because too many samples are in progress.",
                self.dropped,
            ),
        ] {
            // Writing to a string does not fail.
            let _ = write!(out, "# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {value}\n");
        }
        let name = "guira_probe_looks";
        let help = "Sampled deletes by delay, node and outcome; without a node, for all nodes together.";
        let _ = write!(out, "# TYPE {name} counter\n# HELP {name} {help}\n");
        for at in &self.delays {
            let delay = at.delay.as_secs_f64();
            for (outcome, count) in at.overall.rows() {
                let _ = writeln!(
                    out,
                    "{name}_total{{delay=\"{delay}\",node=\"\",outcome=\"{outcome}\"}} {count}"
                );
            }
            for (tally, node) in at.nodes.iter().zip(nodes) {
                let node = node.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                for (outcome, count) in tally.rows() {
                    let _ = writeln!(
                        out,
                        "{name}_total{{delay=\"{delay}\",node=\"{node}\",outcome=\"{outcome}\"}} {count}"
                    );
                }
            }
        }
        let name = "guira_probe_under_way";
        let _ = write!(out, "# TYPE {name} gauge\n# HELP {name} Samples in progress.\n");
        let _ = write!(out, "{name} {}\n# EOF\n", self.under_way);
        out
    }
}
