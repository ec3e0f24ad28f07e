//! Simulates regions: the product's code in a machine of coroutines, where a seed decides the order of everything, the
//! network and the faults. `cargo xtask simulate` builds this with `--cfg guira_simulated` and runs it.

#![forbid(unsafe_code)]

#[cfg(guira_simulated)]
mod client;
#[cfg(guira_simulated)]
mod node;
#[cfg(guira_simulated)]
mod options;

#[cfg(guira_simulated)]
fn main() -> std::process::ExitCode {
    options::Options::parse(std::env::args().skip(1)).map_or_else(
        |error| {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        },
        |options| node::run(&options),
    )
}

#[cfg(not(guira_simulated))]
fn main() {
    eprintln!("this program needs a build with --cfg guira_simulated: use `cargo xtask simulate`");
    std::process::exit(1);
}
