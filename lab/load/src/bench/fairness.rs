//! The latency of a client with few requests while other clients send many.
//!
//! It has four connections with one get in flight on each. During a storm it sends by a timetable,
//! and latencies count from the time at which a get was due: otherwise a server that is stuck for
//! half a second would count as slow for four gets only. The other clients have connections of
//! their own to the same server, which has two workers. First they send as much as the server
//! takes. Then they send the same rate to every server, a share of what the first memcached could
//! serve, so that no server looks better by making its other clients wait.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use guira_harness::rounds::median_of;
use guira_workload::{KeyShape, Mix, Operation, Popularity, SizeModel, mix::Weights};
use serde::Serialize;

use super::columns::{missing, rows, significant};
use super::driver::Bench;
use super::dump::{Pauses, during_dumps};
use super::idle::allow_files;
use super::loads::{DataSet, LoadSpec, small, uniform};
use super::parameters::Scale;
use super::{Options, load_for};
use crate::clock::{Clock, MonotonicClock};
use crate::counters::Percentiles;
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::{Gaps, Pace};
use crate::run::{Load, Outcome};
use crate::server::{GUIRA, Server, Wire};

/// The share of memcached's capacity that all servers are sent.
const SHARE: f64 = 0.9;
/// Requests that the client with many small gets sends together.
const TOGETHER: u32 = 1000;

/// Gets per second of the measured client during a storm.
const LITTLE_PER_S: f64 = 4000.0;

const LONG_KEYS: u64 = 20;
const LONG_LEN: u32 = 1_048_000;
/// Longer than the keys of small items, so that no key has both a long and a short value.
const LONG_KEY_LEN: usize = 20;

const CROWD: usize = 500;
/// The number of long values that each client of the crowd requests.
const REQUESTED: usize = 4;
const STORM: Duration = Duration::from_millis(500);
/// How often a storm checks its end.
const LOOK: Duration = Duration::from_millis(10);

const NAME: &str = "fairness";
/// The text above the table.
pub(super) const CAPTION: &str = "A client with one get in flight on each of four connections, beside others: its latencies in µs, medians of the rounds; beside 500 that do not read \
    it has 4,000 gets per second by a timetable, and latencies count from when each was due. \
    The others go as fast as they can (free), or on every server at a pace that memcached can go (equal).";

/// The number of short items on each server, next to the long ones.
pub(super) const fn keys(scale: Scale) -> u64 {
    scale.part(500_000)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    None,
    Gets,
    Dumps,
    Mixture,
    Storm,
}

impl Other {
    const ALL: [Self; 5] = [Self::None, Self::Gets, Self::Dumps, Self::Mixture, Self::Storm];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "nobody",
            Self::Gets => "small gets, pipelined",
            Self::Dumps => "metadump",
            Self::Mixture => "long gets and sets, and small gets",
            Self::Storm => "500 that do not read",
        }
    }

    /// Whether the clients can send at a given rate.
    const fn has_pace(self) -> bool {
        matches!(self, Self::Gets | Self::Dumps | Self::Mixture)
    }

    /// The pace of the measured client.
    fn pace_of_little(self) -> Pace {
        match self {
            Self::Storm => Pace::Open { rate_per_s: LITTLE_PER_S, arrivals: Gaps::Poisson },
            Self::None | Self::Gets | Self::Dumps | Self::Mixture => Pace::Closed,
        }
    }

    fn loads(
        self,
        spec: &LoadSpec,
        server: &Server,
        options: &Options,
        round: usize,
    ) -> Result<Vec<Load>, LoadError> {
        let of = |spec: &LoadSpec| Load { cores: Vec::new(), ..load_for(spec, server, options, round) };
        let gets = |connections| {
            let pipeline = TOGETHER as usize;
            of(&LoadSpec { connections, pipeline, ..spec.clone() })
        };
        Ok(match self {
            Self::Gets => vec![gets(4)],
            Self::Mixture => vec![long(&of(spec))?, gets(2)],
            Self::None | Self::Dumps | Self::Storm => Vec::new(),
        })
    }
}

/// The latencies of the measured client in one round, and what the other clients received in that
/// time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Round {
    pub latency: Percentiles,
    /// Per second, for each of the other clients: requests, dumps, or connections.
    pub others_per_s: Vec<f64>,
    /// Bytes per second that were sent to them and received from them.
    pub others_bytes_per_s: f64,
}

/// All rounds of one server with one kind of other clients.
#[derive(Debug, Clone, Serialize)]
pub struct Contended {
    pub other: &'static str,
    pub pace: &'static str,
    pub server: String,
    pub rounds: Vec<Round>,
}

impl Contended {
    /// The median of a figure over the rounds.
    #[must_use]
    pub fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median_of(&self.rounds, figure)
    }

    /// Per second, for each of the other clients: medians of the rounds.
    pub(super) fn rates(&self) -> Vec<f64> {
        let others = self.rounds.first().map_or(0, |round| round.others_per_s.len());
        (0..others).map(|index| self.median(|round| round.others_per_s[index])).collect()
    }
}

fn spec(keys: u64) -> LoadSpec {
    let data = DataSet { keys, workers: 2, ..small() };
    LoadSpec { connections: 4, ..uniform(NAME, "", data, Operation::Get) }
}

/// Gets and sets of long values over two connections.
fn long(load: &Load) -> Result<Load, LoadError> {
    let mut load = Load { connections: 2, pipeline: 1, ..load.clone() };
    let sense = |error: &dyn std::error::Error| LoadError::Options(error.to_string());
    load.model.keys = KeyShape::new(LONG_KEY_LEN, LONG_KEY_LEN, LONG_KEYS).map_err(|error| sense(&error))?;
    load.model.popularity = Popularity::Uniform { count: LONG_KEYS };
    load.model.sizes = SizeModel::Constant(LONG_LEN);
    load.model.mix =
        Mix::new(&Weights { get: 0.5, set: 0.5, ..Weights::default() }).map_err(|error| sense(&error))?;
    Ok(load)
}

/// Measures all caches in turn with each kind of other clients: first at their full speed, then at
/// a pace that memcached can serve.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Contended>, LoadError> {
    allow_files(2 * CROWD)?;
    let spec = spec(keys(bench.scale()));
    let kinds = bench.caches(NAME, Wire::Tcp);
    let mut servers = bench.start(NAME, &spec, &kinds)?;
    for server in &servers {
        long(&load_for(&spec, server, bench.options, 0))?.preload(&mut Quiet)?.require_right()?;
    }
    let mut results = Vec::new();
    for other in Other::ALL {
        let free = rounds(&spec, other, None, &mut servers, bench)?;
        let peer = free.iter().find(|contended| contended.server != GUIRA).or(free.first());
        let rates: Option<Vec<f64>> = peer
            .filter(|_| other.has_pace())
            .map(|peer| peer.rates().iter().map(|rate| SHARE * rate).collect());
        results.extend(free);
        if let Some(rates) = rates {
            results.extend(rounds(&spec, other, Some(&rates), &mut servers, bench)?);
        }
    }
    Ok(results)
}

/// All rounds with `other`, at these rates if there are any.
fn rounds(
    spec: &LoadSpec,
    other: Other,
    rates: Option<&[f64]>,
    servers: &mut [Server],
    bench: &mut Bench<'_>,
) -> Result<Vec<Contended>, LoadError> {
    let (options, pace) = (bench.options, if rates.is_some() { "equal" } else { "free" });
    let part = format!("{NAME}: beside {} ({pace})", other.name());
    let rounds = bench.alternate(&part, servers, Server::name, |server, round| {
        let measured = measure(spec, other, rates, server, options, round)?;
        let line = format!("p99 {:.0} us", measured.latency.p99_us);
        Ok((measured, line))
    })?;
    let contended = |(server, rounds)| Contended { other: other.name(), pace, server, rounds };
    Ok(rounds.into_iter().map(contended).collect())
}

fn measure(
    spec: &LoadSpec,
    other: Other,
    rates: Option<&[f64]>,
    server: &Server,
    options: &Options,
    round: usize,
) -> Result<Round, LoadError> {
    let little = Load {
        cores: Vec::new(),
        pace: other.pace_of_little(),
        seed: options.seed.wrapping_add(1 << 32),
        ..load_for(spec, server, options, round)
    };
    let little = || right(&little);
    match other {
        Other::None | Other::Gets | Other::Mixture => {
            let mut loads = other.loads(spec, server, options, round)?;
            for (load, rate) in loads.iter_mut().zip(rates.unwrap_or_default()) {
                let together = if load.pipeline > 1 { TOGETHER } else { 1 };
                load.pace = Pace::Open { rate_per_s: *rate, arrivals: Gaps::Batches(together) };
            }
            during_loads(&loads, little)
        }
        Other::Dumps => {
            let every = rates.and_then(<[f64]>::first).map(|rate| Duration::from_secs_f64(1.0 / rate));
            let pauses = every.map_or(Pauses::None, Pauses::Every);
            let (outcome, listed) = during_dumps(server.addr(), &[], pauses, little)?;
            let seconds = median_of(&listed, |dump| dump.seconds);
            let rate = 1.0 / seconds.max(every.unwrap_or_default().as_secs_f64()).max(1e-9);
            let bytes = median_of(&listed, |dump| dump.bytes as f64);
            Ok(Round::of(&outcome, vec![rate], rate * bytes))
        }
        Other::Storm => during_storm(server.addr(), spec.data.keys, little),
    }
}

pub(super) fn table(results: &[Contended]) -> String {
    let of = |contended: &Contended, figure: fn(&Percentiles) -> f64| {
        format!("{:.0}", contended.median(|round| figure(&round.latency)))
    };
    rows(
        results,
        &[
            ("beside", &|contended| contended.other.to_owned()),
            ("pace", &|contended| contended.pace.to_owned()),
            ("server", &|contended| contended.server.clone()),
            ("p50", &|contended| of(contended, |latency| latency.p50_us)),
            ("p99", &|contended| of(contended, |latency| latency.p99_us)),
            ("p99.9", &|contended| of(contended, |latency| latency.p999_us)),
            ("max", &|contended| of(contended, |latency| latency.max_us)),
            ("the others, per second", &|contended| {
                let rates: Vec<String> = contended.rates().iter().map(|rate| significant(*rate, 3)).collect();
                if rates.is_empty() { missing() } else { rates.join(" + ") }
            }),
            ("their MB/s", &|contended| {
                format!("{:.0}", contended.median(|round| round.others_bytes_per_s) / 1e6)
            }),
        ],
    )
}

impl Round {
    fn of(little: &Outcome, others_per_s: Vec<f64>, others_bytes_per_s: f64) -> Self {
        Self { latency: Percentiles::of(&little.counters.get_ns), others_per_s, others_bytes_per_s }
    }
}

fn right(load: &Load) -> Result<Outcome, LoadError> {
    let outcome = load.run(None, &mut Quiet)?;
    outcome.require_right()?;
    Ok(outcome)
}

fn during_loads(
    loads: &[Load],
    little: impl FnOnce() -> Result<Outcome, LoadError>,
) -> Result<Round, LoadError> {
    thread::scope(|scope| {
        let others: Vec<_> = loads.iter().map(|load| scope.spawn(move || right(load))).collect();
        let outcome = little();
        let (mut rates, mut bytes) = (Vec::new(), 0.0);
        for other in others {
            let other =
                other.join().map_err(|_| LoadError::Options("a load thread panicked".to_owned()))??;
            rates.push(other.per_second());
            let counts = &other.counters.counts;
            bytes += (counts.bytes_in + counts.bytes_out) as f64 / other.elapsed_s.max(1e-9);
        }
        Ok(Round::of(&outcome?, rates, bytes))
    })
}

fn during_storm(
    addr: SocketAddr,
    keys: u64,
    little: impl FnOnce() -> Result<Outcome, LoadError>,
) -> Result<Round, LoadError> {
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let crowd = scope.spawn(move || storms(addr, keys, &stopped));
        let outcome = little();
        drop(stop);
        let rate = crowd.join().unwrap_or_else(|_| Err(io::Error::other("the crowd panicked")));
        let rate = rate.map_err(LoadError::system("a storm failed"))?;
        Ok(Round::of(&outcome?, vec![rate], 0.0))
    })
}

/// Storms until the sender of `stopped` is dropped; returns the number of connections per second.
fn storms(addr: SocketAddr, count: u64, stopped: &Receiver<()>) -> io::Result<f64> {
    let keys = KeyShape::new(LONG_KEY_LEN, LONG_KEY_LEN, LONG_KEYS.min(count)).map_err(io::Error::other)?;
    let mut request = Vec::new();
    for id in 0..REQUESTED as u64 {
        request.extend_from_slice(b"get ");
        keys.append(id, &mut request);
        request.extend_from_slice(b"\r\n");
    }
    let clock = MonotonicClock::start();
    let mut count = 0;
    while stopped.try_recv() != Err(TryRecvError::Disconnected) {
        let until_ns = clock.now_ns() + STORM.as_nanos() as u64;
        let mut crowd = Vec::with_capacity(CROWD);
        for _ in 0..CROWD {
            let mut socket = TcpStream::connect(addr)?;
            // A client that is refused for lack of room belongs to the crowd too.
            let _ = socket.write_all(&request);
            crowd.push(socket);
        }
        count += CROWD;
        while clock.now_ns() < until_ns && stopped.try_recv() != Err(TryRecvError::Disconnected) {
            thread::sleep(LOOK);
        }
    }
    Ok(count as f64 / (clock.now_ns() as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use super::{CROWD, Contended, Round, allow_files, storms};

    #[test]
    fn medians_are_of_rounds_and_each_of_the_others_has_its_rate() {
        let round = |long, small| Round { others_per_s: vec![long, small], ..Round::default() };
        let rounds = vec![round(1.0, 30.0), round(3.0, 10.0), round(2.0, 20.0)];
        let contended = Contended { other: "x", pace: "free", server: "guira".to_owned(), rounds };
        assert_eq!(contended.rates(), [2.0, 20.0]);
        let alone = Contended { rounds: vec![Round::default()], ..contended };
        assert_eq!(alone.rates(), [0.0; 0]);
    }

    #[test]
    fn a_crowd_comes_again_until_it_is_told_to_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let mut first = listener.accept().unwrap().0;
            let mut asked = [0; 16];
            first.read_exact(&mut asked).unwrap();
            drop(stop);
            // The other connections of the first storm.
            (1..CROWD).for_each(|_| drop(listener.accept().unwrap()));
            String::from_utf8_lossy(&asked).into_owned()
        });
        allow_files(2 * CROWD).unwrap();
        let rate = storms(addr, 1000, &stopped).unwrap();
        assert!(rate > 0.0);
        assert!(server.join().unwrap().starts_with("get "));
    }
}
