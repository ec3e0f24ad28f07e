//! The state that a client shares with its clones, and the settings of each clone.

use std::sync::Arc;

use super::counters::Counts;
use super::links::Links;
use super::markers::Markers;
use super::policy::Policy;
use super::random::Random;

/// The state that a client shares with its clones.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) links: Links,
    pub(super) counts: Counts,
    pub(super) random: Random,
}

/// The settings of one clone: how it reads.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) policy: Policy,
    pub(super) markers: Option<Arc<Markers>>,
}
