//! K6, K7, K8 and K14: the server over loopback, and the same requests without a network.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use guira_harness::rounds::turns;
use guira_load::engine::Quiet;
use guira_load::floor::Shape;
use guira_load::pace::Pace;
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::{Load, Outcome as Loaded};
use guira_load::server::{Kind, Server, Spec, Wire};

use super::inside::{Inside, KEY, VALUE, draw};
use super::mixes::{LAZY, LRU, MIXED, Mix, POLICIES, READS, RECLAIMING, SAMPLED, SEGMENTED, WRITES};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-server",
    claims: &["K6", "K7", "K8", "K14"],
    about: "Throughput and delays over loopback by policy and mix, beside memcached and beside the engine alone",
    run,
};

const MIXES: [Mix; 3] = [READS, MIXED, WRITES];
const READING: usize = 0;
const WRITING: usize = 2;
const CONNECTIONS: usize = 70;
/// memcached's own policies, with what they take on its command line.
const PEERS: [(&str, &[&str]); 2] =
    [("memcached, segmented", &[]), ("memcached, lazy", &["-o", "no_lru_maintainer"])];
const QUANTILES: [f64; 3] = [0.99, 0.999, 0.9999];

/// What one run of one server with one mix came to.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Thousands of operations per second of the server's processor time.
    per_cpu: f64,
    /// Thousands of operations per second.
    per_second: f64,
    /// Delays, in microseconds.
    delays: [f64; 3],
}

impl Point {
    fn of(loaded: &Loaded) -> Self {
        let mut all = loaded.counters.get_ns.clone();
        // Both have the same bounds, so adding cannot fail.
        let _same_bounds = all.add(&loaded.counters.set_ns);
        Self {
            per_cpu: loaded.per_cpu_second().unwrap_or(0.0) / 1e3,
            per_second: loaded.per_second() / 1e3,
            delays: QUANTILES.map(|quantile| all.value_at_quantile(quantile) as f64 / 1e3),
        }
    }
}

/// All points: by mix, then by server, then by run.
type Points = Vec<Vec<Vec<Point>>>;

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(1_000_000, 20_000);
    let points = over_loopback(context, keys)?;
    let inside = inside(context, keys)?;
    let per_cpu = |mix: usize, server: usize| figure(&points[mix][server], |point| point.per_cpu);
    let over_lru = |mix: usize, policy: usize| per_cpu(mix, policy).mean / per_cpu(mix, LRU).mean;
    let others = [LAZY, SEGMENTED, SAMPLED];
    let is_even = |ratio: f64| (ratio - 1.0).abs() < 0.1;
    Ok(Outcome {
        how: format!(
            "`guira serve --engine classic` with one worker, and memcached with one, on one processor, the load on the other: {CONNECTIONS} connections, each with one request at a time, {keys} keys of {KEY} and values of {VALUE} bytes that all fit and never expire, operations and popularity of the stand-ins for Twitter's clusters. Servers take turns within a run. Inside: the engine alone, the same operations in batches of 64 on one thread."
        ),
        answers: vec![
            answer(
                "K6",
                format!(
                    "{}; memcached segmented {:.0}, lazy {:.0} (thousands a second of server time)",
                    versus_lru(&|policy| per_cpu(READING, policy)),
                    per_cpu(READING, POLICIES.len()),
                    per_cpu(READING, POLICIES.len() + 1)
                ),
                verdict(&[
                    (
                        "all others gain 45 % over plain LRU",
                        others.iter().all(|&it| over_lru(READING, it) >= 1.4),
                    ),
                    (
                        "over loopback no policy is a tenth from plain LRU",
                        others.iter().all(|&it| is_even(over_lru(READING, it))),
                    ),
                ]) + "One request at a time on each connection costs the server its system calls and little else; K14 has the engine alone, where plain LRU moves an item at every read.",
            ),
            answer(
                "K7",
                format!(
                    "{}; with tail reclaim lazy LRU keeps {:.2} of its rate",
                    versus_lru(&|policy| per_cpu(WRITING, policy)),
                    per_cpu(WRITING, RECLAIMING).mean / per_cpu(WRITING, LAZY).mean
                ),
                verdict(&[
                    (
                        "segmented LRU and KLRU store as fast as plain LRU, within a tenth",
                        is_even(over_lru(WRITING, SEGMENTED)) && is_even(over_lru(WRITING, SAMPLED)),
                    ),
                    ("lazy LRU loses a third", over_lru(WRITING, LAZY) < 0.7),
                ]) + "Tail reclaim looks at the tail only when a batch of victims is wanted, so that it costs nothing where all fits; where stores evict, see K12.",
            ),
            delays(&points),
            bypassed(&points, &inside),
        ],
        tables: vec![rate_table(&points), delay_table(&points), inside_table(&inside)],
        charts: Vec::new(),
    })
}

fn figure(points: &[Point], of: impl Fn(&Point) -> f64) -> Figure {
    Figure::of(&points.iter().map(of).collect::<Vec<f64>>())
}

/// Rates of the policies as multiples of plain LRU's.
fn versus_lru(rate: &dyn Fn(usize) -> Figure) -> String {
    let of = |policy: usize| rate(policy).mean / rate(LRU).mean;
    format!(
        "against plain LRU ({:.0}): lazy × {:.2}, seg × {:.2}, klru × {:.2}",
        rate(LRU).mean,
        of(LAZY),
        of(SEGMENTED),
        of(SAMPLED)
    )
}

/// The server's processor and the load's, if there are two.
fn processors() -> [Vec<usize>; 2] {
    let has_two = available_parallelism().map_or(1, NonZero::get) > 1;
    if has_two { [vec![0], vec![1]] } else { [Vec::new(), Vec::new()] }
}

fn over_loopback(context: &Context, keys: u32) -> Result<Points, Failure> {
    let guira = POLICIES.iter().map(|(_, policy)| Kind::Guira {
        binary: context.guira.clone(),
        args: ["--engine", "classic", "--policy", policy].map(str::to_owned).to_vec(),
    });
    let memcached = PEERS.iter().map(|(name, args)| Kind::Memcached {
        label: (*name).to_owned(),
        binary: context.memcached.clone(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
    });
    let mut servers = Vec::new();
    for kind in guira.chain(memcached) {
        let server = Server::start(&Spec {
            kind,
            workers: 1,
            memory: 512 << 20,
            max_connections: None,
            wire: Wire::Tcp,
            cores: processors()[0].clone(),
            shape: Shape { key_len: KEY, value_len: VALUE },
        })?;
        load(context, &server, READS, keys, 0)?.preload(&mut Quiet)?.require_right()?;
        servers.push(server);
    }
    let mut points = vec![vec![Vec::new(); servers.len()]; MIXES.len()];
    for (mix, points) in MIXES.iter().zip(&mut points) {
        for run in 0..context.runs as usize {
            for index in turns(run, servers.len()) {
                let server = &servers[index];
                let load = load(context, server, *mix, keys, run as u64)?;
                let loaded = load.run(Some(server.process()), &mut Quiet)?;
                loaded.require_right()?;
                points[index].push(Point::of(&loaded));
            }
        }
    }
    Ok(points)
}

fn load(context: &Context, server: &Server, mix: Mix, keys: u32, run: u64) -> Result<Load, Failure> {
    let millis = |full, quick| Duration::from_millis(context.scale.pick(full, quick));
    Ok(Load {
        target: server.target(Protocol::Text),
        threads: 1,
        connections: CONNECTIONS,
        pipeline: 1,
        pace: Pace::Closed,
        model: mix.model(keys)?,
        style: ItemStyle { flags: 0, multiget_keys: 1 },
        check: Check::Contents { sample: 64 },
        warmup: millis(100, 20),
        duration: millis(500, 80),
        seed: context.seed + run,
        cores: processors()[1].clone(),
    })
}

/// Millions of requests per second of processor time by policy, of reads and of writes.
struct InsideRates {
    reads: Vec<Figure>,
    writes: Vec<Figure>,
}

fn inside(context: &Context, keys: u32) -> Result<InsideRates, Failure> {
    let mut caches = Vec::new();
    for (_, policy) in POLICIES {
        let inside = Inside::open(policy, 400 << 20)?;
        inside.fill(keys);
        caches.push(inside);
    }
    let rates = |mix: Mix| -> Result<Vec<Figure>, Failure> {
        let model = mix.model(keys)?;
        let mut rates = vec![Vec::new(); POLICIES.len()];
        for run in 0..context.runs as usize {
            let parts = [draw(&model, context.scale.pick(1_000_000, 20_000), context.seed + run as u64)];
            for index in turns(run, POLICIES.len()) {
                rates[index].push(caches[index].drive(&parts).rate_of_core());
            }
        }
        Ok(rates.iter().map(|runs| Figure::of(runs)).collect())
    };
    Ok(InsideRates { reads: rates(READS)?, writes: rates(WRITES)? })
}

/// The names of all servers, in the order of their points.
fn names() -> Vec<&'static str> {
    POLICIES.iter().map(|(name, _)| *name).chain(PEERS.iter().map(|(name, _)| *name)).collect()
}

fn delays(points: &Points) -> Answer {
    let of = |mix: usize, server: usize| {
        let delay = |index: usize| figure(&points[mix][server], |point| point.delays[index]).mean;
        format!("{:.0}/{:.0}/{:.0}", delay(0), delay(1), delay(2))
    };
    let by_mix = |mix: usize| {
        format!(
            "{}: lazy {}, seg {}, K {}, memcached segmented {}",
            MIXES[mix].title(),
            of(mix, LAZY),
            of(mix, SEGMENTED),
            of(mix, SAMPLED),
            of(mix, POLICIES.len())
        )
    };
    let ours = (0..MIXES.len()).map(by_mix).collect::<Vec<_>>().join("; ");
    answer(
        "K8",
        format!("{ours} (µs)"),
        "One worker and a closed loop of 70 connections: a request waits for about 69 others, so that delays follow throughput, and the machine's other guests make the tail.",
    )
}

fn bypassed(points: &Points, inside: &InsideRates) -> Answer {
    let gain = |mix: usize, rates: &[Figure], policy: usize| {
        1e3 * rates[policy].mean / figure(&points[mix][policy], |point| point.per_cpu).mean
    };
    let gains = |mix: usize, rates: &[Figure]| {
        [LRU, LAZY, SEGMENTED, SAMPLED]
            .map(|policy| format!("{} × {:.0}", POLICIES[policy].0, gain(mix, rates, policy)))
            .join(", ")
    };
    let ours = format!(
        "without the network reads {}, writes {}; inside, reads {:.1} million a second with klru, {:.1} with seg-lru, {:.1} with lru",
        gains(READING, &inside.reads),
        gains(WRITING, &inside.writes),
        inside.reads[SAMPLED].mean,
        inside.reads[SEGMENTED].mean,
        inside.reads[LRU].mean
    );
    let gain_of = |mix: usize, policy: usize| match mix {
        READING => gain(READING, &inside.reads, policy),
        _ => gain(WRITING, &inside.writes, policy),
    };
    let others = [LAZY, SEGMENTED, SAMPLED];
    let remark = verdict(&[
        (
            "for reads plain LRU gains least",
            others.iter().all(|&it| gain_of(READING, it) > gain_of(READING, LRU)),
        ),
        (
            "for reads KLRU gains most",
            [LRU, LAZY, SEGMENTED].iter().all(|&it| gain_of(READING, it) < gain_of(READING, SAMPLED)),
        ),
        (
            "for writes KLRU is fastest",
            [LRU, LAZY, SEGMENTED].iter().all(|&it| inside.writes[it].mean < inside.writes[SAMPLED].mean),
        ),
    ]);
    answer(
        "K14",
        ours,
        remark
            + "Of a request over loopback the engine is a small part. A store changes lists, and KLRU has none; chunks are taken by the batch, so that the allocator's lock does not hide it.",
    )
}

fn rate_table(points: &Points) -> Table {
    let mut rows = Vec::new();
    for (mix, points) in MIXES.iter().zip(points) {
        for (name, points) in names().iter().zip(points) {
            rows.push(vec![
                mix.title(),
                (*name).to_owned(),
                figure(points, |point| point.per_cpu).to_string(),
                figure(points, |point| point.per_second).to_string(),
            ]);
        }
    }
    let head = ["mix", "policy", "a second of server time", "a second"];
    table("Thousands of operations over loopback:", &head, rows)
}

fn delay_table(points: &Points) -> Table {
    let mut rows = Vec::new();
    for (mix, points) in MIXES.iter().zip(points) {
        for (name, points) in names().iter().zip(points) {
            let mut row = vec![mix.title(), (*name).to_owned()];
            row.extend((0..3).map(|index| figure(points, |point| point.delays[index]).to_string()));
            rows.push(row);
        }
    }
    table("Delays over loopback, µs:", &["mix", "policy", "p99", "p99.9", "p99.99"], rows)
}

fn inside_table(inside: &InsideRates) -> Table {
    let row = |(index, (name, _)): (usize, &(&str, &str))| {
        vec![(*name).to_owned(), inside.reads[index].to_string(), inside.writes[index].to_string()]
    };
    table(
        "Millions of requests per second of processor time inside, one thread:",
        &["policy", &READS.title(), &WRITES.title()],
        POLICIES.iter().enumerate().map(row).collect(),
    )
}
