//! `guira replay`: replays a recorded trace through a look-aside cache.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use guira_load::LoadError;
use guira_load::bench::Options;
use guira_load::bench::machine::Machine;
use guira_load::pace::{Gaps, Pace};
use guira_load::process::Process;
use guira_load::replay::{Replay, compare, items_at};
use guira_load::server::Kind;
use guira_workload::OnMiss;
use guira_workload::trace::{Format, Trace};

use crate::peers::{Peers, Side, cores};
use crate::show::{self, Bar, Total};
use crate::workload::{BrokenLine, formats};
use guira_cli::failure::Failure;
use guira_cli::units::{Bytes, Count};

/// The supported formats, and examples.
fn after_help() -> String {
    format!(
        "Formats (plain or zstd):
{}
Examples:
  guira replay lab/workload/traces/cache2k-orm-busy.trace.zst --memory 8M,16M,32M,64M
  guira replay cluster52.0.zst --server 127.0.0.1:11211 --limit 10M --on-miss leave",
        formats()
    )
}

/// Arguments of `guira replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Trace file, plain or compressed with zstd.
    trace: PathBuf,
    /// Format of the trace [default: detected from its first bytes]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Action for an invalid line of the trace.
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    broken: BrokenLine,
    /// Replay on this running server instead of starting and comparing servers.
    #[arg(long, value_name = "ADDR")]
    server: Option<SocketAddr>,
    /// Process id of the running server, to report its CPU time.
    #[arg(long, value_name = "PID", requires = "server")]
    server_pid: Option<u32>,
    /// Memory limits of guira; the other servers are compared at the resident size that guira reaches.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "8M,16M,32M,64M",
        conflicts_with = "server"
    )]
    memory: Vec<Bytes>,
    /// Value length if the trace has none.
    #[arg(long, value_name = "BYTES", default_value = "1000")]
    value_size: Bytes,
    /// Maximum value length; longer values are truncated.
    #[arg(long, value_name = "BYTES", default_value = "1000K")]
    value_size_max: Bytes,
    /// Replay only the first N requests.
    #[arg(long, value_name = "N")]
    limit: Option<Count>,
    /// Action after a miss.
    #[arg(long, value_name = "WHAT", default_value = "fill")]
    on_miss: MissAction,
    /// Connections, with one request in flight on each. 1 preserves the order of the trace.
    #[arg(long, short, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Requests per second, as an open loop [default: a closed loop]
    #[arg(long, value_name = "N")]
    rate: Option<Count>,
    #[command(flatten)]
    peers: Peers,
    /// Write a README and raw data to a new folder <date>-<machine>-replay below this one.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    out: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissAction {
    /// Store the key, as a look-aside client does.
    Fill,
    /// Do nothing: the trace has the sets that followed misses.
    Leave,
}

impl Args {
    fn replay(&self) -> Result<Replay, Failure> {
        let len =
            |bytes: Bytes| u32::try_from(bytes.0).map_err(|_| Failure::usage("a value size is too large"));
        let pace = match self.rate {
            None => Pace::Closed,
            Some(Count(0)) => return Err(Failure::usage("the rate must be at least 1")),
            Some(Count(rate)) => Pace::Open { rate_per_s: rate as f64, arrivals: Gaps::Poisson },
        };
        Ok(Replay {
            path: self.trace.clone(),
            format: self.format,
            broken: self.broken.into(),
            value_len: len(self.value_size)?,
            value_len_max: len(self.value_size_max)?,
            limit: self.limit.map(|Count(limit)| limit),
            on_miss: match self.on_miss {
                MissAction::Fill => OnMiss::Fill,
                MissAction::Leave => OnMiss::Leave,
            },
            connections: self.connections,
            pace,
            sample: 16,
        })
    }

    fn bar(&self) -> Bar {
        Bar::new("replaying", self.limit.map_or(Total::Unknown, |Count(limit)| Total::Operations(limit)))
    }

    fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            servers: self.peers.installed_kinds()?,
            routers: Vec::new(),
            rounds: 1,
            warmup: Duration::ZERO,
            duration: Duration::ZERO,
            server_cores: cores(Side::Server),
            client_cores: cores(Side::Client),
            seed: 1,
        })
    }
}

/// Replays the trace and prints the results.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let replay = args.replay()?;
    // Before anything is started that takes minutes.
    let trace = replay.open()?;
    match args.server {
        Some(addr) => run_on(args, &replay, trace, addr),
        None if args.trace.is_file() => compare_servers(args, &replay),
        None => Err(Failure::usage(format!(
            "{} is not a file and can be read only once: use a file to compare servers, or name one server with --server",
            args.trace.display()
        ))),
    }
}

fn run_on(args: &Args, replay: &Replay, trace: Trace, addr: SocketAddr) -> Result<(), Failure> {
    let items = items_at(addr);
    let process = args.server_pid.map(Process::new);
    let outcome = replay.run(trace, addr, process, &[], &mut args.bar())?;
    if args.json {
        println!("{}", show::json(&outcome)?);
    } else {
        show::print(&outcome);
    }
    outcome.require_right().map_err(|error| match error {
        LoadError::WrongReplies { count, .. } if items > 0 => LoadError::NotEmpty { items, count },
        error => error,
    })?;
    Ok(())
}

fn compare_servers(args: &Args, replay: &Replay) -> Result<(), Failure> {
    let sizes: Vec<u64> = args.memory.iter().map(|&Bytes(bytes)| bytes).collect();
    let options = args.options()?;
    if !options.servers.iter().any(Kind::is_cache) {
        return Err(Failure::usage("no cache to replay on: name one with --servers"));
    }
    let machine = Machine::this();
    let mut rows = Vec::new();
    let (mut bar, mut log) = (args.bar(), |line: &str| eprintln!("{line}"));
    let compared = compare::run(replay, &sizes, &options, &mut bar, &mut log, &mut rows);
    if args.json {
        println!("{}", show::to_json(&rows)?);
    } else if !rows.is_empty() {
        print!("{}", compare::table(&rows));
    }
    compared?;
    if let Some(parent) = &args.out {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let command = format!("guira {}", words.join(" "));
        let dir = compare::file(&rows, replay, &options, &machine, &command, parent)?;
        eprintln!("results written to {}", dir.display());
    }
    Ok(())
}
