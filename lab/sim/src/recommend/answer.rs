//! What is recommended, for people and for programs.

use guira_roster::AUTO;
use serde::Serialize;

use super::{AUTO_WITHIN, READS_WORTH, WORTH};
use crate::report::{Simulated, grouped};
use crate::size::Size;

/// How large a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// All memory of a server, in bytes.
    Memory(u64),
    /// Objects, where sizes are not known.
    Objects(u64),
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(bytes) => write!(out, "{}", Size::Bytes(*bytes)),
            Self::Objects(count) => write!(out, "{} objects", grouped(*count as usize)),
        }
    }
}

/// What is missed with so much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct At {
    /// So much.
    #[serde(flatten)]
    pub amount: Amount,
    /// Misses over reads.
    pub miss_ratio: f64,
}

/// The best fixed policy at a size that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// What it misses.
    #[serde(flatten)]
    pub at: At,
    /// The policy.
    pub policy: String,
}

/// Why this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// From it on no doubling is worth it.
    Found,
    /// The same, and a server does not start with less.
    Least,
    /// The same, and smaller ones were not tried.
    SmallestTried,
    /// It was given.
    Given,
}

/// What is recommended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The policy: `auto`, unless it misses more than a fixed one by more than a hundredth.
    pub policy: String,
    /// How large, and what that misses.
    #[serde(flatten)]
    pub at: At,
    /// The standard error of that, in a sample.
    pub uncertainty: Option<f64>,
    /// The share of reads that miss whatever the memory.
    pub unavoidable: f64,
    /// With twice as much.
    pub twice: At,
    /// With half as much, if that can be the ceiling of a server.
    pub half: Option<At>,
    /// The fixed policy that misses least.
    pub best_fixed: String,
    /// What that misses.
    pub best_fixed_miss_ratio: f64,
    /// What `auto` misses.
    pub auto_miss_ratio: f64,
    /// What holds all items that there are.
    pub holds_all: Amount,
    /// Why this size.
    pub why: Why,
    /// All sizes that were tried, from the largest on, each with its best fixed policy.
    pub sizes: Vec<Tried>,
}

/// An answer, and what was simulated for it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The trace or the workload.
    pub source: String,
    /// How it is written, or what it is made from and what was assumed.
    pub about: String,
    /// How much was simulated.
    pub simulated: Simulated,
    /// What to give the server, where the answer is its memory.
    pub arguments: Option<String>,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// A share in a hundred.
fn hundred(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// How many percent one is of the other.
fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0} %", 100.0 * part / whole) } else { "none".to_owned() }
}

impl Answer {
    /// What to give the server, where the answer is its memory.
    #[must_use]
    pub fn arguments(&self) -> Option<String> {
        let Amount::Memory(_) = self.at.amount else { return None };
        Some(format!("--memory {} --policy {}", self.at.amount, self.policy))
    }

    /// Some sentences.
    #[must_use]
    pub fn text(&self) -> String {
        let sentences =
            [self.first(), self.misses(), self.doubled(), self.reason(), self.halved(), self.auto()];
        sentences.map(|sentence| sentence + "\n").concat()
    }

    fn first(&self) -> String {
        match (self.arguments(), self.at.amount) {
            (Some(arguments), _) if self.why == Why::Given => {
                format!("With so much memory take {arguments}")
            }
            (Some(arguments), _) => format!("Take {arguments}"),
            (None, amount) => format!(
                "Take room for {amount}, and --policy {}. How long values are is not known: give --value-size BYTES \
                 to be told the --memory.",
                self.policy
            ),
        }
    }

    fn misses(&self) -> String {
        let error = self.uncertainty.map_or_else(String::new, |error| format!(" ± {}", hundred(error)));
        format!(
            "Of 100 reads {}{error} then miss. No memory avoids {} of these: the first reads of keys in these \
             requests, and reads after an expiry or a delete.",
            hundred(self.at.miss_ratio),
            hundred(self.unavoidable)
        )
    }

    fn doubled(&self) -> String {
        let (miss_ratio, At { amount, miss_ratio: twice }) = (self.at.miss_ratio, self.twice);
        let saved = miss_ratio - twice;
        if saved < 5e-5 {
            return format!(
                "Twice as much, {amount}, would save nothing: {} hold all there is.",
                self.holds_all
            );
        }
        format!(
            "Twice as much, {amount}, would save {} of 100 reads a miss, {} of the misses.",
            hundred(saved),
            percent(saved, miss_ratio)
        )
    }

    fn halved(&self) -> String {
        let Some(At { amount, miss_ratio: half }) = self.half else {
            return "With half as much a server would take more than that for itself.".to_owned();
        };
        let more = (half - self.at.miss_ratio).max(0.0);
        format!(
            "Half as much, {amount}, would cost {} of 100 reads a miss, {} of the misses more.",
            hundred(more),
            percent(more, self.at.miss_ratio)
        )
    }

    fn auto(&self) -> String {
        let Self { best_fixed, best_fixed_miss_ratio: best, auto_miss_ratio: auto, .. } = self;
        let fixed = format!("the best fixed policy, {best_fixed}");
        let off = if *best > 0.0 { 100.0 * (auto / best - 1.0) } else { 0.0 };
        let beside = match off {
            off if off.abs() < 0.05 => format!("auto misses as much as {fixed}"),
            off if off < 0.0 => format!("auto misses {:.1} % less than {fixed}", -off),
            off => format!("auto misses {off:.1} % more than {fixed}"),
        };
        if self.policy == AUTO {
            return format!("{beside}, so let the server choose.");
        }
        let within = 100.0 * (AUTO_WITHIN - 1.0);
        format!(
            "{beside}: more than {within:.0} %. It has to learn first; where requests go on for longer that is less."
        )
    }

    /// By which rule.
    fn reason(&self) -> String {
        let (misses, reads) = (100.0 * WORTH, 1.0 / READS_WORTH);
        let rule = format!(
            "a doubling saves less than {misses:.0} % of the misses, or less than one of {reads:.0} reads"
        );
        match self.why {
            Why::Found => format!("It is the least from which on {rule}."),
            Why::Least => {
                format!("With less a server takes more than that for itself, and from there on {rule}.")
            }
            Why::SmallestTried => {
                format!("From there on {rule}; what less would do is asked for with --size.")
            }
            Why::Given if super::is_worth(self.at.miss_ratio, self.twice.miss_ratio) => format!(
                "That is worth it: at least {misses:.0} % of the misses, and at least one of {reads:.0} reads."
            ),
            Why::Given => format!("That is not worth it: {rule}."),
        }
    }
}

impl Report {
    /// What was simulated, and the answer in some sentences.
    #[must_use]
    pub fn text(&self) -> String {
        let Simulated { requests, keys, rate } = self.simulated;
        let sampled = if rate < 1.0 { format!(", a sample of {:.3} %", 100.0 * rate) } else { String::new() };
        format!(
            "{}: {}\n{} requests for {} keys{sampled}\n\n{}",
            self.source,
            self.about,
            grouped(requests),
            grouped(keys),
            self.answer.text()
        )
    }
}
