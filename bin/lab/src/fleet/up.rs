//! `guira fleet up`.

use std::ffi::OsString;
use std::path::PathBuf;

use guira_demo::{Outcome, Programs, Settings, become_bound};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::WrongAnswers;
use crate::peers::{guira_binary, this_binary};
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output::print;
use guira_cli::units::Span;

const NOTES: &str =
    "Without etcd or MariaDB (Debian: etcd-server, mariadb-server) it says what it leaves out.

Examples:
  guira fleet up
  guira fleet up --folder region --port 9180
  guira fleet up --chaos 1m --seed 7

Exit codes: 1 if the region cannot be started, 3 if --chaos has found a wrong answer or a lost delete.";

/// Arguments of `guira fleet up`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(super) struct Args {
    /// Where everything lies: a folder that is empty or not there yet. It stays afterwards. Without it, a temporary one.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The port of the page, on this host only; 0 is any that is free.
    #[arg(long, value_name = "N", default_value = "0")]
    port: u16,
    /// The page wants the token in this file for figures and faults; without it, anybody on this host may see and break everything.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Break something at random for so long, hold all caches against the database, say what was found, and end.
    #[arg(long, value_name = "TIME")]
    chaos: Option<Span>,
    /// Of all random choices.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// Arguments of `guira child`.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(long)]
    parent: u32,
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    log::start(0);
    // Before any thread starts, so that none of them takes the signals.
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))?;
    let settings = Settings {
        programs: Programs { guira: guira_binary()?, lab: this_binary()? },
        folder: args.folder.clone(),
        port: args.port,
        token_file: args.admin_token_file.clone(),
        seed: args.seed,
        chaos: args.chaos.map(|length| length.0),
    };
    // Nobody may read what it says.
    let say = |line: &str| drop(print(&format!("{line}\n")));
    let outcome = guira_demo::up(&settings, || signals.pending().next().is_some(), say)?;
    log::flush();
    match outcome {
        Some(Outcome { summary, wrong }) => tell(&summary, &wrong),
        None if args.chaos.is_some() => {
            Err(Failure::new("a signal ended the region before its random faults were over"))
        }
        None => Ok(()),
    }
}

/// Tells what has come of random faults.
pub(super) fn tell(summary: &str, wrong: &[String]) -> Result<(), Failure> {
    print(summary)?;
    wrong.iter().try_for_each(|what| print(&format!("wrong: {what}\n")))?;
    if wrong.is_empty() { Ok(()) } else { Err(WrongAnswers(wrong.len()).into()) }
}

pub(crate) fn become_child(args: &ChildArgs) -> Result<(), Failure> {
    Err(Failure::system("cannot become a part of the region")(become_bound(args.parent, &args.words)))
}
