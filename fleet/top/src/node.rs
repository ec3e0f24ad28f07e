//! The state of a node: its last readings, their history, and whether it is up.

use std::collections::VecDeque;
use std::time::Duration;

use crate::change::{Change, GETS, is_restart, ratio};
use crate::printable::printable;
use crate::reading::Reading;

/// Points of the history that are kept: more than any terminal is wide.
const HISTORY_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The node was not reached yet.
    Connecting,
    Up,
    Down {
        why: String,
        since: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) gets: f64,
    /// The share of these keys that were found.
    pub(crate) hit_ratio: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    name: String,
    link: Link,
    before: Option<Reading>,
    last: Option<Reading>,
    history: VecDeque<Point>,
}

impl Node {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: printable(name.as_bytes()),
            link: Link::Connecting,
            before: None,
            last: None,
            history: VecDeque::new(),
        }
    }

    /// Records a reading or a failure. A reading sooner than `gap` after the one before replaces
    /// it: it was taken for another panel, and too little has happened in between.
    pub(crate) fn update(&mut self, outcome: Result<Reading, String>, gap: Duration, now: Duration) {
        let reading = match outcome {
            Ok(reading) => reading,
            Err(why) => {
                let since = match self.link {
                    Link::Down { since, .. } => since,
                    Link::Connecting | Link::Up => now,
                };
                self.link = Link::Down { why: printable(why.as_bytes()), since };
                return;
            }
        };
        self.link = Link::Up;
        let Some(last) = self.last.replace(reading) else { return };
        let Some(reading) = &self.last else { return };
        if is_restart(&last, reading) {
            self.before = None;
            self.history.clear();
            return;
        }
        let is_early = reading.at.saturating_sub(last.at) < gap;
        if is_early && self.before.is_some() {
            return;
        }
        self.before = Some(last);
        let point = self
            .change()
            .and_then(|change| Some(Point { gets: change.rates(GETS)?, hit_ratio: change.hit_ratio() }));
        if let Some(point) = point {
            if self.history.len() == HISTORY_MAX {
                self.history.pop_front();
            }
            self.history.push_back(point);
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn link(&self) -> &Link {
        &self.link
    }

    /// The last reading, which may be old if the node does not answer.
    pub(crate) const fn last(&self) -> Option<&Reading> {
        self.last.as_ref()
    }

    /// The latest change; `None` for a node that is down.
    pub(crate) fn change(&self) -> Option<Change<'_>> {
        if self.link != Link::Up {
            return None;
        }
        Change::between(self.before.as_ref()?, self.last.as_ref()?)
    }

    /// The share of requested keys that were found, since the node's counters started.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        let last = self.last.as_ref()?;
        ratio(last.number("get_hits")?, last.number("get_misses")?)
    }

    /// The last `count` points of the history, the oldest first.
    pub(crate) fn history(&self, count: usize) -> impl Iterator<Item = Point> {
        self.history.iter().skip(self.history.len().saturating_sub(count)).copied()
    }
}
