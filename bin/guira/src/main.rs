//! `guira`: what runs in production. A package of its own, since the level of optimisation of the
//! package with `main` is that of the whole program (profiles in Cargo.toml).

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    guira_program::run(std::env::args_os().collect())
}
