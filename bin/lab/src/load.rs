//! `guira load`: generates load on one server.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use guira_load::LoadError;
use guira_load::bench::LOST_MAX;
use guira_load::pace::{Gaps, Pace};
use guira_load::process::Process;
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::Load;
use guira_load::target::{Carrier, DatagramWay, Direct, Target};
use guira_load::tls::TlsClient;
use guira_workload::mix::Weights;
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, Recipe, SizeModel, cachelib};

use crate::show::{self, Bar, Total};
use guira_cli::access::TlsArgs;
use guira_cli::failure::Failure;
use guira_cli::units::{Bytes, Count, Lengths, Span};

const EXAMPLES: &str = "TLS uses version 1.3 with AES-128-GCM, so that all servers do the same work.

Examples:
  guira load --server 127.0.0.1:11211 --preload --pipeline 32
  guira load --server 127.0.0.1:11211 --preload --get 95 --set 5 --zipf 0.99 --value-size 100-1K --fill-misses
  guira load --server 127.0.0.1:11211 --protocol binary --preload --pipeline 32
  guira load --server 127.0.0.1:11211 --protocol udp --preload --pipeline 8
  guira load --server 127.0.0.1:11211 --tls --tls-ca ca.pem --preload --pipeline 32
  guira load --server 127.0.0.1:11211 --mica 127.0.0.1:21300 --preload --pipeline 256
  guira load --server 127.0.0.1:11211 --local /run/guira.rings --preload --pipeline 256 --per-datagram 1
  guira load --server 127.0.0.1:11211 --multiget 1 --multiget-keys 100 --get 0
  guira load --server 127.0.0.1:11211 --cachelib lab/workload/traces/kvcache_reg --keys 4M --preload
  guira load --server 127.0.0.1:11211 --workload fb-wildcard --preload --pipeline 32
  guira load --server 127.0.0.1:11211 --rate 50k --connections 50 --duration 30s --json";

/// Options that CacheLib's files replace.
const SYNTHETIC: [&str; 9] =
    ["key_size", "value_size", "value_sizes", "zipf", "get", "set", "multiget", "lone_get", "delete"];

/// Arguments of `guira load`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address of the server.
    #[arg(long, value_name = "ADDR")]
    server: SocketAddr,
    /// Protocol.
    #[arg(long, value_name = "PROTOCOL", default_value = "text")]
    protocol: Spoken,
    #[command(flatten)]
    tls: TlsArgs,
    /// Address for datagrams; the preload uses TCP to --server [default: that of --server]
    #[arg(long, value_name = "ADDR")]
    udp_server: Option<SocketAddr>,
    /// Send MICA datagrams to the worker of each key; this is the address of the first one (`guira serve --mica`). The
    /// preload uses TCP to --server.
    #[arg(long, value_name = "ADDR", group = "direct")]
    #[arg(conflicts_with_all = ["protocol", "tls", "udp_server", "connections"])]
    mica: Option<SocketAddr>,
    /// Send MICA datagrams through shared memory with a server on this host (`guira serve --local`).
    #[arg(long, value_name = "SOCKET", group = "direct")]
    #[arg(conflicts_with_all = ["protocol", "tls", "udp_server", "connections"])]
    local: Option<PathBuf>,
    /// Maximum requests in a MICA datagram.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "direct")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    per_datagram: u16,
    /// Maximum share of lost datagram requests, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = LOST_MAX * 100.0)]
    lost_max: f64,
    /// Process id of the server, to report its CPU time.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Connections of all threads; with --mica and --local, each thread has one.
    #[arg(long, short, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Client threads.
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Requests in flight on each connection of a closed loop, sent together.
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pipeline: usize,
    /// Requests per second over all connections, as an open loop: latencies count from the scheduled time of a request
    /// [default: a closed loop]
    #[arg(long, value_name = "N")]
    rate: Option<Count>,
    /// Intervals between the requests of an open loop.
    #[arg(long, value_name = "GAPS", default_value = "poisson")]
    arrivals: Arrivals,
    /// Duration of the measurement.
    #[arg(long, short, value_name = "TIME", default_value = "10s")]
    duration: Span,
    /// Duration of the warm-up before the measurement.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    warmup: Span,
    #[command(flatten)]
    items: Items,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Keys, values and the mix of requests.
#[derive(Debug, clap::Args)]
struct Items {
    /// Number of distinct keys.
    #[arg(long, value_name = "N", default_value = "1M")]
    keys: Count,
    /// Key length, or a range such as 16-40.
    #[arg(long, value_name = "BYTES", default_value = "16")]
    key_size: Lengths,
    /// Value length, or a range such as 100-2K.
    #[arg(long, value_name = "BYTES", default_value = "32")]
    value_size: Lengths,
    /// Read value lengths from this file, in the format of CacheLib's sizes.json.
    #[arg(long, value_name = "FILE", conflicts_with = "value_size")]
    value_sizes: Option<PathBuf>,
    /// Zipf exponent of the popularity of keys [default: all keys equally popular]
    #[arg(long, value_name = "THETA")]
    zipf: Option<f64>,
    /// Weight of gets of one key.
    #[arg(long, value_name = "WEIGHT", default_value_t = 1.0)]
    get: f64,
    /// Weight of sets.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    set: f64,
    /// Weight of gets of several keys.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    multiget: f64,
    /// Weight of gets of keys that are never stored.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    lone_get: f64,
    /// Weight of deletes.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    delete: f64,
    /// Keys in a multiget.
    #[arg(long, value_name = "N", default_value_t = 100)]
    multiget_keys: u32,
    /// Client flags of every item.
    #[arg(long, value_name = "N", default_value_t = 0)]
    flags: u32,
    /// Expiry of items in seconds; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    exptime: u32,
    /// Read the workload from CacheLib's config.json, sizes.json and pop.json in this folder; --keys scales the number of
    /// keys.
    #[arg(long, value_name = "DIR", conflicts_with_all = SYNTHETIC)]
    cachelib: Option<PathBuf>,
    /// Workload, as NAME[:key=value,...]; see `guira sim --list`.
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = SYNTHETIC, conflicts_with_all = ["cachelib", "keys"])]
    workload: Option<String>,
    /// Store every key once before the load.
    #[arg(long)]
    preload: bool,
    /// Store a key after a miss, as a look-aside client does.
    #[arg(long)]
    fill_misses: bool,
    /// Maximum value length; longer values are truncated.
    #[arg(long, value_name = "BYTES", default_value = "1000K")]
    value_size_max: Bytes,
    /// Verify the contents of one value in N, and the length, key and flags of all. 0: verify nothing, for a server
    /// without a cache (`guira floor`).
    #[arg(long, value_name = "N", default_value_t = 16)]
    check_every: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spoken {
    /// Classic text commands over TCP.
    Text,
    /// The binary protocol over TCP.
    Binary,
    /// Text commands over UDP, one per datagram; --pipeline sets the requests in flight on each socket.
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    /// Random and independent, as from many users.
    Poisson,
    /// Evenly spaced.
    Even,
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path);
    text.map_err(|source| LoadError::File { path: path.to_owned(), source }.into())
}

/// An error of the contents of `path`, with its cause.
fn explained(path: &Path, error: &dyn Error) -> Failure {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::usage(format!("{}: {error}{cause}", path.display()))
}

impl Items {
    /// The model that CacheLib's files in `dir` describe.
    fn production_model(&self, dir: &Path) -> Result<Model, Failure> {
        let file = |name: &str| read(&dir.join(name));
        let (config, sizes, popularity) = (file("config.json")?, file("sizes.json")?, file("pop.json")?);
        let files = cachelib::Files { config: &config, sizes: &sizes, popularity: &popularity };
        let model = cachelib::model(&files, self.keys.0).map_err(|error| explained(dir, &error))?;
        Ok(Model { expiry: Expiry::after(self.exptime), ..model })
    }

    /// The workload, if one is named.
    fn recipe(&self) -> Result<Option<Recipe>, Failure> {
        self.workload.as_deref().map(crate::workload::recipe).transpose()
    }

    fn model(&self) -> Result<Model, Failure> {
        let model = match (&self.cachelib, self.recipe()?) {
            (Some(dir), _) => self.production_model(dir)?,
            (None, Some(recipe)) => recipe.model,
            (None, None) => self.synthetic_model()?,
        };
        let limit = u32::try_from(self.value_size_max.0).unwrap_or(u32::MAX);
        Ok(Model { sizes: model.sizes.capped(limit), ..model })
    }

    /// Keys in a multiget: the workload's own, if it has one.
    fn multiget_keys(&self) -> Result<u32, Failure> {
        Ok(self.recipe()?.map_or(self.multiget_keys, |recipe| recipe.multiget_keys))
    }

    fn synthetic_model(&self) -> Result<Model, Failure> {
        let Count(count) = self.keys;
        let usage = |error: &dyn Error| Failure::usage(error.to_string());
        if count == 0 {
            return Err(Failure::usage("--keys must be at least 1"));
        }
        let popularity = match self.zipf {
            None => Popularity::Uniform { count },
            Some(theta) => Popularity::zipf(count, theta).map_err(|error| usage(&error))?,
        };
        let weights = Weights {
            get: self.get,
            lone_get: self.lone_get,
            multiget: self.multiget,
            set: self.set,
            delete: self.delete,
            ..Weights::default()
        };
        let named = count.saturating_mul(if self.lone_get > 0.0 { 2 } else { 1 });
        let Lengths { min, max } = self.key_size;
        let Lengths { min: value_min, max: value_max } = self.value_size;
        let sizes = match &self.value_sizes {
            Some(path) => {
                let text = read(path)?;
                cachelib::sizes(&text).map_err(|error| explained(path, &error))?
            }
            None if value_min == value_max => SizeModel::Constant(value_min),
            None => SizeModel::range(value_min, value_max).map_err(|error| usage(&error))?,
        };
        Ok(Model {
            popularity,
            keys: KeyShape::new(min as usize, max as usize, named).map_err(|error| usage(&error))?,
            sizes,
            mix: Mix::new(&weights).map_err(|error| usage(&error))?,
            expiry: Expiry::after(self.exptime),
            on_miss: if self.fill_misses { OnMiss::Fill } else { OnMiss::Leave },
        })
    }
}

impl Args {
    fn direct(&self) -> Option<Direct> {
        let way = match (&self.local, self.mica) {
            (Some(socket), _) => DatagramWay::Local(socket.clone()),
            (None, Some(addr)) => DatagramWay::Udp(addr),
            (None, None) => return None,
        };
        Some(Direct { way, per_datagram: self.per_datagram })
    }

    fn target(&self) -> Result<Target, Failure> {
        if let Some(direct) = self.direct() {
            return Ok(Target { carrier: Carrier::Mica(direct), ..Target::text(self.server) });
        }
        let protocol = match self.protocol {
            Spoken::Text | Spoken::Udp => Protocol::Text,
            Spoken::Binary => Protocol::Binary,
        };
        let carrier = match (self.protocol, self.tls.trust()?) {
            (Spoken::Text | Spoken::Binary, None) => Carrier::Tcp,
            (Spoken::Text | Spoken::Binary, Some(trust)) => Carrier::Tls(TlsClient::new(trust)?),
            (Spoken::Udp, None) => Carrier::Udp(self.udp_server.unwrap_or(self.server)),
            (Spoken::Udp, Some(_)) => {
                return Err(Failure::usage("TLS over UDP is not supported"));
            }
        };
        Ok(Target { addr: self.server, protocol, carrier })
    }

    fn load(&self) -> Result<Load, Failure> {
        let arrivals = match self.arrivals {
            Arrivals::Poisson => Gaps::Poisson,
            Arrivals::Even => Gaps::Even,
        };
        Ok(Load {
            target: self.target()?,
            threads: self.threads,
            connections: if self.direct().is_some() { self.threads } else { self.connections },
            pipeline: self.pipeline,
            pace: match self.rate {
                None => Pace::Closed,
                Some(Count(rate)) => Pace::Open { rate_per_s: rate as f64, arrivals },
            },
            model: self.items.model()?,
            style: ItemStyle { flags: self.items.flags, multiget_keys: self.items.multiget_keys()? },
            check: match self.items.check_every {
                0 => Check::Framing,
                sample => Check::Contents { sample },
            },
            warmup: self.warmup.0,
            duration: self.duration.0,
            seed: self.seed,
            cores: Vec::new(),
        })
    }
}

/// Runs the load and prints the results.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let load = args.load()?;
    if let Carrier::Tls(tls) = &load.target.carrier {
        eprintln!("{} agreed on {}", load.target.addr, tls.agreed(load.target.addr)?);
    }
    if args.items.preload {
        load.preload(&mut Bar::new("preloading", Total::Operations(load.model.popularity.count())))?
            .require_right()?;
    }
    let outcome =
        load.run(args.server_pid.map(Process::new), &mut Bar::new("measuring", Total::After(load.duration)))?;
    if args.json {
        println!("{}", show::json(&outcome)?);
    } else {
        show::print(&outcome);
    }
    outcome.require_right()?;
    Ok(outcome.require_answered(args.lost_max / 100.0)?)
}
