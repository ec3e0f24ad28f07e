//! The latency that a router adds to a get: an open loop at a tenth of nutcracker's saturated rate.

use std::net::SocketAddr;

use guira_harness::rounds::median_of;
use serde::Serialize;

use super::super::driver::Bench;
use super::contestant::start_server;
use super::{load, loads, preload, start_all};
use crate::counters::Percentiles;
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::{Gaps, Pace};
use crate::reply::Check;
use crate::run::Load;

const NAME: &str = "router-latency";
/// The share of the saturated rate.
const SHARE: f64 = 0.1;
/// The name of a client without a router in tables.
pub(super) const DIRECT: &str = "directly";

/// Latencies of gets through one router, p50 and p99 of each round in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Delayed {
    /// The router, or `directly`.
    pub router: String,
    /// Requests sent per second.
    pub rate_per_s: f64,
    pub rounds: Vec<[f64; 2]>,
}

impl Delayed {
    pub(super) fn medians(&self) -> [f64; 2] {
        std::array::from_fn(|at| median_of(&self.rounds, |round| round[at]))
    }

    /// Medians of the difference to `direct` in the same round.
    pub(super) fn added(&self, direct: &Self) -> [f64; 2] {
        let pairs = || self.rounds.iter().zip(&direct.rounds);
        std::array::from_fn(|at| median_of(pairs(), |(ours, theirs)| ours[at] - theirs[at]))
    }
}

struct Way<'a> {
    name: &'a str,
    addr: SocketAddr,
    check: Check,
}

/// Measures the saturated rate of nutcracker (of the first router, if nutcracker is missing), then
/// all routers and a client without one in turn, in an open loop at a tenth of that rate.
pub(in crate::bench) fn run(bench: &mut Bench<'_>) -> Result<Vec<Delayed>, LoadError> {
    let (options, [spec, ..]) = (bench.options, loads());
    let routers = start_all(bench)?;
    let server = start_server(options)?;
    preload(server.addr(), options)?;
    let peer = routers.iter().find(|router| router.name() == "nutcracker").or(routers.first());
    let Some(peer) = peer else { return Ok(Vec::new()) };
    let saturated = load(&spec, peer.addr(), peer.check(), options, 0).run(None, &mut Quiet)?.per_second();
    let rate_per_s = SHARE * saturated;
    bench.log(&format!("{NAME}: {} is saturated at {saturated:.0} requests per second", peer.name()));
    let check = Check::Contents { sample: super::SAMPLE };
    let mut ways = vec![Way { name: DIRECT, addr: server.addr(), check }];
    ways.extend(routers.iter().map(|router| Way {
        name: router.name(),
        addr: router.addr(),
        check: router.check(),
    }));
    let rounds = bench.alternate(
        NAME,
        &mut ways,
        |way| way.name,
        |way, round| {
            let pace = Pace::Open { rate_per_s, arrivals: Gaps::Poisson };
            let load = Load { pace, ..load(&spec, way.addr, way.check, options, round) };
            let outcome = load.run(None, &mut Quiet)?;
            outcome.require_right()?;
            let Percentiles { p50_us, p99_us, .. } = Percentiles::of(&outcome.counters.get_ns);
            Ok(([p50_us, p99_us], format!("p50 {p50_us:.0} us, p99 {p99_us:.0} us")))
        },
    )?;
    let delayed = |(router, rounds)| Delayed { router, rate_per_s, rounds };
    Ok(rounds.into_iter().map(delayed).collect())
}
