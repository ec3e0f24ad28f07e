//! Runs seeds, one after the other.

use crate::options::Options;
use crate::scenario::{Found, SCENARIOS, Scenario};
use guira_world::{Outcome, run as run_world};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Seeds for one process, since killed programs of the machine keep their memory until the process ends.
const AT_ONCE: u64 = 250;

/// A run that takes longer, in the world's time, hangs.
const END: Duration = Duration::from_secs(120);

/// Runs the seeds until one of them finds something.
pub(crate) fn run(options: &Options) -> ExitCode {
    if options.seeds <= AT_ONCE {
        return run_here(options);
    }
    let end = options.seed.saturating_add(options.seeds);
    for seed in (options.seed..end).step_by(AT_ONCE as usize) {
        if !run_in_a_process(&Options { seed, seeds: AT_ONCE.min(end - seed), ..options.clone() }) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Whether the seeds found nothing.
fn run_in_a_process(options: &Options) -> bool {
    let mut program = Command::new(std::env::current_exe().expect("the program has a path"));
    program.args(["--seed", &options.seed.to_string(), "--seeds", &options.seeds.to_string()]);
    if let Some(scenario) = options.scenario {
        program.args(["--scenario", scenario.name()]);
    }
    program.status().is_ok_and(|status| status.success())
}

#[expect(clippy::disallowed_methods, reason = "the speed is measured outside of the world")]
fn run_here(options: &Options) -> ExitCode {
    let begin = Instant::now();
    let (mut simulated, mut steps, mut total) = (Duration::ZERO, 0, Found::default());
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let scenario = options.scenario.unwrap_or(SCENARIOS[seed as usize % SCENARIOS.len()]);
        let outcome = run_seed(scenario, seed);
        simulated += outcome.time;
        steps += outcome.steps;
        let is_endless = outcome.result.is_none().then(|| format!("the scenario did not end within {END:?}"));
        let found = outcome.result.unwrap_or_default();
        let panics = outcome.panics.into_iter().map(|(task, text)| format!("{task} panicked: {text}"));
        let stuck = outcome.stuck.into_iter().map(|task| format!("{task} is never woken"));
        let wrong: Vec<String> =
            found.wrong.iter().cloned().chain(panics).chain(stuck).chain(is_endless).collect();
        if !wrong.is_empty() {
            let name = scenario.name();
            println!("seed {seed}, {name}: {}", wrong.join("\n"));
            println!("repeat with: cargo xtask simulate --scenario {name} --seed {seed}");
            return ExitCode::FAILURE;
        }
        total.add(&found);
    }
    let took = begin.elapsed().as_secs_f64();
    println!("seeds {} to {}: {total}", options.seed, options.seed + options.seeds - 1);
    let times = simulated.as_secs_f64() / took;
    println!(
        "{:.0} s of the world in {took:.1} s: {times:.0} times as fast as time; {:.2} million steps a second",
        simulated.as_secs_f64(),
        steps as f64 / took / 1e6
    );
    ExitCode::SUCCESS
}

fn run_seed(scenario: Scenario, seed: u64) -> Outcome<Found> {
    let usual = guira_world::Options::of(seed);
    let options = guira_world::Options { switch_every: 2 << (seed % 6), end: END, ..usual };
    run_world(options, move || scenario.play())
}
