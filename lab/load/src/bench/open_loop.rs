//! The open loop: latencies at half the rate at which memcached is saturated.

use guira_harness::rounds::median;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::columns::rows;
use super::driver::Bench;
use super::{load_for, loads};
use crate::counters::{Counters, Percentiles};
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::{Gaps, Pace};
use crate::run::Load;
use crate::server::{GUIRA, Server, Wire};

const NAME: &str = "open";
/// The caption of the table.
pub(super) const CAPTION: &str =
    "Open loop, latencies in µs from the moment a request should have been sent.";

/// One point of a latency curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The share of requests that were at most this slow.
    pub quantile: f64,
    pub latency_us: f64,
}

/// Latencies of one server in the open loop.
#[derive(Debug, Clone, Serialize)]
pub struct Latencies {
    pub server: String,
    /// Requests per second that were sent.
    pub rate_per_s: f64,
    /// p99.9 of each round in microseconds.
    pub p999_us_rounds: Vec<f64>,
    pub all: Percentiles,
    pub curve: Vec<Point>,
}

impl Latencies {
    /// The median over the rounds of p99.9, in microseconds.
    #[must_use]
    pub fn p999_us(&self) -> f64 {
        median(&self.p999_us_rounds)
    }
}

/// Measures the saturated rate of the first memcached with one get in flight (Guira's, if it is alone), then all caches, alternating, in an open loop at half of it.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Latencies>, LoadError> {
    let (spec, options) = (loads::named("get1")?, bench.options);
    let kinds = bench.caches(NAME, Wire::Tcp);
    let mut servers = bench.start(NAME, &spec, &kinds)?;
    let peer = servers.iter().find(|server| server.name() != GUIRA).or(servers.first());
    let Some(peer) = peer else {
        return Err(LoadError::Options("the open loop needs a cache among the servers".to_owned()));
    };
    let saturated = load_for(&spec, peer, options, 0).run(None, &mut Quiet)?.per_second();
    let rate_per_s = saturated / 2.0;
    bench.log(&format!("open: {} is saturated at {saturated:.0} requests per second", peer.name()));
    let rounds = bench.alternate(NAME, &mut servers, Server::name, |server, round| {
        let pace = Pace::Open { rate_per_s, arrivals: Gaps::Poisson };
        let outcome = Load { pace, ..load_for(&spec, server, options, round) }.run(None, &mut Quiet)?;
        outcome.require_right()?;
        let p999_us = Percentiles::of(&outcome.counters.get_ns).p999_us;
        Ok(((outcome.counters, p999_us), format!("p99.9 {p999_us:.0} us")))
    })?;
    let latencies = |(server, rounds): (String, Vec<(Counters, f64)>)| {
        let mut all = Counters::default();
        rounds.iter().for_each(|(counters, _)| all.merge(counters));
        Latencies {
            server,
            rate_per_s,
            p999_us_rounds: rounds.iter().map(|(_, p999_us)| *p999_us).collect(),
            all: Percentiles::of(&all.get_ns),
            curve: curve(&all.get_ns),
        }
    };
    Ok(rounds.into_iter().map(latencies).collect())
}

pub(super) fn table(results: &[Latencies]) -> String {
    rows(
        results,
        &[
            ("server", &|result| result.server.clone()),
            ("requests/s", &|result| format!("{:.0}", result.rate_per_s)),
            ("p50", &|result| format!("{:.0}", result.all.p50_us)),
            ("p90", &|result| format!("{:.0}", result.all.p90_us)),
            ("p99", &|result| format!("{:.0}", result.all.p99_us)),
            ("p99.9", &|result| format!("{:.0}", result.all.p999_us)),
            ("p99.9, median of rounds", &|result| format!("{:.0}", result.p999_us())),
            ("max", &|result| format!("{:.0}", result.all.max_us)),
        ],
    )
}

/// The latency curve, denser towards the tail, down to the share of a single request.
fn curve(latencies: &Histogram<u64>) -> Vec<Point> {
    let mut points = Vec::new();
    let mut slower = 1.0;
    while slower * latencies.len() as f64 >= 1.0 {
        let quantile = 1.0 - slower;
        points.push(Point { quantile, latency_us: latencies.value_at_quantile(quantile) as f64 / 1e3 });
        slower *= 0.8;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::curve;
    use crate::counters::histogram;

    #[test]
    fn the_curve_rises_and_ends_where_requests_do() {
        let mut latencies = histogram();
        (1..=1000).for_each(|us| latencies.saturating_record(us * 1000));
        let points = curve(&latencies);
        assert!(points.windows(2).all(|pair| pair[0].latency_us <= pair[1].latency_us));
        assert!(points.last().unwrap().quantile <= 0.999);
        assert!(points.last().unwrap().latency_us > 990.0);
    }
}
