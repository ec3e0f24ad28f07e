//! Mistakes that the product can make again in a simulated run, and how soon the simulator finds each.

use crate::options::Options;
use crate::runner;
use crate::scenario::Scenario;
use std::process::ExitCode;
use std::time::Instant;

/// A mistake by its name in the product (`is_planted`), and the scenario that finds it.
pub(crate) struct Bug {
    name: &'static str,
    scenario: Scenario,
}

const fn of_region(name: &'static str) -> Bug {
    Bug { name, scenario: Scenario::Region }
}

const fn of_pools(name: &'static str) -> Bug {
    Bug { name, scenario: Scenario::Pools }
}

const fn of_membership(name: &'static str) -> Bug {
    Bug { name, scenario: Scenario::Membership }
}

pub(crate) const BUGS: [Bug; 30] = [
    of_region("position-unsynced"),
    of_region("position-early"),
    of_region("spool-unsynced"),
    of_region("spool-folder-unsynced"),
    of_region("delete-log-unsynced"),
    of_region("delete-log-folder-unsynced"),
    of_region("unlogged-delete-acknowledged"),
    of_region("failed-delete-unlogged"),
    of_region("void-lease-accepted"),
    of_region("no-probes"),
    Bug { name: "late-reply-to-next", scenario: Scenario::Router },
    of_region("gap-unflushed"),
    of_region("gap-flushed-early"),
    of_region("log-not-resumed"),
    of_region("gutter-keeps-values"),
    of_region("failed-delivery-acknowledged"),
    of_region("late-connection-kept"),
    of_region("delete-acknowledged-by-the-nearest"),
    of_region("hold-off-lost-with-connection"),
    of_region("refused-deletes-dropped"),
    of_region("rejected-once-dropped"),
    of_region("rejected-by-one-dropped"),
    Bug { name: "failed-mark-ignored", scenario: Scenario::Regions },
    Bug { name: "markers-not-settled", scenario: Scenario::Regions },
    of_pools("moved-keys-not-held-off"),
    of_pools("client-probe-unsent"),
    of_pools("client-late-reply-to-next"),
    of_membership("spare-unflushed"),
    of_membership("ended-lease-kept"),
    of_membership("lost-watch-trusted"),
];

/// Checks the name of a mistake.
///
/// # Errors
/// If there is none of this name.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let names: Vec<&str> = BUGS.iter().map(|bug| bug.name).collect();
    let known = names.join(", ");
    if names.contains(&name) { Ok(()) } else { Err(format!("unknown mistake {name}: known are {known}")) }
}

/// Runs seeds with each mistake until one finds it, and prints how many that took.
#[expect(clippy::disallowed_methods, reason = "the time is measured outside of the world")]
pub(crate) fn find_all(options: &Options) -> ExitCode {
    let mut missed = 0;
    println!("| mistake | seeds | seconds | found as |\n|---|---|---|---|");
    for Bug { name, scenario } in &BUGS {
        let begin = Instant::now();
        let with_it = Options { planted: Some((*name).to_owned()), ..options.clone() };
        let seeds = options.seed..options.seed.saturating_add(options.seeds);
        let found = seeds.clone().find_map(|seed| {
            let wrong = runner::run_in_a_process(*scenario, seed, &with_it).err()?;
            // Without the mistake the seed must find nothing.
            let without = runner::run_in_a_process(*scenario, seed, options);
            without.is_ok().then_some((seed - options.seed + 1, wrong))
        });
        let took = begin.elapsed().as_secs_f64();
        match found {
            Some((seeds, wrong)) => {
                let first = wrong.lines().next().unwrap_or_default();
                println!("| {name} | {seeds} | {took:.1} | {first} |");
            }
            None => {
                missed += 1;
                println!("| {name} | none of {} | {took:.1} | |", options.seeds);
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
