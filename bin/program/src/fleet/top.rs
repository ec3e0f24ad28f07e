//! `guira top`: a screen with the statistics of nodes.

use std::time::Duration;

use clap::ValueEnum;
use guira_client::text::Endpoint;
use guira_top::{Options, Sort};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::units::Span;

/// Shorter intervals would load the nodes.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Longest wait for a reply of a node.
const TIMEOUT: Duration = Duration::from_secs(5);

const NOTES: &str = "Keys: q quit, p pause, digits and tab panels, ? help.

Examples:
  guira top
  guira top cache-0:11211,cache-1:11211 --interval 2
  guira top unix:/run/guira/guira.sock --sort misses
  guira top 10.0.0.5:11211 --tls --tls-ca ca.pem --login-file login
  guira top cache-0:11211 --once";

/// Arguments of `guira top`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// Nodes, as HOST:PORT or unix:PATH, separated by commas or blanks.
    #[arg(value_name = "NODE", value_delimiter = ',', default_value = "127.0.0.1:11211")]
    nodes: Vec<Endpoint>,
    /// Time between two updates.
    #[arg(long, short, value_name = "TIME", default_value = "1")]
    interval: Span,
    /// Print one report of the activity during an interval as plain text, and exit.
    #[arg(long)]
    once: bool,
    /// Order of the top keys.
    #[arg(long, value_name = "BY", default_value = "requests")]
    sort: By,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Requests,
    Bytes,
    Misses,
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        let Span(interval) = self.interval;
        if interval < INTERVAL_MIN {
            return Err(Failure::usage(format!("--interval must be at least {INTERVAL_MIN:?}")));
        }
        let targets = self.nodes.iter().map(|node| self.access.target(node, TIMEOUT));
        let sort = match self.sort {
            By::Requests => Sort::Requests,
            By::Bytes => Sort::Bytes,
            By::Misses => Sort::Misses,
        };
        Ok(Options { targets: targets.collect::<Result<_, _>>()?, interval, sort })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let options = args.options()?;
    if args.once {
        let (text, silent) = guira_top::once(&options);
        print!("{text}");
        return match silent {
            0 => Ok(()),
            _ => Err(Failure::new(format!("{silent} of {} nodes did not reply", options.targets.len()))),
        };
    }
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))?;
    Ok(guira_top::run(&options, || signals.pending().next().is_some())?)
}
