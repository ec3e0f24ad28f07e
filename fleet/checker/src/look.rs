//! The state of a key in all caches, at one delay.

use crate::report::Outcome;
use crate::sight::{Cached, Content};
use std::time::Duration;

/// A reply that is later than this, or than half of the delay, does not show the state at the
/// delay.
const LATE_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Caches,
    /// Some caches differ from the first reading of the database, which is repeated.
    Database,
    /// Clusters differ, and are read again after a pause.
    Pause,
    Again,
}

#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) delay: usize,
    /// Replies count until this time.
    end: Duration,
    pub(crate) stage: Stage,
    /// Caches that have not answered.
    left: usize,
    /// The items of those of which nothing else is known yet.
    items: Vec<Option<Content>>,
    outcomes: Vec<Option<Outcome>>,
}

/// A cache that has something else than it should: its number, and both.
pub(crate) type Wrong = (usize, Content, Content);

impl Look {
    /// The look with this number, which is due `after` the time `zero`.
    pub(crate) fn new(delay: usize, (zero, after): (Duration, Duration), clusters: usize) -> Self {
        let (items, outcomes) = (vec![None; clusters], vec![None; clusters]);
        let end = zero + after + LATE_MAX.min(after / 2);
        Look { delay, end, stage: Stage::Caches, left: clusters, items, outcomes }
    }

    /// Whether it is that at the first delay.
    pub(crate) fn is_first(&self) -> bool {
        self.delay == 0
    }

    pub(crate) fn has_items(&self) -> bool {
        self.items.iter().any(Option::is_some)
    }

    /// The clusters that are to be read, or read again.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> + '_ {
        self.outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_none()).map(|(cluster, _)| cluster)
    }

    /// Reads the open clusters again.
    pub(crate) fn again(&mut self) {
        self.stage = Stage::Again;
        self.left = self.open().count();
    }

    /// Takes an answer; returns whether it was the last.
    pub(crate) fn answer(&mut self, cluster: usize, cached: Cached, now: Duration) -> bool {
        let is_first = self.stage == Stage::Caches;
        let cached = if is_first && now > self.end { Cached::Failed } else { cached };
        self.outcomes[cluster] = match cached {
            Cached::Failed => Some(Outcome::Unknown),
            Cached::Miss if is_first => Some(Outcome::Missing),
            Cached::Item(item) if is_first => {
                self.items[cluster] = Some(item);
                None
            }
            Cached::Item(item) if self.items[cluster].as_ref() == Some(&item) => None,
            // The cache has changed since.
            Cached::Item(_) | Cached::Miss => Some(Outcome::Consistent),
        };
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Settles caches that have this; returns whether others are left.
    pub(crate) fn match_with(&mut self, truth: &Content) -> bool {
        let open: Vec<usize> = self.open().collect();
        for cluster in open {
            if self.items[cluster].as_ref() == Some(truth) {
                self.outcomes[cluster] = Some(Outcome::Consistent);
            }
        }
        self.open().next().is_some()
    }

    pub(crate) fn close(&mut self, outcome: Outcome) {
        self.outcomes.iter_mut().filter(|open| open.is_none()).for_each(|open| *open = Some(outcome));
    }

    /// Settles all open clusters as wrong, since the database has this value.
    pub(crate) fn close_as_wrong(&mut self, truth: &Content) -> Vec<Wrong> {
        let wrong = |cluster: usize| Some((cluster, self.items[cluster].clone()?, truth.clone()));
        let wrong = self.open().filter_map(wrong).collect();
        self.close(Outcome::Inconsistent);
        wrong
    }

    /// Settles all open clusters if they agree or there is only one; returns whether they differ.
    pub(crate) fn agree(&mut self) -> bool {
        let mut items = self.open().filter_map(|cluster| self.items[cluster].as_ref());
        let Some(first) = items.next() else { return false };
        let (mut others, mut is_same) = (0, true);
        for item in items {
            others += 1;
            is_same &= item == first;
        }
        if is_same {
            self.close(if others > 0 { Outcome::Consistent } else { Outcome::Missing });
        }
        !is_same
    }

    /// Settles clusters that have still what they had: those are wrong of which another one has something else.
    pub(crate) fn close_by_each_other(&mut self) -> Vec<Wrong> {
        let open: Vec<usize> = self.open().collect();
        let mut wrong = Vec::new();
        for cluster in &open {
            let own = &self.items[*cluster];
            let other = open.iter().map(|other| &self.items[*other]).find(|other| *other != own);
            if let Some((own, Some(other))) = own.as_ref().zip(other) {
                wrong.push((*cluster, own.clone(), other.clone()));
            }
        }
        for (cluster, ..) in &wrong {
            self.outcomes[*cluster] = Some(Outcome::Inconsistent);
        }
        self.close(Outcome::Consistent);
        wrong
    }

    /// The results, once no cluster is open.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Outcome> + Clone + '_ {
        self.outcomes.iter().map(|outcome| outcome.unwrap_or(Outcome::Unknown))
    }
}
