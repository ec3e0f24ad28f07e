//! `guira serve`: the cache server.

use std::path::PathBuf;

use guira_server::{Running, Secrets};

use crate::node::options::{CliOptions, to_toml};
use crate::node::process::{self, Coredumps, Identity};
use crate::node::run::{self, Keeps, Origin};
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output;

/// Runs the cache server until SIGTERM, SIGINT or SIGUSR1.
///
/// Examples:
///   guira serve
///   guira serve --listen 0.0.0.0:11211 --listen unix:/run/guira.sock --memory 8GiB --workers 4
///   guira serve --config /etc/guira.toml --print-config
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    options: CliOptions,

    /// Read options from a TOML file, by the same names; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the effective options as TOML and exit
    #[arg(long)]
    print_config: bool,
}

/// Starts the server, prints its addresses and the division of memory, and waits for a signal.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = match &args.config {
        Some(path) => CliOptions::from_file(path)?,
        None => CliOptions::default(),
    };
    let given = args.options.clone().or(file);
    let mut options = given.read()?;
    if args.print_config {
        return output::print(&to_toml(&options));
    }
    log::start(1);
    let inherited =
        guira_server::inherited_sockets().map_err(Failure::system("cannot take over a socket"))?;
    process::set_limits(options.max_connections, Coredumps::AsTheyAre)?;
    let secrets = Secrets::load(&options)?;
    if let Some(name) = &options.user {
        Identity::of(name)?.assume()?;
    }
    let origin = Origin::find(&options, inherited)?;
    if !origin.inherited.is_empty() && !given.is_given("listen") {
        options.listen.clear();
    }
    let announce = |running: &Running| {
        run::print_start(&options, running);
        Ok(())
    };
    run::serve(&options, secrets, origin, announce, Keeps::Always)
}
