//! The open loop: latencies at half the rate at which memcached is saturated.

use guira_harness::rounds::{median, turns};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::loads::LoadSpec;
use super::{Options, load_for, preloaded};
use crate::counters::{Counters, Percentiles};
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::{Gaps, Pace};
use crate::run::Load;
use crate::server::{GUIRA, Server};

/// One point of a latency curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The share of requests that were no slower.
    pub quantile: f64,
    /// The latency in microseconds.
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

/// Measures the saturated rate of the first memcached under `spec` (Guira's, if it is alone), then all caches, alternating, in an open loop at half of it.
///
/// # Errors
/// When a server cannot be started, a load fails, or a cache answers wrongly.
pub fn run(
    spec: &LoadSpec,
    options: &Options,
    log: &mut dyn FnMut(&str),
) -> Result<Vec<Latencies>, LoadError> {
    let mut servers: Vec<Server> = Vec::new();
    for kind in options.servers.iter().filter(|kind| kind.is_cache()) {
        log(&format!("open: starting {} and setting {} keys", kind.name(), spec.data.keys));
        servers.push(preloaded(spec, kind, options)?);
    }
    let peer = servers.iter().find(|server| server.name() != GUIRA).or(servers.first());
    let Some(peer) = peer else {
        return Err(LoadError::Options("the open loop needs a cache among the servers".to_owned()));
    };
    let saturated = load_for(spec, peer, options, 0).run(None, &mut Quiet)?.per_second();
    let rate_per_s = saturated / 2.0;
    log(&format!("open: {} is saturated at {saturated:.0} requests per second", peer.name()));
    let mut all: Vec<(Counters, Vec<f64>)> = servers.iter().map(|_| Default::default()).collect();
    for round in 0..options.rounds {
        for index in turns(round, servers.len()) {
            let server = &servers[index];
            let pace = Pace::Open { rate_per_s, arrivals: Gaps::Poisson };
            let load = Load { pace, ..load_for(spec, server, options, round) };
            let outcome = load.run(None, &mut Quiet)?;
            outcome.require_right()?;
            let p999_us = Percentiles::of(&outcome.counters.get_ns).p999_us;
            log(&format!(
                "open: round {} of {}: {:<9} p99.9 {p999_us:.0} us",
                round + 1,
                options.rounds,
                server.name()
            ));
            all[index].0.merge(&outcome.counters);
            all[index].1.push(p999_us);
        }
    }
    Ok(servers
        .iter()
        .zip(all)
        .map(|(server, (counters, p999_us_rounds))| Latencies {
            server: server.name().to_owned(),
            rate_per_s,
            p999_us_rounds,
            all: Percentiles::of(&counters.get_ns),
            curve: curve(&counters.get_ns),
        })
        .collect())
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
