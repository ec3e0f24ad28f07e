//! Hooks of a simulator in the programs of a world: counters of rare branches, and planted mistakes.

use crate::scheduler::Own;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct State {
    reached: BTreeMap<&'static str, u64>,
    planted: Option<String>,
}

thread_local! {
    static STATE: Own<State> = const { Own::new() };
}

fn with<R>(work: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| state.with(|| (), work))
}

/// Counts that a rare branch was reached.
pub fn sometimes(name: &'static str) {
    with(|state| *state.reached.entry(name).or_default() += 1);
}

/// The rare branches that were reached, and how often.
pub fn reached() -> BTreeMap<&'static str, u64> {
    with(|state| state.reached.clone())
}

/// Has the programs of this world make the mistake of this name.
pub fn plant(name: &str) {
    with(|state| state.planted = Some(name.to_owned()));
}

/// Whether the programs make the mistake of this name.
pub fn is_planted(name: &'static str) -> bool {
    with(|state| state.planted.as_deref() == Some(name))
}
