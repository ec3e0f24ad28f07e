//! Operations of Twitter's clusters, with items of one size that never expire.

use guira_workload::{Expiry, KeyShape, Model, SizeModel};

use super::inside::VALUE;
use crate::experiment::Failure;
use crate::traces::recipe;

/// The policies that are compared: their names in tables and in the options of the engine.
pub(super) const POLICIES: [(&str, &str); 5] = [
    ("lru", "lru"),
    ("lazy-lru", "lazy-lru:tail_reclaim=off"),
    ("lazy-lru, tail reclaim", "lazy-lru:tail_reclaim=on"),
    ("seg-lru", "seg-lru"),
    ("klru", "klru"),
];
pub(super) const LRU: usize = 0;
pub(super) const LAZY: usize = 1;
pub(super) const RECLAIMING: usize = 2;
pub(super) const SEGMENTED: usize = 3;
pub(super) const SAMPLED: usize = 4;

/// A stand-in for one of Twitter's clusters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    /// Reads and writes, in percent.
    pub(super) shares: &'static str,
}

pub(super) const READS: Mix = Mix { name: "034", shares: "94/6" };
pub(super) const MORE_READS: Mix = Mix { name: "026", shares: "71/29" };
pub(super) const MIXED: Mix = Mix { name: "041", shares: "50/50" };
pub(super) const WRITES: Mix = Mix { name: "032", shares: "2/98" };

impl Mix {
    /// Operations and popularity of the cluster over `keys` keys; items are the paper's, and none expires.
    pub(super) fn model(self, keys: u32) -> Result<Model, Failure> {
        let model = recipe(&format!("twitter-{}:keys={keys}", self.name))?.model;
        let sizes = SizeModel::Constant(VALUE as u32);
        Ok(Model { keys: KeyShape::sixteen(), sizes, expiry: Expiry::NEVER, ..model })
    }

    pub(super) fn title(self) -> String {
        format!("{} ({})", self.name, self.shares)
    }
}
