//! Simulates regions: the product's code in a machine of coroutines, where a seed decides the order of everything, the
//! network and the faults. `cargo xtask simulate` builds this with `--cfg guira_simulated` and runs it
//! (docs/develop/simulation.md).
//!
//! | module | |
//! |---|---|
//! | `runner` | runs seeds, each in a process |
//! | `scenario` | all scenarios; those of a node and of a router |
//! | `region` | a database, an invalidator, a router, nodes, and users who look aside |
//! | `cold` | a region with a cluster that is filled from another |
//! | `regions` | two regions, one of them with a replica of the other's database |
//! | `pools` | clients that route by themselves, and nodes |
//! | `moves` | pools whose keys move to other nodes |
//! | `membership` | members beside nodes, and routers and a client that follow a pool in etcd |
//! | `faults`, `found` | the faults of a seed; the result of a run |
//! | `programs` | nodes, routers and invalidators as processes of the machine |
//! | `refuser` | a server that refuses all requests |
//! | `tasks` | locks and connections of the scenarios' tasks |
//! | `rows`, `user`, `marking` | rows and their caches; users of a region; users of a replica region |
//! | `database`, `etcd` | a database with a log; a cluster of etcd |
//! | `bugs`, `rare` | mistakes that the simulator must find, rare branches that it must reach |
//! | `shrink` | makes a seed that fails simpler |
//! | `trace` | prints the logs of the programs |
//! | `client`, `text_cache` | clients that check each reply; the text protocol |

#![cfg(guira_simulated)]
#![forbid(unsafe_code)]

mod bugs;
mod client;
mod cold;
mod database;
mod etcd;
mod faults;
mod found;
mod marking;
mod membership;
mod moves;
mod options;
mod pools;
mod programs;
mod rare;
mod refuser;
mod region;
mod regions;
mod rows;
mod runner;
mod scenario;
mod shrink;
mod tasks;
mod text_cache;
mod trace;
mod user;

use options::{Options, Place};
use std::process::ExitCode;

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => run(&options),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> ExitCode {
    if let Err(error) = options.planted.iter().try_for_each(|name| bugs::check(name)) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    match (options.place, options.scenario) {
        (Place::Here, Some(scenario)) => runner::run_here(scenario, options),
        (Place::WithBugs, _) => bugs::find_all(options),
        (Place::Smaller, _) => shrink::shrink(options),
        _ => runner::run(options),
    }
}
