//! `guira-lab`: loads, replays, simulations, benchmarks and a demonstration. `guira load` and the others execute this
//! program.
//!
//! A new command is a module with an `Args` (derived from clap) and a `run(&Args) -> Result<(), Failure>`, one variant
//! of [`Task`] and one arm of its dispatch, and one variant of `Task` in bin/program/src/lab.rs.

#![forbid(unsafe_code)]

mod bench;
mod capacity;
mod docs;
mod fleet;
mod floor;
mod load;
mod peers;
mod relay;
mod replay;
mod requests;
mod shared_writes;
mod show;
mod sim;
mod workload;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use fleet::WrongAnswers;
use guira_cli::failure::{FAILED, Failure, USAGE, WRONG};
use guira_cli::manual::{self, CompletionsArgs, ManArgs};
use guira_cli::{LAB, VERSION, parse, with_negative_numbers};
use guira_load::LoadError;

/// The laboratory of Guira: loads, replays, simulations, benchmarks and a demonstration.
#[derive(Debug, Parser)]
#[command(
    name = LAB,
    version = VERSION,
    propagate_version = true,
    max_term_width = guira_cli::HELP_WIDTH,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Generate load on a server and measure it.
    Load(load::Args),
    /// Replay a recorded trace on caches and compare them at equal resident size.
    Replay(replay::Args),
    /// Simulate eviction policies on a trace and recommend a memory size.
    Sim(sim::Args),
    /// Estimate the number of nodes for a load, and the cost of losing one.
    Capacity(capacity::Args),
    /// Benchmark servers by operations per CPU second.
    Bench(bench::Args),
    /// Run a demonstration on this machine and cause faults in it.
    Fleet(fleet::Args),
    /// Print the completions of a shell.
    Completions(CompletionsArgs),
    /// Print a man page, as `guira-lab man load | man -l -`.
    Man(ManArgs),
    /// Run a server that replies without a cache (used by `bench`).
    #[command(hide = true)]
    Floor(floor::Args),
    /// Run a proxy that forwards bytes without parsing them (used by `bench`).
    #[command(hide = true)]
    Relay(relay::Args),
    /// Execute a program that ends with its parent process (used by `fleet up`).
    #[command(hide = true)]
    Child(fleet::ChildArgs),
    /// Count the writes to cache lines that other workers touch (used by `cargo xtask soak shared-writes`).
    #[command(hide = true)]
    SharedWrites(shared_writes::Args),
    /// Write the documents that are generated from tables in the code (used by `cargo xtask docs`).
    #[command(hide = true)]
    Docs(docs::Args),
}

/// The whole command line.
fn command() -> clap::Command {
    with_negative_numbers(Cli::command())
}

/// Whether the command line is at fault.
fn is_usage(failure: &Failure) -> bool {
    let is_options = |error| matches!(error, &LoadError::Options(_));
    failure.is_usage() || failure.find::<LoadError>().is_some_and(is_options)
}

/// Whether a server sent wrong replies.
fn is_wrong(failure: &Failure) -> bool {
    let is_reply = |error| matches!(error, &LoadError::WrongReplies { .. });
    failure.find::<WrongAnswers>().is_some() || failure.find::<LoadError>().is_some_and(is_reply)
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // `guira load` calls this program by its own name.
    let name = words.first().and_then(|word| Path::new(word).file_name()).unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let result = match parse::<Cli>(command(), &words).task {
        Task::Load(args) => load::run(&args),
        Task::Replay(args) => replay::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Capacity(args) => capacity::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Fleet(args) => fleet::run(&args),
        Task::Completions(args) => manual::completions(LAB, &command(), &args),
        Task::Man(args) => manual::man(LAB, &command(), &args),
        Task::Floor(args) => floor::run(&args),
        Task::Relay(args) => relay::run(&args),
        Task::Child(args) => fleet::become_child(&args),
        Task::SharedWrites(args) => shared_writes::run(&args),
        Task::Docs(args) => docs::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if is_usage(&failure) => failure.report(&name, USAGE),
        Err(failure) if is_wrong(&failure) => failure.report(&name, WRONG),
        Err(failure) => failure.report(&name, FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::{LAB, command};
    use clap::error::ErrorKind;
    use guira_harness::documented;

    #[test]
    fn every_command_in_the_documents_is_accepted() {
        let command = command();
        let is_ours = |words: &[String]| match words.get(1).map(String::as_str) {
            Some("fleet") => words.get(2).is_some_and(|word| word == "up" || word == "break"),
            Some(name) => command.find_subcommand(name).is_some() && name != "help",
            None => false,
        };
        let documented = documented::commands(&["guira", LAB]);
        let ours: Vec<_> = documented.into_iter().filter(|one| is_ours(&one.words)).collect();
        assert!(ours.len() > 10, "{ours:?}");
        for one in ours {
            let Err(error) = command.clone().try_get_matches_from(&one.words) else { continue };
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            assert!(is_help, "{}: {}\n{error}", one.place, one.words.join(" "));
        }
    }
}
