//! The program of guira_simulation, which `cargo xtask simulate` builds and runs.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    guira_simulation::main()
}
