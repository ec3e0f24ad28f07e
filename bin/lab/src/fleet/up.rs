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
    "Without etcd or MariaDB (Debian: etcd-server, mariadb-server), the region is smaller; see the
first lines.

Examples:
  guira fleet up
  guira fleet up --folder region --port 9180
  guira fleet up --chaos 1m --seed 7

Exit codes: 1 if the region cannot be started, 3 if --chaos found a wrong reply or a lost delete.";

/// Arguments of `guira fleet up`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(super) struct Args {
    /// Folder of the region, empty or missing; it is kept [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Port of the web page, on this host only; 0 chooses a free port.
    #[arg(long, value_name = "N", default_value = "0")]
    port: u16,
    /// Require the token in this file for the web page. Without it, every user of this host can cause faults.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Cause random faults for this time, compare all caches with the database, print the result and exit.
    #[arg(long, value_name = "TIME")]
    chaos: Option<Span>,
    /// Seed of all random choices.
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
    // A closed standard output must not stop the region.
    let print_line = |line: &str| drop(print(&format!("{line}\n")));
    let outcome = guira_demo::up(&settings, || signals.pending().next().is_some(), print_line)?;
    log::flush();
    match outcome {
        Some(Outcome { summary, wrong }) => report(&summary, &wrong),
        None if args.chaos.is_some() => {
            Err(Failure::new("a signal stopped the region before the random faults were over"))
        }
        None => Ok(()),
    }
}

/// Prints the outcome of faults.
pub(super) fn report(summary: &str, wrong: &[String]) -> Result<(), Failure> {
    print(summary)?;
    wrong.iter().try_for_each(|what| print(&format!("wrong: {what}\n")))?;
    if wrong.is_empty() { Ok(()) } else { Err(WrongAnswers(wrong.len()).into()) }
}

pub(crate) fn become_child(args: &ChildArgs) -> Result<(), Failure> {
    Err(Failure::system("cannot execute the program of the region")(become_bound(args.parent, &args.words)))
}
