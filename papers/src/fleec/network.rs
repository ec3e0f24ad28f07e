//! Servers with two workers on the machine's two processors, and a client beside them on both.

use std::time::Duration;

use guira_harness::rounds::turns;
use guira_load::engine::Quiet;
use guira_load::floor::Shape;
use guira_load::pace::{Gaps, Pace};
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::{Load, Outcome as Loaded};
use guira_load::server::{Kind, Server, Spec, Wire};
use guira_workload::mix::Weights;
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, SizeModel};

use crate::experiment::{Context, Failure, failed};
use crate::figure::Figure;
use crate::servers;

/// The servers that are compared, and where each is among them.
pub(super) const NAMES: [&str; 4] = ["memcached", "memclock", "fleec", "memc3"];
pub(super) const MEMCACHED: usize = 0;
pub(super) const MEMCLOCK: usize = 1;
pub(super) const FLEEC: usize = 2;

const WORKERS: usize = 2;
pub(super) const CONNECTIONS: usize = 32;

fn kind(context: &Context, server: usize) -> Kind {
    match NAMES[server] {
        "memcached" => servers::memcached(context, "memcached", &[]),
        engine => servers::guira(context, ["--engine", engine].map(str::to_owned).to_vec()),
    }
}

/// What is asked of the servers: 99 reads of a hundred requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) keys: u64,
    pub(super) value: usize,
    pub(super) alpha: f64,
    /// Requests in flight on each connection.
    pub(super) pipeline: usize,
    /// Requests per second; none: as fast as they are answered.
    pub(super) rate: Option<f64>,
    pub(super) duration: Duration,
}

/// What one run of one server came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Thousands of operations per second of the server's processor time, and per second.
    pub(super) per_cpu: f64,
    pub(super) per_second: f64,
    /// Delays of reads, microseconds.
    pub(super) half: f64,
    pub(super) slow: f64,
    /// Waits for locks, and compare-and-swaps lost, in a million operations.
    pub(super) waits: f64,
    pub(super) lost: f64,
}

impl Point {
    fn of(loaded: &Loaded, before: [u64; 2], after: [u64; 2]) -> Self {
        let delay = |quantile| loaded.counters.get_ns.value_at_quantile(quantile) as f64 / 1e3;
        let operations = (loaded.per_second() * loaded.elapsed_s).max(1.0);
        let each = |index: usize| 1e6 * after[index].saturating_sub(before[index]) as f64 / operations;
        Self {
            per_cpu: loaded.per_cpu_second().unwrap_or(0.0) / 1e3,
            per_second: loaded.per_second() / 1e3,
            half: delay(0.5),
            slow: delay(0.99),
            waits: each(0),
            lost: each(1),
        }
    }
}

pub(super) fn figure(points: &[Point], of: impl Fn(&Point) -> f64) -> Figure {
    Figure::of(&points.iter().map(of).collect::<Vec<f64>>())
}

/// Servers that hold what is asked of them.
pub(super) struct Running(Vec<Server>);

impl Running {
    /// Starts all of them with so much memory and stores every key.
    pub(super) fn start(context: &Context, memory: u64, ask: Ask) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for server in 0..NAMES.len() {
            let started = Server::start(&Spec {
                kind: kind(context, server),
                workers: WORKERS,
                memory,
                max_connections: None,
                wire: Wire::Tcp,
                cores: Vec::new(),
                shape: Shape { key_len: 16, value_len: ask.value },
            })?;
            load(context, &started, ask, 0)?.preload(&mut Quiet)?.require_right()?;
            all.push(started);
        }
        Ok(Self(all))
    }

    /// Asks all of them in turn: points by server, then by run.
    pub(super) fn ask(&self, context: &Context, ask: Ask) -> Result<Vec<Vec<Point>>, Failure> {
        let mut points = vec![Vec::new(); self.0.len()];
        for run in 0..context.runs as usize {
            for index in turns(run, self.0.len()) {
                let server = &self.0[index];
                let load = load(context, server, ask, run as u64)?;
                let before = waited(index, server)?;
                let loaded = load.run(Some(server.process()), &mut Quiet)?;
                loaded.require_right()?;
                points[index].push(Point::of(&loaded, before, waited(index, server)?));
            }
        }
        Ok(points)
    }
}

/// Waits for locks and lost compare-and-swaps so far; memcached does not tell.
fn waited(index: usize, server: &Server) -> Result<[u64; 2], Failure> {
    if index == MEMCACHED {
        return Ok([0; 2]);
    }
    Ok([server.stat("lock_waits")?, server.stat("swaps_lost")?])
}

fn load(context: &Context, server: &Server, ask: Ask, run: u64) -> Result<Load, Failure> {
    let weights = Weights { get: 0.99, set: 0.01, ..Weights::default() };
    let pace = ask.rate.map_or(Pace::Closed, |rate_per_s| Pace::Open { rate_per_s, arrivals: Gaps::Poisson });
    Ok(Load {
        target: server.target(Protocol::Text),
        threads: 2,
        connections: CONNECTIONS,
        pipeline: ask.pipeline,
        pace,
        model: Model {
            popularity: Popularity::zipf(ask.keys, ask.alpha).map_err(failed)?,
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(ask.value as u32),
            mix: Mix::new(&weights).map_err(failed)?,
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        },
        style: ItemStyle { flags: 0, multiget_keys: 1 },
        check: Check::Contents { sample: 64 },
        warmup: ask.duration / 5,
        duration: ask.duration,
        seed: context.seed + run,
        cores: Vec::new(),
    })
}
