//! `guira`: the one binary. Each subcommand is a file here that maps its arguments to a library call.
//!
//! A new subcommand is a module with an `Args` (derived from clap) and a `run(&Args) -> Result<(), Failure>`, one
//! variant of [`Task`] and one arm of its dispatch.

#![forbid(unsafe_code)]

mod access;
mod bench;
mod capacity;
mod check;
mod container;
mod docs;
mod etcd;
mod failure;
mod fleet;
mod floor;
mod invalidate;
mod load;
mod log;
mod memcached;
mod notify;
mod options;
mod pages;
mod peers;
mod probe;
mod process;
mod relay;
mod replay;
mod requests;
mod router;
mod run;
mod serve;
mod shares;
mod show;
mod sim;
mod top;
mod units;
mod upgrade;
mod whole;
mod workload;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Guira: a cache server that speaks memcached's protocols, and the tools that measure it.
#[derive(Debug, Parser)]
#[command(name = "guira", version, about, max_term_width = 110, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the cache server.
    Serve(Box<serve::Args>),
    /// Run the cache server by memcached's own command line; so does a link to this binary that is called memcached.
    #[command(disable_help_flag = true)]
    Memcached {
        /// memcached's options: see `guira memcached -h`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Show what nodes do, on a screen that refreshes.
    Top(top::Args),
    /// Measure how long deletes take to reach all nodes.
    Probe(probe::Args),
    /// Forward requests to servers as mcrouter does, by its configuration and command line; so does a link that is called mcrouter.
    #[command(disable_help_flag = true)]
    Router {
        /// mcrouter's options: see `guira router --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Delete from caches what a database changes, by its commit log.
    Invalidate(invalidate::Args),
    /// Check whether caches have what the database has, after each change that it is told of.
    Check(check::Args),
    /// Keep pools in etcd: who serves which slot, and who takes the slot of a server that is lost.
    Fleet(fleet::Args),
    /// Put a load on a server and measure it.
    Load(load::Args),
    /// Drive a recorded trace through a cache, and compare caches at equal resident size.
    Replay(replay::Args),
    /// Simulate replacement policies on a trace or a generated stream, and print their hit ratios.
    Sim(sim::Args),
    /// Tell how many nodes a load takes, what a lost one costs and how long an empty pool takes to fill, by a model.
    Capacity(capacity::Args),
    /// Compare servers under the project's loads, by operations per second of server processor time.
    Bench(bench::Args),
    /// Serve as a no-cache server that only moves the bytes (used by `bench`).
    #[command(hide = true)]
    Floor(floor::Args),
    /// Serve as a proxy that moves bytes between clients and servers and looks at none of them (used by `bench`).
    #[command(hide = true)]
    Relay(relay::Args),
    /// Become a program that ends with the process that has started it (used by `fleet up`).
    #[command(hide = true)]
    Child(fleet::ChildArgs),
    /// Write the documents that are made of tables in the code (used by `cargo xtask docs`).
    #[command(hide = true)]
    Docs(docs::Args),
    /// Write man pages and completions of shells (used by `cargo xtask package`).
    #[command(hide = true)]
    Pages(pages::Args),
    /// Do what the words behind `docker run IMAGE` say: options alone are memcached's.
    #[command(hide = true, disable_help_flag = true)]
    Container {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// The names of programs that Guira takes the place of.
const MEMCACHED: &str = "memcached";
const MCROUTER: &str = "mcrouter";

/// Whether this binary was called by that name, or one that begins with it.
fn is_called(name: &OsStr, expected: &str) -> bool {
    let name = Path::new(name).file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(expected)
}

/// The whole command line.
fn command() -> clap::Command {
    // A negative number is refused for its value, and not taken for an option.
    Cli::command().mut_subcommands(|task| {
        task.mut_args(|option| {
            let is_value = !option.is_positional() && option.get_action().takes_values();
            if is_value { option.allow_negative_numbers(true) } else { option }
        })
    })
}

/// Reads a command line; prints what is wrong with it, and exits.
fn parse(words: &[OsString]) -> Cli {
    let parsed = command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|mut error| {
        // Subcommands that are not shown are not proposed either.
        if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
            let is_shown = |name: &&String| {
                Cli::command().get_subcommands().any(|task| task.get_name() == **name && !task.is_hide_set())
            };
            let shown: Vec<String> = names.iter().filter(is_shown).cloned().collect();
            error.remove(ContextKind::SuggestedSubcommand);
            if !shown.is_empty() {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
            }
        }
        error.exit()
    })
}

fn main() -> ExitCode {
    run_words(std::env::args_os().collect())
}

/// Does what a command line says, of which the first word is the name of the program.
fn run_words(words: Vec<OsString>) -> ExitCode {
    if words.first().is_some_and(|name| is_called(name, MEMCACHED)) {
        return memcached::main(words);
    }
    if words.first().is_some_and(|name| is_called(name, MCROUTER)) {
        return router::main(words);
    }
    let result = match parse(&words).task {
        Task::Serve(args) => serve::run(&args),
        Task::Memcached { words } => {
            return memcached::main([OsString::from(MEMCACHED)].into_iter().chain(words));
        }
        Task::Top(args) => top::run(&args),
        Task::Probe(args) => probe::run(&args),
        Task::Router { words } => {
            return router::main([OsString::from(MCROUTER)].into_iter().chain(words));
        }
        Task::Invalidate(args) => invalidate::run(&args),
        Task::Check(args) => check::run(&args),
        Task::Fleet(args) => fleet::run(&args),
        Task::Child(args) => fleet::become_child(&args),
        Task::Load(args) => load::run(&args),
        Task::Replay(args) => replay::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Capacity(args) => capacity::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Floor(args) => floor::run(&args),
        Task::Relay(args) => relay::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Pages(args) => pages::run(&args),
        Task::Container { words } => match container::command_line(words) {
            Ok(words) => return run_words(words),
            Err(failure) => Err(failure),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
