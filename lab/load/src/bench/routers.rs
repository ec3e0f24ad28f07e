//! Compares routers: the cost of forwarding a key, for the router and for the servers behind it.
//!
//! Each router has four servers of its own, with one worker each, and sets the keys through itself.
//! The forwarding floor spreads clients and not keys, so that each of its servers is given all
//! keys; the plain floor has no servers. Processes are not pinned: a router, its servers and the
//! client are more processes than most machines have processors.

mod contestant;
mod idle;
mod latency;
mod table;

use std::io;

use guira_harness::process::Process;
use guira_harness::rounds::median_of;
use guira_workload::Operation;
use serde::Serialize;

use super::driver::Bench;
use super::idle::Idle;
use super::loads::{DataSet, LoadSpec, small, uniform};
use super::{Options, SAMPLE, load_to};
use crate::counters::Percentiles;
use crate::engine::{Observer, Quiet};
use crate::error::LoadError;
use crate::reply::Check;
use crate::run::{Load, Outcome};
use crate::target::Target;
use contestant::Running;
pub use contestant::{Binaries, Router, named};
pub(super) use idle::run as idle;
pub use latency::Delayed;
pub(super) use latency::run as latency;
pub(super) use table::table;

const KEYS: u64 = 10_000;

/// Notes for readers of the tables of routers.
pub(super) const NOTES: &str = "
How to read the routers: the figure is keys of gets divided by what the router's process spent, user and system time. Every
router has four servers of its own and set 10,000 keys of 16 bytes with values of 32 through itself; every reply was
compared as in the loads of servers, but for those of the floor, which makes them up. nutcracker runs with ketama,
fnv1a_64, preconnect and one connection to a server, and ejects none; `guira router` with one worker. `relay` has a
connection to one server for each client, in turn: it never sends the requests of two clients at once, which a router may
do, and so it can cost more than a router. Routers, servers and client were kept on no processor.
";

/// All results of routers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Routed {
    pub loads: Vec<Forwarded>,
    pub latency: Vec<Delayed>,
    pub idle: Vec<Idle>,
}

/// The result of one router under one load.
#[derive(Debug, Clone, Serialize)]
pub struct Forwarded {
    pub load: &'static str,
    pub router: String,
    pub rounds: Vec<Round>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Round {
    /// Requested keys per second of the router's processor time.
    pub keys_per_cpu_s: f64,
    /// Requested keys per second.
    pub keys_per_s: f64,
    /// Processor time of the servers behind for each key, in microseconds.
    pub behind_us: f64,
    /// Latency of a get, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    pub misses: u64,
}

impl Routed {
    /// Whether no router was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty() && self.latency.is_empty() && self.idle.is_empty()
    }
}

impl Forwarded {
    /// The median of a figure over the rounds.
    pub(super) fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        median_of(&self.rounds, figure)
    }
}

/// The loads of routers, in the order in which they run.
pub(super) fn loads() -> [LoadSpec; 3] {
    let data = || DataSet { keys: KEYS, ..small() };
    [
        LoadSpec {
            connections: 50,
            ..uniform("router-get1", "50 connections, one get in flight on each", data(), Operation::Get)
        },
        LoadSpec {
            pipeline: 32,
            ..uniform("router-get32", "16 connections, 32 gets pipelined", data(), Operation::Get)
        },
        uniform(
            "router-mget100",
            "16 connections, one get of 100 keys in flight",
            data(),
            Operation::Multiget,
        ),
    ]
}

/// Measures all routers in turn under each of the loads.
pub(super) fn run(specs: &[LoadSpec], bench: &mut Bench<'_>) -> Result<Vec<Forwarded>, LoadError> {
    let mut forwarded = Vec::new();
    if !specs.is_empty() {
        let mut routers = start_all(bench)?;
        for spec in specs {
            forwarded.extend(run_load(spec, &mut routers, bench)?);
        }
    }
    Ok(forwarded)
}

/// The version of each router, as its binary prints it, and those of the servers behind them.
#[must_use]
pub fn versions(options: &Options) -> Vec<(String, String)> {
    let behind = super::machine::versions(std::slice::from_ref(contestant::behind(options)));
    let behind = behind.into_iter().map(|(name, version)| (format!("behind routers, {name}"), version));
    let there = options.routers.iter().filter(|kind| kind.is_installed());
    there.map(|kind| (kind.name().to_owned(), kind.version())).chain(behind).collect()
}

fn is_there(kind: &Router, log: &mut dyn FnMut(&str)) -> bool {
    let installed = kind.is_installed();
    if !installed {
        log(&format!("routers: skipped {}: not installed", kind.name()));
    }
    installed
}

/// The routers that are installed; the others are skipped with a notice.
fn kinds<'a>(bench: &mut Bench<'a>) -> Vec<&'a Router> {
    let options = bench.options;
    options.routers.iter().filter(|kind| is_there(kind, bench.log)).collect()
}

fn start_all(bench: &mut Bench<'_>) -> Result<Vec<Running>, LoadError> {
    let mut routers = Vec::new();
    for kind in kinds(bench) {
        bench.log(&format!("routers: starting {} and setting {KEYS} keys", kind.name()));
        routers.push(started(kind, bench.options)?);
    }
    Ok(routers)
}

/// Starts a router with its servers, and sets the keys.
fn started(kind: &Router, options: &Options) -> Result<Running, LoadError> {
    let router = Running::start(kind, options)?;
    for addr in router.preloaded_at() {
        preload(addr, options)?;
    }
    Ok(router)
}

fn preload(addr: std::net::SocketAddr, options: &Options) -> Result<(), LoadError> {
    let [spec, ..] = loads();
    let check = Check::Contents { sample: SAMPLE };
    load(&spec, addr, check, options, 0).preload(&mut Quiet)?.require_right()
}

fn load(spec: &LoadSpec, addr: std::net::SocketAddr, check: Check, options: &Options, round: usize) -> Load {
    Load { cores: Vec::new(), ..load_to(spec, Target::text(addr), check, options, round) }
}

fn run_load(
    spec: &LoadSpec,
    routers: &mut [Running],
    bench: &mut Bench<'_>,
) -> Result<Vec<Forwarded>, LoadError> {
    let options = bench.options;
    let rounds = bench.alternate(spec.name, routers, Running::name, |router, round| {
        let measured = measure(spec, router, options, round)?;
        let (per_cpu_s, per_s) = (measured.keys_per_cpu_s / 1e6, measured.keys_per_s / 1e6);
        Ok((measured, format!("{per_cpu_s:.3} M keys per CPU second, {per_s:.3} M per second")))
    })?;
    let forwarded = |(router, rounds)| Forwarded { load: spec.name, router, rounds };
    Ok(rounds.into_iter().map(forwarded).collect())
}

fn measure(spec: &LoadSpec, router: &Running, options: &Options, round: usize) -> Result<Round, LoadError> {
    let mut behind = Behind { servers: router.servers(), from: Ok(0), to: Ok(0) };
    let load = load(spec, router.addr(), router.check(), options, round);
    let outcome = load.run(Some(router.process()), &mut behind)?;
    outcome.require_right()?;
    Ok(Round { behind_us: behind.us()? / keys(&outcome), ..Round::of(&outcome) })
}

fn keys(outcome: &Outcome) -> f64 {
    outcome.counters.counts.gets.max(1) as f64
}

impl Round {
    fn of(outcome: &Outcome) -> Self {
        let (counts, latency) = (&outcome.counters.counts, Percentiles::of(&outcome.counters.get_ns));
        Self {
            keys_per_cpu_s: keys(outcome) / outcome.server_cpu_s.unwrap_or(0.0).max(1e-9),
            keys_per_s: keys(outcome) / outcome.elapsed_s.max(1e-9),
            behind_us: 0.0,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            misses: counts.gets - counts.hits,
        }
    }
}

/// Reads the processor time of the servers behind a router at both ends of the measured part.
struct Behind {
    servers: Vec<Process>,
    from: io::Result<u64>,
    to: io::Result<u64>,
}

impl Behind {
    fn cpu_ns(&self) -> io::Result<u64> {
        self.servers.iter().map(Process::cpu_ns).sum()
    }

    /// The time between both ends, in microseconds.
    fn us(self) -> Result<f64, LoadError> {
        let system = LoadError::system("cannot read the processor time of the servers behind a router");
        let (from, to) = (self.from.map_err(&system)?, self.to.map_err(&system)?);
        Ok(to.saturating_sub(from) as f64 / 1e3)
    }
}

impl Observer for Behind {
    fn started(&mut self) {
        self.from = self.cpu_ns();
    }

    fn ended(&mut self) {
        self.to = self.cpu_ns();
    }
}

#[cfg(test)]
mod tests;
