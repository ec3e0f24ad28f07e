//! Runs seeds, each in a process of its own, so that a seed finds the same whichever seeds ran before it.

use crate::found::Found;
use crate::options::{Options, Trace};
use crate::rare::Reached;
use crate::scenario::{SCENARIOS, Scenario};
use crate::trace;
use guira_world::{Outcome, hooks, run as run_world};
use serde::{Deserialize, Serialize};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The number of seeds that reach every rare branch, with all scenarios in turn.
const MANY: u64 = 20_000;
/// A run that takes longer, in the world's time, hangs.
const END: Duration = Duration::from_secs(120);

/// Runs the seeds until one of them finds something.
pub(crate) fn run(options: &Options) -> ExitCode {
    match run_all(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the speed is measured outside of the world")]
fn run_all(options: &Options) -> Result<(), String> {
    let begin = Instant::now();
    let mut total = Ran::default();
    let mut seeds = 0;
    println!("seeds from {}", options.seed);
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let is_first = seeds < options.first;
        let is_over = options.limit.is_some_and(|limit| begin.elapsed() > limit);
        if is_over && !(is_first && options.first < u64::MAX) {
            break;
        }
        seeds += 1;
        let scenario = options.scenario_of(seed);
        let ran = run_in_a_process(scenario, seed, options);
        let ran = ran.and_then(|ran| match options.again {
            1.. if is_first => repeat(scenario, seed, options, ran),
            _ => Ok(ran),
        });
        let repeat = repetition(scenario, seed, options);
        total.add(&ran.map_err(|wrong| {
            let name = scenario.name();
            format!("seed {seed}, {name}: {wrong}\nrepeat with: {repeat} --trace\nsimplify with: {repeat} --shrink")
        })?);
    }
    let (took, simulated) = (begin.elapsed().as_secs_f64(), total.time.as_secs_f64());
    println!("seeds {} to {}: {}", options.seed, options.seed + seeds - 1, total.found);
    println!(
        "{simulated:.0} s of the world in {took:.1} s: {:.0} times as fast as time; {:.2} million steps a second",
        simulated / took,
        total.steps as f64 / took / 1e6
    );
    println!("{}", total.reached.table());
    let faults = total.reached.faults();
    let is_whole = options.scenario.is_none() && options.planted.is_none() && seeds >= MANY;
    if is_whole && !faults.is_empty() { Err(faults.join("\n")) } else { Ok(()) }
}

/// The command that runs a seed in the same way.
pub(crate) fn repetition(scenario: Scenario, seed: u64, options: &Options) -> String {
    let mut text = format!("cargo xtask simulate --scenario {} --seed {seed}", scenario.name());
    for argument in arguments(options) {
        text += &format!(" {argument}");
    }
    text
}

/// What a process needs besides the scenario and the seed.
fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(planted) = &options.planted {
        arguments.extend(["--plant".to_owned(), planted.clone()]);
    }
    let without: Vec<String> = options.setup.without.iter().map(|kind| kind.name()).collect();
    if !without.is_empty() {
        arguments.extend(["--without".to_owned(), without.join(",")]);
    }
    if let Some(clients) = options.setup.clients {
        arguments.extend(["--clients".to_owned(), clients.to_string()]);
    }
    arguments
}

/// Runs a seed again, and compares the digests of all events.
fn repeat(scenario: Scenario, seed: u64, options: &Options, first: Ran) -> Result<Ran, String> {
    for _ in 0..options.again {
        let again = run_in_a_process(scenario, seed, options)?;
        if again.digest != first.digest {
            return Err(format!("not the same events again: {first:?} and {again:?}"));
        }
    }
    Ok(first)
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    found: Found,
    time: Duration,
    steps: u64,
    digest: u64,
    reached: Reached,
}

impl Ran {
    fn add(&mut self, other: &Ran) {
        self.found.add(&other.found);
        self.time += other.time;
        self.steps += other.steps;
        self.reached.add(&other.reached);
    }
}

/// Runs one seed in a process of its own.
///
/// # Errors
/// What the seed has found.
pub(crate) fn run_in_a_process(scenario: Scenario, seed: u64, options: &Options) -> Result<Ran, String> {
    let mut program = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    program.args(["--here", "--scenario", scenario.name(), "--seed", &seed.to_string()]);
    if options.trace == Trace::On {
        program.arg("--trace");
    }
    program.args(arguments(options));
    // Commands of the product report there what faults do to them.
    let stderr = if options.trace == Trace::On { Stdio::inherit() } else { Stdio::piped() };
    let output = program.stderr(stderr).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(format!("{} ({})", text.trim_end(), output.status));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Runs one seed in this process.
pub(crate) fn run_here(scenario: Scenario, options: &Options) -> ExitCode {
    if options.trace == Trace::On {
        trace::start();
    }
    let outcome = run_seed(scenario, options);
    let is_endless = outcome.result.is_none().then(|| format!("the scenario did not end within {END:?}"));
    let (found, reached) = outcome.result.unwrap_or_default();
    let panics = outcome.panics.into_iter().map(|(task, text)| format!("{task} panicked: {text}"));
    let stuck = outcome.stuck.into_iter().map(|task| format!("{task} is never woken"));
    let wrong: Vec<String> =
        found.wrong.iter().cloned().chain(panics).chain(stuck).chain(is_endless).collect();
    if !wrong.is_empty() {
        println!("{}", wrong.join("\n"));
        return ExitCode::FAILURE;
    }
    let (time, steps, digest) = (outcome.time, outcome.steps, outcome.digest);
    let ran = Ran { found, time, steps, digest, reached };
    println!("{}", serde_json::to_string(&ran).expect("a result can be written"));
    ExitCode::SUCCESS
}

fn run_seed(scenario: Scenario, options: &Options) -> Outcome<(Found, Reached)> {
    let (seed, planted, setup) = (options.seed, options.planted.clone(), options.setup.clone());
    let usual = guira_world::Options::of(seed);
    // The scenarios take turns, and each needs all frequencies.
    let switch_every = 2 << (seed / SCENARIOS.len() as u64 % 6);
    run_world(guira_world::Options { switch_every, end: END, ..usual }, move || {
        planted.iter().for_each(|name| hooks::plant(name));
        (scenario.play(&setup), Reached::of_world())
    })
}
