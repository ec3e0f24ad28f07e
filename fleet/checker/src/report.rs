//! What was found.

use crate::probe::nines;
use crate::sight::Content;
use std::time::Duration;

/// What was found of a hint at one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Consistent,
    Missing,
    Inconsistent,
    Unknown,
    Superseded,
}

/// What is found of several clusters together: the first of these that is found of one.
const WORST: [Outcome; 5] =
    [Outcome::Inconsistent, Outcome::Unknown, Outcome::Superseded, Outcome::Consistent, Outcome::Missing];

impl Outcome {
    pub(crate) fn worst(found: impl Iterator<Item = Outcome> + Clone) -> Outcome {
        WORST.into_iter().find(|outcome| found.clone().any(|it| it == *outcome)).unwrap_or(Outcome::Missing)
    }
}

/// Hints by what was found of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The cache had what the database has.
    pub consistent: u64,
    /// It had nothing, or what says itself that it is stale.
    pub missing: u64,
    pub inconsistent: u64,
    /// The cache or the database could not be asked, or not in time.
    pub unknown: u64,
    /// The key was changed again before.
    pub superseded: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Consistent => &mut self.consistent,
            Outcome::Missing => &mut self.missing,
            Outcome::Inconsistent => &mut self.inconsistent,
            Outcome::Unknown => &mut self.unknown,
            Outcome::Superseded => &mut self.superseded,
        } += 1;
    }

    /// Hints of which it is known whether the cache was consistent.
    pub const fn judged(self) -> u64 {
        self.consistent + self.missing + self.inconsistent
    }

    /// The share of those that were.
    pub fn share(self) -> Option<f64> {
        let good = self.consistent + self.missing;
        (self.judged() > 0).then(|| good as f64 / self.judged() as f64)
    }

    /// The share as a number of nines; see [`nines`].
    pub fn nines(self) -> Option<f64> {
        nines(self.judged(), self.inconsistent)
    }

    pub(crate) const fn rows(self) -> [(&'static str, u64); 5] {
        [
            ("consistent", self.consistent),
            ("missing", self.missing),
            ("inconsistent", self.inconsistent),
            ("unknown", self.unknown),
            ("superseded", self.superseded),
        ]
    }
}

/// What was found at one delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtDelay {
    pub delay: Duration,
    pub all: Tally,
    /// Of the clusters of each region.
    pub regions: Vec<Tally>,
    pub clusters: Vec<Tally>,
}

/// A cache that was found to be inconsistent.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub key: Vec<u8>,
    pub cluster: usize,
    /// When the change was told of, or seen.
    pub told: Duration,
    pub origin: Origin,
    pub cache: Content,
    /// What the database has; what another cluster has, if clusters are compared with each other.
    pub truth: Content,
    /// The first and the last delay at which it was so.
    pub seen: [Duration; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Hint,
    /// The database had another value than before, and nobody had said so.
    Database,
}

/// All that was found so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub counts: Counted,
    pub under_way: usize,
    pub delays: Vec<AtDelay>,
    pub examples: Vec<Example>,
    /// Those that found no room among the examples.
    pub more_examples: u64,
    /// A key of no pattern.
    pub unmatched: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub hints: u64,
    /// Their keys are of no pattern.
    pub unmatched: u64,
    pub sampled: u64,
    /// Those that would have been sampled, had there been room.
    pub dropped: u64,
    /// Changes that only the database has told of.
    pub untold: u64,
}
