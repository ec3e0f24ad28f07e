//! `guira serve`: the cache server.

use std::io::Write;
use std::path::PathBuf;

use guira_server::{PartialOptions, Size};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Runs the cache server until SIGTERM or SIGINT.
///
/// Examples:
///   guira serve
///   guira serve --listen 0.0.0.0:11211 --listen unix:/run/guira.sock --memory 8GiB --workers 4
///   guira serve --config /etc/guira.toml --print-config
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_override_self = true)]
pub(crate) struct Args {
    /// Where to listen: IP:PORT, [v6]:PORT (port 0 takes a free one) or unix:PATH; may be repeated [default: 127.0.0.1:11211]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,

    /// Threads that serve, each with an event loop of its own [default: one a processor]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,

    /// Ceiling of the whole process, as a number with K, M, G, T or KiB, MiB, … [default: a quarter of the machine, at most 1GiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    /// Engine: memc3 [default: memc3]
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,

    /// Index in place of the engine's own: cuckoo[:depth=N,paths=N,versions=N]
    #[arg(long, value_name = "NAME[:key=value,…]")]
    index: Option<String>,

    /// Replacement policy in place of the engine's own: clock
    #[arg(long, value_name = "NAME[:key=value,…]")]
    policy: Option<String>,

    /// Largest item, counted as memcached's -I counts it: 1KiB to 1GiB [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    max_item_size: Option<Size>,

    /// Connections at the same time; one more is told so and closed [default: 1024]
    #[arg(long, value_name = "N")]
    max_connections: Option<u64>,

    /// Connections that wait to be accepted [default: 1024]
    #[arg(long, value_name = "N")]
    backlog: Option<u32>,

    /// Keep each worker on a processor of its own
    #[arg(long)]
    pin_workers: bool,

    /// Read these options from a TOML file, with the same names; the command line goes before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the options as they would be used, as TOML, and exit
    #[arg(long)]
    print_config: bool,
}

impl Args {
    fn partial(&self) -> PartialOptions {
        PartialOptions {
            listen: (!self.listen.is_empty()).then(|| self.listen.clone()),
            workers: self.workers,
            memory: self.memory,
            engine: self.engine.clone(),
            index: self.index.clone(),
            policy: self.policy.clone(),
            max_item_size: self.max_item_size,
            max_connections: self.max_connections,
            backlog: self.backlog,
            pin_workers: self.pin_workers.then_some(true),
        }
    }
}

/// Starts the server, says where it listens and how memory is divided, and waits for a signal.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = match &args.config {
        Some(path) => PartialOptions::from_file(path)?,
        None => PartialOptions::default(),
    };
    let options = args.partial().or(file).resolve()?;
    if args.print_config {
        let mut out = std::io::stdout();
        return out
            .write_all(options.to_toml().as_bytes())
            .and_then(|()| out.flush())
            .map_err(Failure::system("cannot print the options"));
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    // Before the workers start, so that none of them takes the signals.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::system("cannot wait for signals"))?;
    let running = guira_server::start(&options)?;
    // Whoever started us may be waiting for these lines, or may have closed the pipe.
    let mut out = std::io::stdout();
    for address in running.addresses() {
        let _ = writeln!(out, "listening on {address}");
    }
    let mebibytes = |bytes: usize| format!("{:.1}MiB", bytes as f64 / (1u64 << 20) as f64);
    let parts: Vec<String> =
        running.memory().iter().map(|(what, bytes)| format!("{what} {}", mebibytes(*bytes))).collect();
    let _ = writeln!(out, "memory {}: {}; {} workers", options.memory, parts.join(", "), options.workers);
    let _ = out.flush();
    signals.forever().next();
    running.stop().map_err(Failure::system("a worker failed"))
}
