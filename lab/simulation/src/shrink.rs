//! Makes a seed that fails simpler: without kinds of faults, and with fewer clients, as long as it fails in the same way.

use crate::found::Fault;
use crate::options::Options;
use crate::runner::{repetition, run_in_a_process};
use guira_world::simplify::{is_same_kind, simplest};
use std::process::ExitCode;

/// More than any scenario has.
const CLIENTS_MAX: usize = 8;

/// Prints the simplest run of the seed that fails.
pub(crate) fn shrink(options: &Options) -> ExitCode {
    let scenario = options.scenario_of(options.seed);
    let fails = |options: &Options| run_in_a_process(scenario, options.seed, options).err();
    let Some(wrong) = fails(options) else {
        println!("seed {} of {} does not fail", options.seed, scenario.name());
        return ExitCode::FAILURE;
    };
    println!("seed {} of {} fails: {}", options.seed, scenario.name(), first_line(&wrong));
    let still = |options: &Options| fails(options).is_some_and(|other| is_same_kind(&other, &wrong));
    let simplest = simplest(options.clone(), simpler, still);
    println!(
        "the simplest run that fails in the same way: {}",
        repetition(scenario, options.seed, &simplest)
    );
    println!("{}", fails(&simplest).as_deref().map(first_line).unwrap_or_default());
    ExitCode::SUCCESS
}

/// The same without one more kind of faults, or with fewer clients.
fn simpler(options: &Options) -> Vec<Options> {
    let left = Fault::all().filter(|kind| !options.setup.without.contains(kind));
    let without = left.map(|kind| {
        let mut less = options.clone();
        less.setup.without.push(kind);
        less
    });
    let with_fewer = (0..options.setup.clients.unwrap_or(CLIENTS_MAX)).map(|clients| {
        let mut less = options.clone();
        less.setup.clients = Some(clients);
        less
    });
    without.chain(with_fewer).collect()
}

fn first_line(wrong: &str) -> &str {
    wrong.lines().next().unwrap_or_default()
}
