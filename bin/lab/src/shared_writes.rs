//! `guira-lab shared-writes`: counts the writes to cache lines that other workers touch.

use std::path::PathBuf;

use guira_cli::failure::Failure;
use guira_cli::whole;
use guira_load::LoadError;
use guira_load::shared_writes::{self, document, excesses};

use crate::peers::guira_binary;

/// Arguments of `guira-lab shared-writes`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of guira [default: the one in the folder of this program, or in PATH]
    #[arg(long, value_name = "PATH")]
    guira_binary: Option<PathBuf>,
    /// Engines, separated by commas; `router` is the router [default: all]
    #[arg(long, value_name = "ENGINES", value_delimiter = ',')]
    engines: Vec<String>,
    /// Write the tables to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Counts, prints the places of the stores and the tables, and fails if a count is above its limit.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let binary = args.guira_binary.clone().map_or_else(guira_binary, Ok)?;
    let counted = shared_writes::run(&binary, &args.engines, &mut |line| eprintln!("{line}"))?;
    let text = document(&counted);
    print!("{text}");
    if let Some(path) = &args.out {
        whole::write(path, &text).map_err(Failure::system("cannot write the document"))?;
    }
    let excesses = excesses(&counted);
    if excesses.is_empty() {
        return Ok(());
    }
    Err(LoadError::AboveLimits(excesses.join("\n")).into())
}
