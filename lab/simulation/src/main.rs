//! The program of guira_simulation, which `cargo xtask simulate` builds and runs.

#![forbid(unsafe_code)]

#[cfg(guira_simulated)]
fn main() -> std::process::ExitCode {
    guira_simulation::main()
}

#[cfg(not(guira_simulated))]
fn main() {
    eprintln!("this program needs a build with --cfg guira_simulated: use `cargo xtask simulate`");
    std::process::exit(1);
}
