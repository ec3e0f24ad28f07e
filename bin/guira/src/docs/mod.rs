//! `guira docs`: writes the documents that are made of tables in the code.

mod metrics;
mod options;
mod router_options;

use std::path::PathBuf;

use guira_cli::failure::Failure;
use guira_cli::whole;

/// Arguments of `guira docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that they are written to.
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let write = |name: &str, text: &str| whole::write(&args.folder.join(name), text);
    write("options.md", &options::markdown())
        .and_then(|()| write("metrics.md", &metrics::markdown()))
        .and_then(|()| write("router-options.md", &router_options::markdown()))
        .map_err(Failure::system("cannot write the documents"))
}
