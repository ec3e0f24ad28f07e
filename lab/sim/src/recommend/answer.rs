//! What is recommended, for people and for programs.

use guira_roster::AUTO;
use serde::Serialize;

use super::{AUTO_WITHIN, READS_WORTH, WORTH};
use crate::report::{Simulated, grouped};
use crate::size::Size;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// All memory of a server, in bytes.
    Memory(u64),
    /// Objects, where sizes are not known.
    Objects(u64),
}

impl Amount {
    fn number(self) -> u64 {
        match self {
            Self::Memory(number) | Self::Objects(number) => number,
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(bytes) => write!(out, "{}", Size::Bytes(*bytes)),
            Self::Objects(1) => write!(out, "1 object"),
            Self::Objects(count) => write!(out, "{} objects", grouped(*count as usize)),
        }
    }
}

/// What is missed with so much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct At {
    #[serde(flatten)]
    pub amount: Amount,
    pub miss_ratio: f64,
}

/// The best fixed policy at a size that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    #[serde(flatten)]
    pub at: At,
    pub policy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// From it on no doubling is worth it.
    Found,
    /// The same, and a server does not start with less.
    Least,
    /// The same, and smaller ones were not tried.
    SmallestTried,
    Given,
}

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
    pub twice: At,
    /// With half as much, if that can be the ceiling of a server.
    pub half: Option<At>,
    /// The fixed policy that misses least.
    pub best_fixed: String,
    pub best_fixed_miss_ratio: f64,
    pub auto_miss_ratio: f64,
    /// What holds all items that there are.
    pub holds_all: Amount,
    pub why: Why,
    /// All sizes that were tried, from the largest on, each with its best fixed policy.
    pub sizes: Vec<Tried>,
}

/// An answer, and what was simulated for it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub source: String,
    /// How it is written, or what it is made from and what was assumed.
    pub about: String,
    pub simulated: Simulated,
    /// What to give the server, where the answer is its memory.
    pub arguments: Option<String>,
    #[serde(flatten)]
    pub answer: Answer,
}

fn hundred(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

impl Answer {
    /// What to give the server, where the answer is its memory.
    #[must_use]
    pub fn arguments(&self) -> Option<String> {
        let Amount::Memory(_) = self.at.amount else { return None };
        let amount = if self.is_far_too_large() { self.holds_all } else { self.at.amount };
        Some(format!("--memory {amount} --policy {}", self.policy))
    }

    /// Whether half of what was given holds all items.
    fn is_far_too_large(&self) -> bool {
        self.why == Why::Given && self.holds_all.number() * 2 <= self.at.amount.number()
    }

    /// Some sentences, the recommendation first.
    #[must_use]
    pub fn text(&self) -> String {
        let sentences =
            [self.first(), self.misses(), self.doubled(), self.halved(), self.reason(), self.auto()];
        sentences
            .into_iter()
            .filter(|sentence| !sentence.is_empty())
            .map(|sentence| sentence + "\n")
            .collect()
    }

    fn first(&self) -> String {
        let amount = self.at.amount;
        let Some(arguments) = self.arguments() else {
            return format!(
                "Use room for {amount}, and --policy {}. The trace has no value lengths: set --value-size BYTES \
                 for a recommendation of --memory.",
                self.policy
            );
        };
        match self.why {
            Why::Given if self.is_far_too_large() => format!(
                "Use {arguments}: that holds all items, and {amount} are {:.0} times as much.",
                amount.number() as f64 / self.holds_all.number() as f64
            ),
            Why::Given if self.is_too_small() => {
                format!("{amount} are too little: twice as much pays. With {amount} use {arguments}.")
            }
            Why::Given => format!("{amount} are enough: more does not pay. Use {arguments}."),
            Why::Found | Why::Least | Why::SmallestTried => format!("Use {arguments}."),
        }
    }

    fn is_too_small(&self) -> bool {
        super::is_worth(self.at.miss_ratio, self.twice.miss_ratio)
    }

    fn misses(&self) -> String {
        let error = self.uncertainty.map_or_else(String::new, |error| format!(" ± {}", hundred(error)));
        format!(
            "With {}, {}{error} of 100 reads miss. No memory avoids {} of these: first reads of keys, and reads after \
             an expiry or a delete.",
            self.at.amount,
            hundred(self.at.miss_ratio),
            hundred(self.unavoidable)
        )
    }

    fn doubled(&self) -> String {
        let (miss_ratio, At { amount, miss_ratio: twice }) = (self.at.miss_ratio, self.twice);
        let saved = miss_ratio - twice;
        if saved < 5e-5 {
            return format!("Twice as much, {amount}, saves no miss: {} hold all items.", self.holds_all);
        }
        let fewer = 100.0 * saved / miss_ratio;
        format!(
            "Twice as much, {amount}, turns {} of 100 reads into hits: {fewer:.0} % fewer misses.",
            hundred(saved)
        )
    }

    fn halved(&self) -> String {
        let Some(At { amount, miss_ratio: half }) = self.half else {
            return "With half as much a server does not start.".to_owned();
        };
        let more = half - self.at.miss_ratio;
        if more < 5e-5 {
            return format!("Half as much, {amount}, costs no miss.");
        }
        let times = if self.at.miss_ratio > 0.0 {
            format!(": {:.1} times as many", half / self.at.miss_ratio)
        } else {
            String::new()
        };
        format!("Half as much, {amount}, turns {} of 100 reads into misses{times}.", hundred(more))
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
            "{beside}, and the limit is {within:.0} %. auto learns first, so longer traces reduce the difference."
        )
    }

    fn reason(&self) -> String {
        let (misses, reads) = (100.0 * WORTH, 1.0 / READS_WORTH);
        let rule =
            format!("A doubling pays if it saves {misses:.0} % of the misses and one of {reads:.0} reads.");
        let why = match self.why {
            Why::Found => format!("From {} on no doubling pays.", self.at.amount),
            Why::Least => "A server does not start with less, and no doubling pays.".to_owned(),
            Why::SmallestTried => {
                format!("From {} on no doubling pays; for smaller sizes use --size.", self.at.amount)
            }
            Why::Given => return rule,
        };
        format!("{why} {rule}")
    }
}

impl Report {
    /// The answer in some sentences, and what was simulated.
    #[must_use]
    pub fn text(&self) -> String {
        let Simulated { requests, keys, rate } = self.simulated;
        let sampled =
            if rate < 1.0 { format!(" (a sample of {:.1} %)", 100.0 * rate) } else { String::new() };
        format!(
            "{}\nSimulated: {} requests for {} keys{sampled} of {}, {}\n",
            self.answer.text(),
            grouped(requests),
            grouped(keys),
            self.source,
            self.about
        )
    }
}
