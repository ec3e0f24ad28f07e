//! Simulates regions: the product's code in a machine of coroutines, where a seed decides the order of everything, the
//! network and the faults. `cargo xtask simulate` builds this with `--cfg guira_simulated` and runs it
//! (docs/develop/simulation.md).
//!
//! | module | |
//! |---|---|
//! | `runner` | seeds, one after the other, and what they have found |
//! | `scenario` | a region, its clients and its faults |
//! | `region` | a database, an invalidator, a router, nodes, and users who look aside |
//! | `faults`, `found` | the faults of a seed; what a run has done and found |
//! | `programs` | nodes, routers and invalidators as processes of the machine |
//! | `database` | a database with a log |
//! | `bugs`, `rare` | mistakes that the simulator must find, rare branches that it must reach |
//! | `trace` | what the programs of a run log |
//! | `client` | clients that check each reply |

#![forbid(unsafe_code)]

#[cfg(guira_simulated)]
mod bugs;
#[cfg(guira_simulated)]
mod client;
#[cfg(guira_simulated)]
mod database;
#[cfg(guira_simulated)]
mod faults;
#[cfg(guira_simulated)]
mod found;
#[cfg(guira_simulated)]
mod options;
#[cfg(guira_simulated)]
mod programs;
#[cfg(guira_simulated)]
mod rare;
#[cfg(guira_simulated)]
mod region;
#[cfg(guira_simulated)]
mod runner;
#[cfg(guira_simulated)]
mod scenario;
#[cfg(guira_simulated)]
mod trace;

#[cfg(guira_simulated)]
fn main() -> std::process::ExitCode {
    let options = options::Options::parse(std::env::args().skip(1));
    let is_known = |options: &options::Options| options.planted.iter().try_for_each(|name| bugs::check(name));
    options.and_then(|options| is_known(&options).map(|()| options)).map_or_else(
        |error| {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        },
        |options| match (options.place, options.scenario) {
            (options::Place::Here, Some(scenario)) => runner::run_here(scenario, &options),
            (options::Place::WithBugs, _) => bugs::find_all(&options),
            _ => runner::run(&options),
        },
    )
}

#[cfg(not(guira_simulated))]
fn main() {
    eprintln!("this program needs a build with --cfg guira_simulated: use `cargo xtask simulate`");
    std::process::exit(1);
}
