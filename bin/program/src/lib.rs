//! The commands of `guira`, the program for production. Each command is a file that maps its arguments to a library call;
//! the commands of the laboratory are passed on to `guira-lab`.
//!
//! A new command is a module with an `Args` (derived from clap) and a `run(&Args) -> Result<(), Failure>`, one
//! variant of [`Task`], one arm of its dispatch and its name in [`help::GROUPS`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "fleet"),
    allow(
        dead_code,
        unused_imports,
        reason = "the fleet and the documents use them, `make serve` has neither"
    )
)]

#[cfg(feature = "fleet")]
mod docs;
#[cfg(feature = "fleet")]
mod fleet;
mod help;
mod lab;
mod node;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use guira_cli::failure::{FAILED, Failure, USAGE};
use guira_cli::{VERSION, parse, with_negative_numbers};
use node::{container, memcached, serve};

#[cfg(feature = "fleet")]
use fleet::{check, copy, invalidate, pools, probe, ready, router, top};

/// A cache in memcached's place, and its router, invalidator and fleet.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
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
    /// Run the cache server.
    Serve(Box<serve::Args>),
    /// Run the cache server with memcached's command line, as a link called memcached does.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Memcached {
        /// memcached's options: see `guira memcached -h`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Show statistics of nodes on a live screen.
    #[cfg(feature = "fleet")]
    Top(top::Args),
    /// Store a value on a server and read it, for readiness probes.
    #[cfg(feature = "fleet")]
    Ready(ready::Args),
    /// Measure how long deletes take to reach all nodes.
    #[cfg(feature = "fleet")]
    Probe(probe::Args),
    /// Run the router, with mcrouter's options.
    #[cfg(feature = "fleet")]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Router {
        /// mcrouter's options: see `guira router --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Run the router with mcrouter's defaults, as a link called mcrouter does.
    #[cfg(feature = "fleet")]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Mcrouter {
        /// mcrouter's options: see `guira mcrouter --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Read a database's log and delete changed keys from caches.
    #[cfg(feature = "fleet")]
    Invalidate(invalidate::Args),
    /// Verify caches against the database after each change.
    #[cfg(feature = "fleet")]
    Check(check::Args),
    /// Fill cache servers with the items of another one.
    #[cfg(feature = "fleet")]
    Copy(copy::Args),
    /// Manage pools of cache servers in etcd; run a demonstration.
    #[cfg(feature = "fleet")]
    Fleet(pools::Args),
    #[command(flatten)]
    Lab(lab::Task),
    /// Print the completions of a shell.
    #[cfg(feature = "fleet")]
    Completions(guira_cli::manual::CompletionsArgs),
    /// Print a man page, as `guira man fleet create | man -l -`.
    #[cfg(feature = "fleet")]
    Man(guira_cli::manual::ManArgs),
    /// Write the documents that are generated from tables in the code (used by `cargo xtask docs`).
    #[cfg(feature = "fleet")]
    #[command(hide = true)]
    Docs(docs::Args),
    /// Run the command line behind `docker run IMAGE`; options without a command are memcached's.
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Container {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// The name of this program in messages.
const NAME: &str = "guira";
/// The names of programs that Guira takes the place of.
const MEMCACHED: &str = "memcached";
#[cfg(feature = "fleet")]
const MCROUTER: &str = "mcrouter";

/// Whether this binary was called by that name, or one that begins with it.
fn is_called(name: &OsStr, expected: &str) -> bool {
    let name = Path::new(name).file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(expected)
}

/// The whole command line.
fn command() -> clap::Command {
    help::grouped(with_negative_numbers(Cli::command()))
}

/// The whole command line, with the options of `memcached` and `router` in it: for man pages and completions.
#[cfg(feature = "fleet")]
fn described() -> clap::Command {
    command()
        .mut_subcommand(MEMCACHED, |_| memcached::described())
        .mut_subcommand("router", |_| router::described(router::Manner::Guira).name("router"))
        .mut_subcommand(MCROUTER, |_| router::described(router::Manner::Mcrouter).name(MCROUTER))
}

/// Prints a failure; returns the exit code.
fn report(failure: &Failure) -> ExitCode {
    #[cfg(feature = "fleet")]
    let is_usage = node::is_usage(failure) || fleet::is_usage(failure);
    #[cfg(not(feature = "fleet"))]
    let is_usage = node::is_usage(failure);
    failure.report(NAME, if is_usage { USAGE } else { FAILED })
}

/// Runs a command line, of which the first word is the name of the program.
pub fn run(words: Vec<OsString>) -> ExitCode {
    if words.first().is_some_and(|name| is_called(name, MEMCACHED)) {
        return memcached::main(words);
    }
    #[cfg(feature = "fleet")]
    if words.first().is_some_and(|name| is_called(name, MCROUTER)) {
        return router::main(router::Manner::Mcrouter, words);
    }
    let result = match parse::<Cli>(command(), &words).task {
        Task::Serve(args) => serve::run(&args),
        Task::Memcached { words } => {
            return memcached::main([OsString::from(MEMCACHED)].into_iter().chain(words));
        }
        #[cfg(feature = "fleet")]
        Task::Router { words } => {
            let words = [OsString::from(MCROUTER)].into_iter().chain(words);
            return router::main(router::Manner::Guira, words);
        }
        #[cfg(feature = "fleet")]
        Task::Mcrouter { words } => {
            let words = [OsString::from(MCROUTER)].into_iter().chain(words);
            return router::main(router::Manner::Mcrouter, words);
        }
        #[cfg(feature = "fleet")]
        Task::Top(args) => top::run(&args),
        #[cfg(feature = "fleet")]
        Task::Ready(args) => ready::run(&args),
        #[cfg(feature = "fleet")]
        Task::Probe(args) => probe::run(&args),
        #[cfg(feature = "fleet")]
        Task::Invalidate(args) => invalidate::run(&args),
        #[cfg(feature = "fleet")]
        Task::Check(args) => check::run(&args),
        #[cfg(feature = "fleet")]
        Task::Copy(args) => copy::run(&args),
        #[cfg(feature = "fleet")]
        Task::Fleet(args) => pools::run(&args),
        #[cfg(feature = "fleet")]
        Task::Completions(args) => guira_cli::manual::completions(NAME, &described(), &args),
        #[cfg(feature = "fleet")]
        Task::Man(args) => guira_cli::manual::man(NAME, &described(), &args),
        #[cfg(feature = "fleet")]
        Task::Docs(args) => docs::run(&args),
        Task::Lab(task) => lab::run(&task),
        Task::Container { words } => match container::command_line(words) {
            Ok(words) => return run(words),
            Err(failure) => Err(failure),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

#[cfg(all(test, feature = "fleet"))]
mod tests {
    use super::{MEMCACHED, NAME, command, memcached, router};
    use clap::error::ErrorKind;
    use guira_harness::documented;

    /// The parser of the words behind `guira`: `router` and `memcached` have their own.
    fn parser(words: &[String]) -> (clap::Command, usize) {
        match words.get(1).map(String::as_str) {
            Some("router") => router::parser(&words[2..]),
            Some(MEMCACHED) => (memcached::described(), 1),
            _ => (command(), 0),
        }
    }

    #[test]
    fn every_command_in_the_documents_is_accepted() {
        for one in documented::commands(&[NAME]) {
            let (parser, skipped) = parser(&one.words);
            let Err(error) = parser.try_get_matches_from(&one.words[skipped..]) else { continue };
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            assert!(is_help, "{}: {}\n{error}", one.place, one.words.join(" "));
        }
    }
}
