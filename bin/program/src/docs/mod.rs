//! `guira docs`: writes the documents that are made of tables in the code.

mod dashboards;
mod metrics;
mod options;
mod router_options;
mod system_calls;

use std::path::PathBuf;

use guira_cli::failure::Failure;
use guira_cli::whole;

/// Arguments of `guira docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that they are written to.
    folder: PathBuf,
    /// The folder of the dashboards.
    #[arg(long, value_name = "DIR")]
    dashboards: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let write = |name: &str, text: &str| whole::write(&args.folder.join(name), text);
    write("options.md", &options::markdown())
        .and_then(|()| write("metrics.md", &metrics::markdown()))
        .and_then(|()| write("router-options.md", &router_options::markdown()))
        .and_then(|()| write("system-calls.md", &system_calls::markdown()))
        .and_then(|()| {
            let mut files = args.dashboards.iter().flat_map(|folder| {
                dashboards::files().into_iter().map(move |(name, text)| (folder.join(name), text))
            });
            files.try_for_each(|(path, text)| whole::write(&path, &text))
        })
        .map_err(Failure::system("cannot write the documents"))
}
