//! `guira bench`: servers beside each other under the project's loads.

use std::path::PathBuf;
use std::time::Duration;

use guira_load::bench::machine::Machine;
use guira_load::bench::routers::{self, Binaries, Router};
use guira_load::bench::selection::{Scale, Selection, described};
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
    /// Parts to run, separated by commas (see --list); all but memory-sizes, fairness, misses,
    /// delete-prefix, takeover, instructions, those of few keys and those of routers when left out.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<String>,
    /// Tell what there is to run, and do nothing.
    #[arg(long)]
    list: bool,
    /// File README, raw data and plots in a new folder <date>-<machine> below this one; a bench of everything
    /// (neither --only nor --quick) is always filed, in docs/results/bench by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    peers: Peers,
    /// Routers of the parts router-*, in the order of their turns: guira, nutcracker, memcached-proxy, relay (a proxy that only moves the bytes), floor (no router:
    /// the no-cache server itself), or NAME=PATH for another guira binary. Behind them are the first memcached of --servers, or guira if no
    /// memcached is named.
    #[arg(
        long,
        value_name = "ROUTERS",
        value_delimiter = ',',
        default_value = "guira,nutcracker,relay,floor"
    )]
    routers: Vec<String>,
    /// The nutcracker binary.
    #[arg(long, value_name = "PATH", default_value = "nutcracker")]
    nutcracker_binary: PathBuf,
    /// The memcached of memcached-proxy, built with --enable-proxy, which Debian's is not.
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    proxy_binary: PathBuf,
    /// Rounds of each load; the figure is their median.
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// Time before each measurement that does not count.
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    warmup: Span,
    /// Folder of the traces that misses replays and that are not in the repository; GUIRA_TRACES when left out.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Engines of delete-prefix, takeover and instructions, separated by commas; memc3, classic, fleec and mica when left out.
    #[arg(long, value_name = "ENGINES", value_delimiter = ',')]
    engines: Vec<String>,
    /// Another guira, whose instructions are counted as well.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Measurements of half a second, and a sixteenth of the memory: good for a direction, not for a record.
    #[arg(long)]
    quick: bool,
    /// Where all random numbers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Args {
    /// Where the results are filed.
    fn folder(&self) -> Option<PathBuf> {
        let is_record = self.only.is_empty() && !self.quick;
        self.out.clone().or_else(|| is_record.then(|| PathBuf::from("docs/results/bench")))
    }

    /// The engines that are named, or `all`.
    fn engines_or(&self, all: &[String]) -> Vec<String> {
        if self.engines.is_empty() { all.to_vec() } else { self.engines.clone() }
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
            return Err(Failure::usage("there must be at least one round"));
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

/// Runs the bench, prints its tables and files them on request.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        for (name, about) in described()? {
            println!("{name:<21} {about}");
        }
        return Ok(());
    }
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let mut selection = Selection::named(&args.only, scale)?;
    if let Some(plan) = &mut selection.misses {
        plan.folder = args.traces.clone().or_else(|| std::env::var_os("GUIRA_TRACES").map(PathBuf::from));
    }
    if let Some(case) = &mut selection.delete_prefix {
        case.engines = args.engines_or(&case.engines);
    }
    if let Some(case) = &mut selection.takeover {
        case.engines = args.engines_or(&case.engines);
    }
    if let Some(plan) = &mut selection.instructions {
        plan.engines = args.engines_or(&plan.engines);
        plan.against.clone_from(&args.against);
    }
    let options = args.options()?;
    let machine = Machine::this();
    let results = bench::run(&selection, &options, &mut |line| eprintln!("{line}"))?;
    print!("{}", table::all(&results));
    if let Some(parent) = args.folder() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let dir = report::file(&results, &options, &machine, &format!("guira {}", words.join(" ")), &parent)?;
        println!("\nfiled in {}", dir.display());
    }
    Ok(())
}
