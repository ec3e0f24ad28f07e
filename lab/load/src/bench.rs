//! The bench: the same loads against several servers, alternating, measured in operations per second of the
//! server's processor time.
//!
//! Processor time and not time: client and server share a machine, so how fast the clock's second passes depends on
//! both; what the server spent for an operation does not. The servers take turns within a round, so that a change of
//! the machine's mood meets all of them, and the figure is the median of the rounds. Loads that need UDP or TLS leave out
//! servers whose help does not name it.

pub(crate) mod columns;
pub mod delete_prefix;
mod driver;
pub mod dump;
pub mod fairness;
pub mod idle;
pub mod instructions;
pub mod loads;
pub mod machine;
pub mod memory;
pub mod misses;
pub mod open_loop;
pub mod parameters;
pub mod parts;
pub mod plot;
pub mod report;
pub mod routers;
pub mod selection;
pub mod table;
pub mod takeover;

use std::time::Duration;

use guira_harness::rounds::median;
use guira_workload::KeyShape;
use serde::Serialize;

use crate::engine::Quiet;
use crate::error::LoadError;
use crate::floor::Shape;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::{Load, Outcome};
use crate::server::{FLOOR, Kind, Server, Spec};
use crate::target::Target;
use delete_prefix::Deleted;
use driver::Bench;
use dump::Dumped;
use fairness::Contended;
use idle::Idle;
use instructions::Counted;
use loads::{DataSet, LoadSpec};
use memory::Held;
use misses::Missed;
use open_loop::Latencies;
use routers::{Routed, Router};
use selection::Selection;
use takeover::TakenOver;

/// One value in this many has its contents compared; every length is.
const SAMPLE: u32 = 64;
/// The share of requests over UDP that may get lost.
pub const LOST_MAX: f64 = 0.001;

#[derive(Debug, Clone)]
pub struct Options {
    /// The servers, in the order of their turns.
    pub servers: Vec<Kind>,
    /// The routers, in the order of their turns.
    pub routers: Vec<Router>,
    /// Rounds; the figure is their median.
    pub rounds: usize,
    /// Time before each measured part.
    pub warmup: Duration,
    /// Length of each measured part.
    pub duration: Duration,
    /// Processors of a server with one worker; empty for all.
    pub server_cores: Vec<usize>,
    /// Processors of the client; empty for all.
    pub client_cores: Vec<usize>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The results of one server under one load, by round.
#[derive(Debug, Clone)]
pub struct Series {
    pub server: String,
    pub rounds: Vec<Outcome>,
}

/// The results of all servers under one load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    pub spec: LoadSpec,
    pub series: Vec<Series>,
}

/// Everything that a bench measured, by the names in `results.json`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Results {
    /// Operations per second of processor time.
    #[serde(serialize_with = "report::raw_loads")]
    pub loads: Vec<LoadResult>,
    pub open: Vec<Latencies>,
    pub memory: Vec<Held>,
    /// Items held at equal resident size.
    pub equal: Vec<Held>,
    pub idle: Vec<Idle>,
    /// Loads during dumps of all keys.
    pub dumped: Vec<Dumped>,
    /// A client with few requests among clients with many.
    #[serde(rename = "beside")]
    pub fairness: Vec<Contended>,
    /// Misses of real traces at equal resident size.
    pub missed: Vec<Missed>,
    /// Deletes by prefix under load.
    pub deleted: Vec<Deleted>,
    pub taken_over: Vec<TakenOver>,
    pub counted: Vec<Counted>,
    pub routed: Routed,
}

impl Series {
    /// Operations per second of the server's processor time, one figure for each round.
    #[must_use]
    pub fn figures(&self) -> Vec<f64> {
        self.rounds.iter().filter_map(Outcome::per_cpu_second).collect()
    }

    #[must_use]
    pub fn median(&self) -> f64 {
        median(&self.figures())
    }

    /// How far the rounds lie apart: largest less smallest, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let figures = self.figures();
        let largest = figures.iter().copied().fold(0.0, f64::max);
        let smallest = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let median = median(&figures);
        if median > 0.0 { (largest - smallest) / median } else { 0.0 }
    }
}

impl LoadResult {
    /// The series of the server called `server`.
    #[must_use]
    pub fn of(&self, server: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.server == server)
    }

    /// The median of `server` as a multiple of that of `other`.
    #[must_use]
    pub fn ratio(&self, server: &str, other: &str) -> Option<f64> {
        let (server, other) = (self.of(server)?.median(), self.of(other)?.median());
        (other > 0.0).then(|| server / other)
    }
}

/// Servers that hold the same data.
struct Fleet {
    data: DataSet,
    servers: Vec<Server>,
}

/// Runs everything that was selected, and reports each step to `log`.
///
/// # Errors
/// When a server cannot be started, a load fails, or a cache answers wrongly.
pub fn run(
    selection: &Selection,
    options: &Options,
    log: &mut dyn FnMut(&str),
) -> Result<Results, LoadError> {
    let mut bench = Bench { parameters: &selection.parameters, options, log };
    let mut results = Results { loads: run_loads(&selection.loads, &mut bench)?, ..Results::default() };
    for part in &selection.parts {
        (part.run)(&mut bench, &mut results)?;
    }
    results.routed.loads = routers::run(&selection.routed, &mut bench)?;
    Ok(results)
}

fn run_loads(specs: &[LoadSpec], bench: &mut Bench<'_>) -> Result<Vec<LoadResult>, LoadError> {
    let mut fleet: Option<Fleet> = None;
    let mut results = Vec::new();
    for spec in specs {
        let fresh = match fleet.take() {
            Some(fleet) if fleet.data == spec.data => fleet,
            // The old servers stop before the new ones start: both would not always fit into memory.
            _ => {
                let kinds = bench.servers(spec.name, spec.data.wire);
                Fleet { data: spec.data.clone(), servers: bench.start(spec.name, spec, &kinds)? }
            }
        };
        let fresh = fleet.insert(fresh);
        if !fresh.servers.is_empty() {
            results.push(run_load(spec, fresh, bench)?);
        }
    }
    Ok(results)
}

/// Starts a server and gives it the load's keys, if it stores any.
fn preloaded(spec: &LoadSpec, kind: &Kind, options: &Options) -> Result<Server, LoadError> {
    let server = Server::start(&server_spec(spec, kind, options))?;
    if kind.is_cache() {
        let load = load_for(spec, &server, options, 0);
        load.preload(&mut Quiet)?.require_right()?;
        if spec.settle > 0 {
            load.settle(spec.settle, &mut Quiet)?.require_right()?;
        }
    }
    Ok(server)
}

fn server_spec(spec: &LoadSpec, kind: &Kind, options: &Options) -> Spec {
    let cores: &[usize] = if spec.data.workers == 1 { &options.server_cores } else { &[] };
    Spec {
        workers: spec.data.workers,
        wire: spec.data.wire,
        shape: Shape { key_len: 16, value_len: spec.data.sizes.mean().round() as usize },
        ..Spec::new(kind.clone(), spec.data.memory, cores)
    }
}

fn load_for(spec: &LoadSpec, server: &Server, options: &Options, round: usize) -> Load {
    let check = if server.name() == FLOOR { Check::Framing } else { Check::Contents { sample: SAMPLE } };
    load_to(spec, server.target(spec.protocol), check, options, round)
}

fn load_to(spec: &LoadSpec, target: Target, check: Check, options: &Options, round: usize) -> Load {
    Load {
        connections: spec.connections,
        pipeline: spec.pipeline,
        style: ItemStyle { flags: 0, multiget_keys: spec.multiget_keys },
        check,
        warmup: options.warmup,
        duration: options.duration,
        cores: options.client_cores.clone(),
        ..Load::new(target, spec.model(KeyShape::sixteen()), options.seed.wrapping_add(round as u64))
    }
}

fn run_load(spec: &LoadSpec, fleet: &mut Fleet, bench: &mut Bench<'_>) -> Result<LoadResult, LoadError> {
    let options = bench.options;
    let rounds = bench.alternate(spec.name, &mut fleet.servers, Server::name, |server, round| {
        let outcome = load_for(spec, server, options, round).run(Some(server.process()), &mut Quiet)?;
        outcome.require_right()?;
        outcome.require_answered(LOST_MAX)?;
        let line = format!(
            "{:.3} M operations per CPU second, {:.3} M per second",
            outcome.per_cpu_second().unwrap_or(0.0) / 1e6,
            outcome.per_second() / 1e6,
        );
        Ok((outcome, line))
    })?;
    let series = rounds.into_iter().map(|(server, rounds)| Series { server, rounds }).collect();
    Ok(LoadResult { spec: spec.clone(), series })
}
