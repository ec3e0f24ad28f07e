//! `guira check`: verifies caches against the database.

use std::io::{self, BufReader};
use std::path::PathBuf;

use guira_checker::{Config, Origin, Report, Tally};
use guira_sync::clock::Stopwatch;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::fleet::shares::{nines, share};
use guira_cli::failure::Failure;
use guira_cli::log;
use guira_cli::output::print;
use guira_cli::units::Span;

const NOTES: &str =
    "The checker receives changed keys from an invalidator, as one of its targets, or reads them from
standard input, one per line. For one in `sample` of these hints, it reads the row from the
database, and after each delay the key from every cluster. A value that differs from the database
is an inconsistency, unless the row changes during the read. /metrics of the admin listener has
the results, and the checker prints them when it ends.

Example of a configuration (see docs/guide/checker.md):
  listen = \"127.0.0.1:11299\"
  admin = \"127.0.0.1:9161\"
  sample = 1000
  delays-ms = [1000, 10000, 60000]
  [database.mariadb]
  address = \"db:3306\"
  database = \"shop\"
  user = \"guira-check\"
  password-file = \"/etc/guira/check-password\"
  [[check]]
  key = \"user:{id}\"
  query = \"SELECT name FROM users WHERE id = {id}\"
  [[cluster]]
  name = \"east\"
  address = \"router-east:11211\"

And in the configuration of the invalidator:
  [[target]]
  name = \"checker\"
  address = \"127.0.0.1:11299\"
  again-after-ms = 0

Exit codes: 2 if the configuration is invalid, 1 if the checker cannot start.";

/// Arguments of `guira check`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
    /// Read changed keys from standard input, one per line. Without `listen`, exit when all are checked.
    #[arg(long)]
    stdin: bool,
    /// Exit after this time.
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Log more: -v events, -vv details.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::load(&args.config)?;
    config.check_files()?;
    if args.check {
        return print("the configuration is valid\n");
    }
    log::start(args.verbose);
    // Before any thread starts, so that none of them takes the signals.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::system("cannot wait for signals"))?;
    let source = args.stdin.then(|| Box::new(BufReader::new(io::stdin())) as _);
    let running = guira_checker::start(&config, source)?;
    if let Some(address) = running.admin_address() {
        print(&format!("listening on admin {address}\n"))?;
    }
    if let Some(address) = running.hints_address() {
        print(&format!("listening on hints {address}\n"))?;
    }
    let ((clusters, regions), start) = (running.names(), running.started());
    let clock = Stopwatch::start();
    let is_over = || {
        args.duration.is_some_and(|duration| clock.elapsed() >= duration.0)
            || signals.pending().next().is_some()
    };
    let report = running.run(is_over);
    log::flush();
    print(&table(&report, &clusters, &regions, start))
}

/// The report as text. `start` is the start of the checker, since 1970.
fn table(report: &Report, clusters: &[String], regions: &[String], start: u64) -> String {
    let counts = report.counts;
    let mut text = format!(
        "{} hints: {} without a check, {} sampled, {} dropped, {} in progress; {} changes found in the database before their hint\n",
        counts.hints, counts.unmatched, counts.sampled, counts.dropped, report.under_way, counts.untold
    );
    if let Some(key) = &report.unmatched {
        text.push_str(&format!("example of a key without a check: {}\n", key.escape_ascii()));
    }
    let of_regions: Vec<String> = regions.iter().map(|name| format!("region {name}")).collect();
    let width =
        clusters.iter().chain(&of_regions).map(String::len).max().unwrap_or(0).max("all clusters".len());
    text.push_str(&format!(
        "\n{:>8}  {:width$}  {:>10}  {:>8}  {:>12}  {:>7}  {:>10}  {:>10}  {:>6}\n",
        "after", "", "consistent", "missing", "inconsistent", "unknown", "superseded", "share", "nines"
    ));
    for at in &report.delays {
        let after = format!("{:?}", at.delay);
        text.push_str(&row(&after, "all clusters", width, at.all));
        for (name, tally) in of_regions.iter().zip(&at.regions) {
            text.push_str(&row("", name, width, *tally));
        }
        if clusters.len() > 1 {
            for (name, tally) in clusters.iter().zip(&at.clusters) {
                text.push_str(&row("", name, width, *tally));
            }
        }
    }
    if !report.examples.is_empty() {
        text.push_str("\ninconsistent:\n");
    }
    for example in &report.examples {
        let origin = match example.origin {
            Origin::Hint => "hint",
            Origin::Database => "change found in the database",
        };
        text.push_str(&format!(
            "  {} in {}: {origin} at {}; after {:?} to {:?} the cache had {} instead of {}\n",
            example.key.escape_ascii(),
            clusters[example.cluster],
            start + example.changed.as_secs(),
            example.seen[0],
            example.seen[1],
            example.cache,
            example.truth
        ));
    }
    if report.more_examples > 0 {
        text.push_str(&format!("  and {} more\n", report.more_examples));
    }
    text
}

fn row(after: &str, name: &str, width: usize, tally: Tally) -> String {
    let (share, nines) = (share(tally.share()), nines(tally.nines(), tally.inconsistent));
    format!(
        "{after:>8}  {name:width$}  {:>10}  {:>8}  {:>12}  {:>7}  {:>10}  {share:>10}  {nines:>6}\n",
        tally.consistent, tally.missing, tally.inconsistent, tally.unknown, tally.superseded
    )
}
