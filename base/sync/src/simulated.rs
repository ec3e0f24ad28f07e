//! Hooks of the simulator in the product (docs/develop/simulation.md): counters of rare branches, and mistakes that the
//! simulator plants and must find. Both do nothing in every other build.

#[cfg(guira_simulated)]
pub use guira_world::hooks::{is_planted, sometimes};

/// Counts that a rare branch was reached.
#[cfg(not(guira_simulated))]
#[inline(always)]
pub fn sometimes(_name: &'static str) {}

/// Whether this run is to have the mistake of this name.
#[cfg(not(guira_simulated))]
#[inline(always)]
pub const fn is_planted(_name: &'static str) -> bool {
    false
}
