//! One sampled delete.

use std::time::Duration;

use super::report::Outcome;

/// What is known of the item of a node before the delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    /// The node was not heard yet.
    Awaited,
    /// The node could not be asked.
    Unknown,
    /// There was none.
    Missing,
    Unique(u64),
}

/// A node, as far as one sample goes.
#[derive(Clone, Debug)]
pub(crate) struct AtNode {
    pub(crate) old: Old,
    /// What was found at each delay, as far as it has been settled.
    pub(crate) settled: Vec<Option<Outcome>>,
    /// Its place among the examples, if it was inconsistent.
    pub(crate) example: Option<usize>,
}

/// A delete that is looked after.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) key: Box<[u8]>,
    /// When the delete was sent on.
    pub(crate) sent: Option<Duration>,
    pub(crate) nodes: Vec<AtNode>,
}

impl Sample {
    pub(crate) fn new(key: &[u8], nodes: usize, delays: usize) -> Self {
        let node = AtNode { old: Old::Awaited, settled: vec![None; delays], example: None };
        Self { key: key.into(), sent: None, nodes: vec![node; nodes] }
    }

    /// Whether every node was heard, or could not be asked.
    pub(crate) fn is_known(&self) -> bool {
        self.nodes.iter().all(|node| node.old != Old::Awaited)
    }

    /// What was found at a delay on all nodes together, once all are settled: stale on one is stale, and what is not
    /// known of one is not known.
    pub(crate) fn overall(&self, delay: usize) -> Option<Outcome> {
        let all: Option<Vec<Outcome>> = self.nodes.iter().map(|node| node.settled[delay]).collect();
        let all = all?;
        let worst = [Outcome::Stale, Outcome::Unknown, Outcome::Consistent];
        Some(worst.into_iter().find(|outcome| all.contains(outcome)).unwrap_or(Outcome::Absent))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.nodes.iter().all(|node| node.settled.iter().all(Option::is_some))
    }
}
