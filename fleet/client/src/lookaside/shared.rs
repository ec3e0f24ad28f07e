//! What a client shares with its clones, and how each of them reads.

use std::sync::Arc;

use super::counters::Counts;
use super::links::Links;
use super::markers::Markers;
use super::policy::Policy;
use super::random::Random;

/// What a client shares with its clones.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) links: Links,
    pub(super) counts: Counts,
    pub(super) random: Random,
}

/// What a clone has for itself: how it reads.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) policy: Policy,
    pub(super) markers: Option<Arc<Markers>>,
}
