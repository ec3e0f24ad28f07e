//! The results of the checker.

use crate::probe::nines;
use crate::sight::Content;
use std::time::Duration;

/// The result of a hint at one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Consistent,
    Missing,
    Inconsistent,
    Unknown,
    Superseded,
}

/// The overall result of several clusters: the first of these that one of them has.
const WORST: [Outcome; 5] =
    [Outcome::Inconsistent, Outcome::Unknown, Outcome::Superseded, Outcome::Consistent, Outcome::Missing];

impl Outcome {
    pub(crate) fn worst(found: impl Iterator<Item = Outcome> + Clone) -> Outcome {
        WORST.into_iter().find(|outcome| found.clone().any(|it| it == *outcome)).unwrap_or(Outcome::Missing)
    }
}

/// The number of hints by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The cache had the value of the database.
    pub consistent: u64,
    /// The cache had no value, or one that is marked as stale.
    pub missing: u64,
    pub inconsistent: u64,
    /// The cache or the database could not be read, or not in time.
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

/// The results of all samples read at one delay after their delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtDelay {
    pub delay: Duration,
    pub all: Tally,
    /// For the clusters of each region.
    pub regions: Vec<Tally>,
    pub clusters: Vec<Tally>,
}

/// A cache that was found to be inconsistent.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub key: Vec<u8>,
    pub cluster: usize,
    /// When the hint came, or the change was seen.
    pub changed: Duration,
    pub origin: Origin,
    pub cache: Content,
    /// The value of the database; that of another cluster if clusters are compared with each other.
    pub truth: Content,
    /// The first and the last delay at which the cache was wrong.
    pub seen: [Duration; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Hint,
    /// The value of the database changed without a hint.
    Database,
}

/// All results so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub counts: Counted,
    pub under_way: usize,
    pub delays: Vec<AtDelay>,
    pub examples: Vec<Example>,
    /// Failures beyond the limit of examples.
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
    /// Hints that would have been sampled, but for the limit of samples.
    pub dropped: u64,
    /// Changes that only the database reported.
    pub untold: u64,
}
