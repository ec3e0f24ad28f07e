//! What the simulator asks of the product (docs/develop/simulation.md): to count that a rare branch was reached, and to
//! make a known mistake again, which the simulator must find. Both do nothing in every other build.

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
