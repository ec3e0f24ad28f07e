//! `guira bench`: compares servers under the project's loads.

use std::path::PathBuf;
use std::time::Duration;

use guira_load::bench::machine::Machine;
use guira_load::bench::parameters::Scale;
use guira_load::bench::routers::{self, Binaries, Router};
use guira_load::bench::selection::{Selection, described};
use guira_load::bench::{self, Options, report, table};

use crate::peers::{Peers, Side, cores, this_binary};
use guira_cli::failure::Failure;
use guira_cli::units::Span;

const EXAMPLES: &str = "Examples:
  guira bench --only get32,mget100,set32,get1 --quick
  guira bench --only mget100 --rounds 9 --servers guira,floor --guira-binary target/release/guira
  guira bench --only bget32,uget1,tget32 --servers guira,memcached,1.6.45=/opt/memcached,floor
  guira bench --only idle-connections,metadump
  guira bench --only delete-prefix --servers guira --engines memc3,mica --rounds 2
  guira bench --only instructions --servers guira --against ../before/guira
  guira bench --only router-get1,router-get32,router-mget100 --routers guira,nutcracker,before=../before/guira
  guira bench --only misses --traces ~/traces --servers guira,memcached --out docs/results/bench
  guira bench --out docs/results/bench
  guira bench --list";

/// Arguments of `guira bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Parts to run, separated by commas (see --list) [default: all but memory-sizes, fairness, misses, delete-prefix,
    /// takeover, instructions, and those with few keys or routers]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<String>,
    /// List the parts and exit.
    #[arg(long)]
    list: bool,
    /// Write a README, raw data and plots to a new folder <date>-<machine> below this one [default: docs/results/bench
    /// without --only and --quick, else none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    peers: Peers,
    /// Routers of the parts router-*: guira, nutcracker, memcached-proxy, relay (forwards bytes), floor (no router), or
    /// NAME=PATH of another guira. Their servers are the first memcached of --servers, or else guira.
    #[arg(
        long,
        value_name = "ROUTERS",
        value_delimiter = ',',
        default_value = "guira,nutcracker,relay,floor"
    )]
    routers: Vec<String>,
    /// Path of nutcracker.
    #[arg(long, value_name = "PATH", default_value = "nutcracker")]
    nutcracker_binary: PathBuf,
    /// Path of a memcached built with --enable-proxy, for memcached-proxy. Debian's is built without it.
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    proxy_binary: PathBuf,
    /// Rounds of each load; the result is their median.
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// Duration of the warm-up before each measurement.
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    warmup: Span,
    /// Folder of the traces of `misses` that are not in the repository [default: $GUIRA_TRACES]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Traces of `misses`, as NAME or NAME:PERCENT, separated by commas [default: all]
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    cases: Vec<String>,
    /// Variants of guira in `misses`, separated by commas: guira (without options), classic, or a policy [default: all]
    #[arg(long, value_name = "VARIANTS", value_delimiter = ',')]
    variants: Vec<String>,
    /// Engines of delete-prefix, takeover and instructions, separated by commas [default: memc3,classic,fleec,mica]
    #[arg(long, value_name = "ENGINES", value_delimiter = ',')]
    engines: Vec<String>,
    /// Path of another guira to compare in `instructions`.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Measure for half a second with a sixteenth of the memory, for a rough result.
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Args {
    /// The folder of the results.
    fn folder(&self) -> Option<PathBuf> {
        let is_record = self.only.is_empty() && !self.quick;
        self.out.clone().or_else(|| is_record.then(|| PathBuf::from("docs/results/bench")))
    }

    fn routers(&self) -> Result<Vec<Router>, Failure> {
        let (nutcracker, proxy) = (self.nutcracker_binary.clone(), self.proxy_binary.clone());
        let binaries = Binaries { guira: self.peers.guira()?, floor: this_binary()?, nutcracker, proxy };
        let router = |text: &String| {
            routers::named(text, &binaries).map_err(|problem| Failure::usage(format!("--routers: {problem}")))
        };
        self.routers.iter().map(router).collect()
    }

    fn options(&self) -> Result<Options, Failure> {
        if self.rounds == 0 {
            return Err(Failure::usage("--rounds must be at least 1"));
        }
        Ok(Options {
            servers: self.peers.kinds()?,
            routers: self.routers()?,
            rounds: self.rounds,
            warmup: if self.quick { Duration::from_millis(100) } else { self.warmup.0 },
            duration: if self.quick { Duration::from_millis(500) } else { self.duration.0 },
            server_cores: cores(Side::Server),
            client_cores: cores(Side::Client),
            seed: self.seed,
        })
    }
}

/// Runs the bench, prints its tables and writes them to a folder on request.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        for (name, about) in described()? {
            println!("{name:<21} {about}");
        }
        return Ok(());
    }
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let mut selection = Selection::named(&args.only, scale)?;
    selection.parameters.traces =
        args.traces.clone().or_else(|| std::env::var_os("GUIRA_TRACES").map(PathBuf::from));
    selection.parameters.cases.clone_from(&args.cases);
    selection.parameters.variants.clone_from(&args.variants);
    selection.parameters.against.clone_from(&args.against);
    if !args.engines.is_empty() {
        selection.parameters.engines.clone_from(&args.engines);
    }
    let options = args.options()?;
    let machine = Machine::this();
    let results = bench::run(&selection, &options, &mut |line| eprintln!("{line}"))?;
    print!("{}", table::all(&results));
    if let Some(parent) = args.folder() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let dir = report::file(&results, &options, &machine, &format!("guira {}", words.join(" ")), &parent)?;
        println!("\nresults written to {}", dir.display());
    }
    Ok(())
}
