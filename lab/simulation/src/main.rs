//! Simulates regions: the product's code in a machine of coroutines, where a seed decides the order of everything, the
//! network and the faults. `cargo xtask simulate` builds this with `--cfg guira_simulated` and runs it
//! (docs/develop/simulation.md).
//!
//! | module | |
//! |---|---|
//! | `runner` | seeds, one after the other, and what they have found |
//! | `scenario` | a region, its clients and its faults |
//! | `programs` | nodes and routers as processes of the machine |
//! | `client` | clients that check each reply |

#![forbid(unsafe_code)]

#[cfg(guira_simulated)]
mod client;
#[cfg(guira_simulated)]
mod options;
#[cfg(guira_simulated)]
mod programs;
#[cfg(guira_simulated)]
mod runner;
#[cfg(guira_simulated)]
mod scenario;

#[cfg(guira_simulated)]
fn main() -> std::process::ExitCode {
    options::Options::parse(std::env::args().skip(1)).map_or_else(
        |error| {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        },
        |options| runner::run(&options),
    )
}

#[cfg(not(guira_simulated))]
fn main() {
    eprintln!("this program needs a build with --cfg guira_simulated: use `cargo xtask simulate`");
    std::process::exit(1);
}
