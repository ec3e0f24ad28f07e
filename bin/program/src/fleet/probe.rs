//! `guira probe`: measures the time that deletes take to reach all nodes.

use std::io::{self, BufReader};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use guira_checker::probe::{FirstLook, Job, Manner, Outcomes, Settings, Tally, job};
use guira_client::text::Endpoint;
use guira_sync::clock::wall_clock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::fleet::shares::{nines, share};
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::units::{Count, Span};
use guira_cli::whole;

/// Longest wait for a reply of a node.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Samples in progress. One takes some hundred bytes, and a tenth of that for each node and delay.
const UNDER_WAY_MAX: usize = 10_000;

const NOTES: &str =
    "The probe reads the keys of deletes from standard input, one per line. Without --delete, other
programs send the deletes: delays count from the moment a key is read, and an item stored again
before the first check counts as the old one. With --delete, the probe sends the deletes after the
first check.

Examples:
  tail -F deletes.log | guira probe --node cache-0:11211 --node cache-1:11211 --metrics probe.prom
  guira probe --node a:11211 --node b:11211 --sample 1 --delete --via router:11211 < keys";

/// Arguments of `guira probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// Node to check, as HOST:PORT or unix:PATH; may be repeated.
    #[arg(long = "node", value_name = "NODE", required = true)]
    nodes: Vec<Endpoint>,
    /// Sample one delete in N.
    #[arg(long, value_name = "N", default_value = "1M")]
    sample: Count,
    /// Delays after a delete at which nodes are checked.
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', default_value = "1s,10s,1m,10m,60m")]
    delays: Vec<Span>,
    /// Exit after this time [default: after the last delay of the last delete]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Send the deletes to every node.
    #[arg(long)]
    delete: bool,
    /// Send the deletes to this server instead, such as a router.
    #[arg(long, value_name = "SERVER", requires = "delete")]
    via: Option<Endpoint>,
    /// Write metrics in the OpenMetrics format to this file, every second.
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

impl Args {
    fn job(&self) -> Result<Job, Failure> {
        let one_in = NonZeroU64::new(self.sample.0);
        let one_in = one_in.ok_or_else(|| Failure::usage("--sample must be at least 1"))?;
        let target = |endpoint: &Endpoint| self.access.target(endpoint, TIMEOUT);
        let nodes = self.nodes.iter().map(target).collect::<Result<Vec<_>, _>>()?;
        let manner = match (&self.via, self.delete) {
            (Some(router), _) => Manner::Delete(vec![target(router)?]),
            (None, true) => Manner::Delete(nodes.clone()),
            (None, false) => Manner::Observe,
        };
        let settings = Settings {
            one_in,
            delays: self.delays.iter().map(|delay| delay.0).collect(),
            nodes: nodes.len(),
            first_look: FirstLook::BeforeDelete,
            under_way_max: UNDER_WAY_MAX,
        };
        Ok(Job { settings, nodes, manner, duration: self.duration.map(|duration| duration.0) })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let work = args.job()?;
    let names: Vec<String> = args.nodes.iter().map(Endpoint::to_string).collect();
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))?;
    let start = wall_clock();
    let write_metrics = |outcomes: &Outcomes| match &args.metrics {
        Some(path) => whole::write(path, &outcomes.report.openmetrics(&names)),
        None => Ok(()),
    };
    let outcomes =
        job(&work, BufReader::new(io::stdin()), || signals.pending().next().is_some(), write_metrics)
            .map_err(Failure::system("the probe stopped"))?;
    print!("{}", table(&outcomes, &names, start));
    Ok(())
}

/// The report as text. `start` is the start of the probe, since 1970.
fn table(outcomes: &Outcomes, nodes: &[String], start: u64) -> String {
    let report = &outcomes.report;
    let mut text = format!(
        "{} deletes: {} sampled, {} dropped, {} in progress; {} lines without a valid key",
        report.deletes, report.sampled, report.dropped, report.under_way, outcomes.unusable
    );
    if outcomes.failed > 0 {
        text.push_str(&format!("; {} deletes not acknowledged", outcomes.failed));
    }
    let width = nodes.iter().map(String::len).max().unwrap_or(0).max("all nodes".len());
    text.push_str(&format!(
        "\n\n{:>8}  {:width$}  {:>10}  {:>7}  {:>7}  {:>7}  {:>10}  {:>6}\n",
        "after", "", "consistent", "stale", "absent", "unknown", "in time", "nines"
    ));
    for at in &report.delays {
        let after = format!("{:?}", at.delay);
        text.push_str(&row(&after, "all nodes", width, at.overall));
        if nodes.len() > 1 {
            for (name, tally) in nodes.iter().zip(&at.nodes) {
                text.push_str(&row("", name, width, *tally));
            }
        }
    }
    if !report.examples.is_empty() {
        text.push_str("\nlate:\n");
    }
    for example in &report.examples {
        text.push_str(&format!(
            "  {} at {}: deleted at {}, cas unique {} still there after {:?} to {:?}\n",
            example.key.escape_ascii(),
            nodes[example.node],
            start + example.sent.as_secs(),
            example.unique,
            example.seen[0],
            example.seen[1]
        ));
    }
    if report.more_examples > 0 {
        text.push_str(&format!("  and {} more\n", report.more_examples));
    }
    text
}

fn row(after: &str, name: &str, width: usize, tally: Tally) -> String {
    let (share, nines) = (share(tally.share()), nines(tally.nines(), tally.stale));
    format!(
        "{after:>8}  {name:width$}  {:>10}  {:>7}  {:>7}  {:>7}  {share:>10}  {nines:>6}\n",
        tally.consistent, tally.stale, tally.absent, tally.unknown
    )
}
