//! The machine, as programs in it see it.

mod disk;
mod net;
mod scheduler;

use guira_world::{Options, run};

/// How the world of a seed runs.
fn of(seed: u64) -> Options {
    Options { switch_every: 1 + seed % 5, ..Options::of(seed) }
}

/// The result of a run in which nothing panics and nothing waits for ever.
fn good<R: 'static>(seed: u64, main: impl FnOnce() -> R + 'static) -> R {
    let outcome = run(of(seed), main);
    let wrong = (outcome.panics, outcome.stuck);
    assert!(wrong.0.is_empty() && wrong.1.is_empty(), "seed {seed}: {wrong:?}");
    outcome.result.unwrap_or_else(|| panic!("seed {seed}: the first task did not end"))
}
