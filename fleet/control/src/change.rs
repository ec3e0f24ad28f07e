//! Keys that move: from the server of a slot to another one, or from slot to slot while a pool becomes larger or smaller.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// They are where they were. Deletes go to both places.
    Announced,
    /// They are in the new place, which is filled from the former one.
    Warming,
    /// The former place is no longer read. Deletes still go to it.
    Ending,
}

impl Stage {
    /// The stage after this one.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Stage::Announced => Some(Stage::Warming),
            Stage::Warming => Some(Stage::Ending),
            Stage::Ending => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The server that will have the slot, while it is announced; then the one that has had it.
    pub other: String,
    pub stage: Stage,
    /// When this stage began, in seconds since 1970, by the clock of the host that began it.
    pub since_s: u64,
}

/// A pool that becomes larger or smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// How many slots it has had.
    pub from: usize,
    pub to: usize,
    pub stage: Stage,
    /// As in [`Handover`].
    pub since_s: u64,
}
