//! K13: expired items that no request reads.

use guira_contract::{Control, Expiry, Switch, Tuning};
use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_sim::Stream;
use guira_sim::policy::{Engine as Cache, Policy};
use guira_slab::policy::Order;
use guira_slab::policy::klru::{Klru, KlruOptions};
use guira_slab::policy::seg_lru::SegLru;
use guira_sync::clock::Seconds;
use guira_workload::trace::Request;
use guira_workload::{Rng, Zipf};

use super::blind::Blind;
use super::inside::{Driven, Inside, START, draw};
use super::mixes::READS;
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, percent, table, verdict};
use crate::simulate::in_parallel;
use crate::traces::{ASKING, infallible, numbered};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-expiry",
    claims: &["K13"],
    about: "Throughput and memory over 8 hours in which every item lives for 60 s, on a clock that is moved",
    run,
};

/// Seconds that an item lives.
const TTL: u32 = 60;
/// Seconds between two points.
const STEP: u32 = 300;
/// Pages that a worker without work looks at in a second.
const IDLE: usize = 64;

/// A policy, and whether the crawler goes around.
const VARIANTS: [(&str, &str, Switch); 3] = [
    ("seg-lru, crawler", "seg-lru", Switch::On),
    ("klru, crawler", "klru", Switch::On),
    ("klru, no crawler", "klru", Switch::Off),
];

/// What there was at the end of one step.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Millions of requests per second of processor time.
    rate: f64,
    /// Items that are held, dead or alive.
    items: f64,
    /// MiB of their chunks.
    mib: f64,
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let steps = context.scale.pick(96, 6);
    let rate = context.scale.pick(150, 20);
    let keys = context.scale.pick(1_000_000, 50_000);
    // By variant, then by run, then by step.
    let mut all: Vec<Vec<Vec<Point>>> = vec![Vec::new(); VARIANTS.len()];
    for run in 0..context.runs {
        let seed = context.seed + u64::from(run);
        let requests = draw(&READS.model(keys)?, (steps * STEP * rate) as usize, seed);
        let (mut caches, mut hands) = (Vec::new(), Vec::new());
        for (_, policy, crawler) in VARIANTS {
            let inside = Inside::open(policy, 128 << 20)?;
            inside.engine().tune(Tuning::Crawler(crawler));
            caches.push(inside);
        }
        hands.extend(caches.iter().map(Inside::hand));
        all.iter_mut().for_each(|runs| runs.push(Vec::new()));
        for (step, requests) in requests.chunks((STEP * rate) as usize).enumerate() {
            for index in 0..VARIANTS.len() {
                let mut spent = Driven::default();
                for (second, requests) in requests.chunks(rate as usize).enumerate() {
                    let now = Seconds(START.0 + step as u32 * STEP + second as u32);
                    hands[index].expire(Expiry::At(Seconds(now.0 + TTL)));
                    let driven = hands[index].drive(requests, now);
                    let idle_s = hands[index].idle(now, IDLE);
                    spent.requests += driven.requests;
                    spent.processor_s += driven.processor_s + idle_s;
                }
                let stats = caches[index].stats();
                let mib = stats.bytes as f64 / f64::from(1 << 20);
                let point = Point { rate: spent.rate_of_core(), items: stats.items as f64, mib };
                if let Some(points) = all[index].last_mut() {
                    points.push(point);
                }
            }
        }
    }
    let full = full(context)?;
    Ok(outcome(&all, full, rate))
}

/// A figure over the runs, at one step.
fn at(runs: &[Vec<Point>], step: usize, of: fn(&Point) -> f64) -> Figure {
    Figure::of(&runs.iter().map(|points| of(&points[step])).collect::<Vec<f64>>())
}

/// The same of the mean of all steps.
fn on_average(runs: &[Vec<Point>], of: fn(&Point) -> f64) -> Figure {
    let mean = |points: &Vec<Point>| points.iter().map(of).sum::<f64>() / points.len().max(1) as f64;
    Figure::of(&runs.iter().map(mean).collect::<Vec<f64>>())
}

fn outcome(all: &[Vec<Vec<Point>>], full: Full, rate: u32) -> Outcome {
    let steps = all[0][0].len();
    let last = steps - 1;
    let mut rows = Vec::new();
    for ((name, ..), runs) in VARIANTS.iter().zip(all) {
        rows.push(vec![
            (*name).to_owned(),
            format!("{:.2}", on_average(runs, |point| point.rate)),
            format!("{:.0}", at(runs, last / 2, |point| point.items)),
            format!("{:.0}", at(runs, last, |point| point.items)),
            format!("{:.2}", at(runs, last, |point| point.mib)),
        ]);
    }
    let ours = format!(
        "KLRU {:.2} × the throughput of segmented LRU; after {:.0} h {:.1} and {:.1} MiB with the crawler, {:.1} without it. {}",
        on_average(&all[1], |point| point.rate).mean / on_average(&all[0], |point| point.rate).mean,
        f64::from(STEP) * steps as f64 / 3600.0,
        at(&all[1], last, |point| point.mib).mean,
        at(&all[0], last, |point| point.mib).mean,
        at(&all[2], last, |point| point.mib).mean,
        full.summary
    );
    let rate_of = |variant: usize| on_average(&all[variant], |point| point.rate).mean;
    let memory = |variant: usize, step: usize| at(&all[variant], step, |point| point.mib).mean;
    let is_bounded = |variant: usize| memory(variant, last) < 1.1 * memory(variant, last / 2);
    let remark = verdict(&[
        ("KLRU is not slower than segmented LRU", rate_of(1) > 0.98 * rate_of(0)),
        ("memory is bounded with the crawler", is_bounded(0) && is_bounded(1)),
        ("memory grows without the crawler", !is_bounded(2)),
    ]);
    Outcome {
        how: format!(
            "The engine classic in this process with 128 MiB, the stand-in for Twitter's cluster {}, {rate} requests in each second of a clock that is moved, every item with a TTL of {TTL} s, a point each {STEP} s. After each second the session does what a worker does that has no work, up to {IDLE} steps of maintenance; its time counts. The crawler sets out every 30 s. memcached does the same with a thread of its own, which goes along its lists, and with looks at their tails when it evicts.",
            READS.title()
        ),
        answers: vec![answer(
            "K13",
            ours,
            remark
                + "The crawler goes through pages, as the paper's does, whatever the policy; drawing removes only while stores evict.",
        )],
        tables: vec![
            table(
                "Eight hours of items that live for a minute:",
                &[
                    "policy",
                    "million requests a second of processor time",
                    "items half-way",
                    "items at the end",
                    "MiB at the end",
                ],
                rows,
            ),
            full.table,
        ],
        charts: vec![
            chart("klru-expiry-memory", "Memory of items that live for a minute", "MiB", all, |point| {
                point.mib
            }),
            chart(
                "klru-expiry-rate",
                "Throughput with items that live for a minute",
                "million requests a second of processor time",
                all,
                |point| point.rate,
            ),
        ],
    }
}

fn chart(name: &str, title: &str, unit: &str, all: &[Vec<Vec<Point>>], of: fn(&Point) -> f64) -> Chart {
    let lines = VARIANTS.iter().zip(all).map(|((name, ..), runs)| -> Line {
        let dot = |step: usize| {
            let figure = at(runs, step, of);
            Dot { x: f64::from(STEP) * (step + 1) as f64 / 3600.0, y: figure.mean, spread: figure.spread }
        };
        Line::new(name, (0..runs[0].len()).map(dot).collect())
    });
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x: Axis::new("hours", Steps::Linear),
        y: Axis::new(unit, Steps::Linear),
        lines: lines.collect(),
    }
}

/// A cache that is always full, with and without a look at the expiry of what is drawn.
struct Full {
    summary: String,
    table: Table,
}

/// Requests in a second of the cache that is full.
const FULL_RATE: u64 = 1000;
/// Objects that it has room for.
const FULL_ROOM: u64 = 20_000;
/// Seconds that every second key lives; the others never expire.
const SHORT: u32 = 5;

const fn lives(id: u32) -> u32 {
    if id.is_multiple_of(2) { SHORT } else { 0 }
}

fn full(context: &Context) -> Result<Full, Failure> {
    let requests = context.scale.pick(1_000_000, 100_000);
    let zipf = Zipf::new(300_000, 0.9).map_err(failed)?;
    let runs: Vec<u64> = (0..u64::from(context.runs)).map(|run| context.seed + run).collect();
    let of_run = |seed: &u64| {
        let mut rng = Rng::new(*seed);
        let ids: Vec<u32> = (0..requests).map(|_| zipf.draw(&mut rng) as u32).collect();
        // Numbered in the order of first requests, so that they keep their numbers when they are read again.
        let stream = numbered(&ids);
        let timed = stream.ids().iter().enumerate().map(|(number, &id)| {
            let request = Request::number(u64::from(id));
            Ok(Request { ttl: lives(id), time: number as u64 / FULL_RATE, ..request })
        });
        let stream = infallible(Stream::read(timed, ASKING));
        [
            hits(Klru::new(KlruOptions { samples: 16, ..KlruOptions::default() }, *seed), &stream),
            hits(Blind(Klru::new(KlruOptions { samples: 16, ..KlruOptions::default() }, *seed)), &stream),
            hits(SegLru::default(), &stream),
        ]
    };
    let all = in_parallel(&runs, of_run);
    let figure = |index: usize| Figure::of(&all.iter().map(|hits| hits[index]).collect::<Vec<f64>>());
    let names = ["klru", "klru that does not look at expiry", "seg-lru"];
    let row = |(index, name): (usize, &&str)| {
        vec![(*name).to_owned(), format!("{:.2}", figure(index).scaled(100.0))]
    };
    let rows = names.iter().enumerate().map(row).collect();
    let summary = format!(
        "In a cache that is full, and without a crawler, KLRU that removes what it draws and is dead hits {} %, without that {} %",
        percent(figure(0).mean),
        percent(figure(1).mean)
    );
    let title = format!(
        "Hits in a full cache without a crawler (simulated: room for {FULL_ROOM} objects, 300,000 keys by Zipf 0.9, {FULL_RATE} requests a second, every second key expires after {SHORT} s and the others never), %:"
    );
    Ok(Full { summary, table: table(&title, &["policy", "hits"], rows) })
}

/// The share of reads that find an object that has not expired.
fn hits(order: impl Order, stream: &Stream) -> f64 {
    let mut cache = Cache::new(order, FULL_ROOM, stream, FULL_RATE);
    let mut expiries = vec![u64::MAX; stream.keys()];
    let mut hits = 0_u64;
    for (number, &id) in stream.ids().iter().enumerate() {
        let now = number as u64 / FULL_RATE;
        let expiry = &mut expiries[id as usize];
        cache.begin(number);
        if *expiry <= now {
            cache.remove(id);
        }
        if cache.read(id) {
            hits += 1;
        } else {
            cache.insert(id, 1);
            *expiry = match lives(id) {
                0 => u64::MAX,
                seconds => now + u64::from(seconds),
            };
        }
    }
    hits as f64 / stream.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use guira_sim::policy::{Engine, Policy};
    use guira_sim::{Reading, Sample, Stream, Writes};
    use guira_slab::policy::Order;
    use guira_slab::policy::klru::{Klru, KlruOptions};
        use guira_workload::trace::Trace;

    use super::Blind;

    /// Whether the item that has expired outlives a store into a full cache; the others were used earlier.
    fn dead_stays(order: impl Order) -> bool {
        let text = "0,b,1,5,1,get,0\n0,c,1,5,1,get,0\n0,a,1,5,1,get,5\n9,d,1,5,1,get,0\n";
        let reading = Reading { writes: Writes::Ask, sample: Sample::All, limit: u64::MAX };
        let stream = Stream::read(Trace::new(text.as_bytes(), None).unwrap(), reading).unwrap();
        let mut cache = Engine::new(order, 3, &stream, 1);
        for (number, &id) in stream.ids().iter().enumerate() {
            cache.begin(number);
            cache.insert(id, 1);
        }
        cache.read(2)
    }

    #[test]
    fn only_klru_that_looks_takes_what_has_expired_first() {
        assert!(!dead_stays(Klru::new(KlruOptions { samples: 32, ..KlruOptions::default() }, 1)));
        assert!(dead_stays(Blind(Klru::new(KlruOptions { samples: 32, ..KlruOptions::default() }, 1))));
    }
}
