//! One sampled delete.

use std::time::Duration;

use super::report::Outcome;

/// The state of a node's item before the delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    /// The node has not replied yet.
    Awaited,
    /// The node could not be read.
    Unknown,
    /// There was no item.
    Missing,
    Unique(u64),
}

/// The part of a sample for one node.
#[derive(Clone, Debug)]
pub(crate) struct AtNode {
    pub(crate) old: Old,
    /// The result at each delay, once it is settled.
    pub(crate) settled: Vec<Option<Outcome>>,
    /// The index among the examples, if it was inconsistent.
    pub(crate) example: Option<usize>,
}

/// A delete that is being followed.
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

    /// Whether every node has replied or failed.
    pub(crate) fn is_known(&self) -> bool {
        self.nodes.iter().all(|node| node.old != Old::Awaited)
    }

    /// The result at a delay over all nodes, once all are settled: stale on one node is stale, and
    /// unknown on one node is unknown.
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
