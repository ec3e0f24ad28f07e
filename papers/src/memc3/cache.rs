//! Whole caches in this process, without a network (Fig 7).

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::rounds::turns;
use guira_workload::{Rng, Zipf};

use crate::caches::{BATCH, CONFIGS, Cache, Config, DEFAULT, MEMC3, Requests};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-cache",
    claims: &["M15", "M16", "M17"],
    about: "The engines of the paper's three caches in this process: gets of a cache that holds everything, and 95/5 on one of a tenth",
    run,
};

const THETA: f64 = 0.99;

/// One request in this many of the small cache is a set.
const SET_EACH: usize = 20;

/// Threads, and how many keys each looks up at once.
const POINTS: [(usize, usize); 5] = [(1, 1), (2, 1), (4, 1), (1, BATCH), (2, BATCH)];

/// Where the machine's number of threads is, one by one.
const TWO: usize = 1;
/// How many of the points are in the chart.
const ONE_BY_ONE: usize = 3;

/// Keys that are drawn in advance for `threads` threads, `count` in all: drawing a key takes as long as looking one up.
fn draws(keys: u64, threads: usize, count: usize, seed: u64) -> Result<Vec<Vec<u32>>, Failure> {
    let zipf = Zipf::new(keys, THETA).map_err(|error| Failure::Other(error.to_string()))?;
    let thread = |thread: usize| {
        let mut rng = Rng::part(seed, thread as u64);
        (0..count / threads).map(|_| zipf.draw(&mut rng) as u32).collect()
    };
    Ok((0..threads).map(thread).collect())
}

/// What was measured of one cache, a figure for each of [`POINTS`].
#[derive(Debug, Clone, Default)]
struct Rates {
    /// Million requests a second, run by run.
    rates: [Vec<f64>; POINTS.len()],
    /// Percent of the gets that hit.
    hits: Vec<f64>,
}

impl Rates {
    fn figure(&self, point: usize) -> Figure {
        Figure::of(&self.rates[point])
    }
}

#[derive(Debug, Clone, Copy)]
struct Size {
    memory: usize,
    keys: u32,
    /// Requests of a measurement, of all threads together.
    requests: usize,
    set_each: usize,
}

/// Measures the three caches in turn.
fn measure(size: Size, caches: &[Box<dyn Cache>], context: &Context) -> Result<Vec<Rates>, Failure> {
    let mut all = vec![Rates::default(); caches.len()];
    for run in 0..context.runs {
        for (point, &(threads, at_once)) in POINTS.iter().enumerate() {
            // Never the same twice: what was just asked for is in the cache.
            let seed = context.seed + 1 + u64::from(run) * POINTS.len() as u64 + point as u64;
            let draws = draws(u64::from(size.keys), threads, size.requests, seed)?;
            for index in turns(run as usize, caches.len()) {
                let requests: Vec<Requests<'_>> =
                    draws.iter().map(|keys| Requests { keys, set_each: size.set_each, at_once }).collect();
                let (rate, served) = caches[index].serve(&requests)?;
                all[index].rates[point].push(rate);
                all[index].hits.push(served.hits as f64 * 100.0 / served.gets as f64);
            }
        }
    }
    Ok(all)
}

fn open(memory: usize) -> Result<Vec<Box<dyn Cache>>, Failure> {
    CONFIGS.iter().map(|config| config.open(memory)).collect()
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let big = Size {
        memory: context.scale.pick(512 << 20, 32 << 20),
        keys: context.scale.pick(4_000_000, 200_000),
        requests: context.scale.pick(1_000_000, 50_000),
        set_each: 0,
    };
    let caches = open(big.memory)?;
    caches.iter().try_for_each(|cache| cache.fill(big.keys))?;
    let of_big = measure(big, &caches, context)?;
    drop(caches);
    let small = Size {
        memory: context.scale.pick(64 << 20, 16 << 20),
        keys: context.scale.pick(6_300_000, 1_000_000),
        requests: context.scale.pick(1_000_000, 50_000),
        set_each: SET_EACH,
    };
    let caches = open(small.memory)?;
    let settling = draws(u64::from(small.keys), 1, context.scale.pick(8_000_000, 400_000), context.seed)?;
    for cache in &caches {
        cache.serve(&[Requests { keys: &settling[0], set_each: SET_EACH, at_once: BATCH }])?;
    }
    drop(settling);
    let of_small = measure(small, &caches, context)?;
    let stored = caches.iter().map(|cache| cache.items()).collect::<Vec<_>>();
    Ok(outcome(big, small, &stored, &of_big, &of_small))
}

fn outcome(big: Size, small: Size, stored: &[u64], of_big: &[Rates], of_small: &[Rates]) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let head = POINTS.iter().map(|&(threads, at_once)| {
        let over = if threads > cores { ", oversubscribed" } else { "" };
        let batch = if at_once > 1 { format!(", {at_once} at once") } else { String::new() };
        format!("{threads} thread{}{batch}{over}", if threads > 1 { "s" } else { "" })
    });
    let head: Vec<String> = ["".to_owned()].into_iter().chain(head).chain(["hits, %".to_owned()]).collect();
    let table = |title: &str, all: &[Rates]| Table {
        title: title.to_owned(),
        head: head.clone(),
        rows: CONFIGS
            .iter()
            .zip(all)
            .map(|(config, rates)| {
                let figures = (0..POINTS.len()).map(|point| rates.figure(point).to_string());
                let hits = format!("{:.2}", Figure::of(&rates.hits));
                [config.name.to_owned()].into_iter().chain(figures).chain([hits]).collect()
            })
            .collect(),
    };
    Outcome {
        how: format!(
            "16-byte keys, 32-byte values, Zipf {THETA}, a miss is followed by a set. All three are Guira's engines, so that they differ in \
             index and policy alone; readers take no lock in any of them, and LRU's are noted and moved to the front at the end of a batch. \
             The big cache has {} MiB and holds all its {:.1} M keys; the small one has {} MiB for {:.1} M keys, of which they store {} M. The paper's are 10 GB and 1 GB.",
            big.memory >> 20,
            f64::from(big.keys) / 1e6,
            small.memory >> 20,
            f64::from(small.keys) / 1e6,
            stored.iter().map(|items| format!("{:.2}", *items as f64 / 1e6)).collect::<Vec<_>>().join(" / ")
        ),
        answers: answers(of_big, of_small),
        tables: vec![
            table("Gets of a cache that holds everything, M/s (Fig 7a)", of_big),
            table("95 % gets and 5 % sets of a small cache, M requests/s (Fig 7b)", of_small),
        ],
        charts: vec![
            chart("memc3-cache-big", "Cache that holds everything, gets (Fig 7a)", of_big),
            chart("memc3-cache-small", "Small cache, 95 % gets and 5 % sets (Fig 7b)", of_small),
        ],
    }
}

fn chart(name: &str, title: &str, all: &[Rates]) -> Chart {
    let line = |(config, rates): (&Config, &Rates)| {
        let dot = |point: usize| {
            let figure = rates.figure(point);
            Dot { x: POINTS[point].0 as f64, y: figure.mean, spread: figure.spread }
        };
        Line::new(config.name, (0..ONE_BY_ONE).map(dot).collect())
    };
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x: Axis::new("threads", Steps::Linear),
        y: Axis::new("million requests a second, one by one", Steps::Linear),
        lines: CONFIGS.iter().zip(all).map(line).collect(),
    }
}

fn answers(of_big: &[Rates], of_small: &[Rates]) -> Vec<Answer> {
    let ratio = |all: &[Rates], point: usize| all[MEMC3].figure(point).mean / all[DEFAULT].figure(point).mean;
    let told = |all: &[Rates]| {
        CONFIGS
            .iter()
            .zip(all)
            .map(|(config, rates)| {
                format!("{} {} M/s on 1 thread, {} on 2", config.name, rates.figure(0), rates.figure(TWO))
            })
            .collect::<Vec<_>>()
            .join("; ")
    };
    let hits = |rates: &Rates| Figure::of(&rates.hits).mean;
    let rate = |all: &[Rates], cache: usize, point: usize| all[cache].figure(point).mean;
    let scaling = |cache: usize| rate(of_big, cache, TWO) / rate(of_big, cache, 0);
    let in_batches = rate(of_big, MEMC3, POINTS.len() - 1);
    let is_ordered = (1..CONFIGS.len()).all(|it| rate(of_small, it, TWO) > rate(of_small, it - 1, TWO));
    let factors = [ratio(of_big, TWO), ratio(of_small, TWO)];
    vec![
        Answer {
            claim: "M15".to_owned(),
            ours: told(of_big),
            remark: verdict(&[
                (
                    "cuckoo alone gains less than a fifth",
                    rate(of_big, 1, TWO) < 1.2 * rate(of_big, DEFAULT, TWO),
                ),
                (
                    "with LRU a second thread helps less than with CLOCK",
                    scaling(DEFAULT).max(scaling(1)) < scaling(MEMC3),
                ),
                (
                    "in batches two threads with CLOCK + cuckoo do the 30 M/s of the paper's sixteen",
                    in_batches >= 30.0,
                ),
            ]) + "No reader takes a lock here; with LRU, threads wait to move to the front what was read.",
        },
        Answer {
            claim: "M16".to_owned(),
            ours: format!("{}; hits {:.1} %", told(of_small), hits(&of_small[MEMC3])),
            remark: verdict(&[("each step of the design gains", is_ordered)])
                + "Writers of different keys do not exclude each other in Guira, where the paper has a single writer. Two processors cannot show a peak at six threads.",
        },
        Answer {
            claim: "M17".to_owned(),
            ours: format!(
                "2 threads: {:.2} × with everything held ({:.2} × in batches), {:.2} × of the small cache; hits {:.2} against {:.2} %",
                ratio(of_big, TWO),
                ratio(of_big, POINTS.len() - 1),
                ratio(of_small, TWO),
                hits(&of_small[MEMC3]),
                hits(&of_small[DEFAULT])
            ),
            remark: verdict(&[
                ("3 to 10 × the throughput", factors.iter().all(|factor| (3.0..=10.0).contains(factor))),
                ("a hit ratio that is not worse", hits(&of_small[MEMC3]) >= hits(&of_small[DEFAULT])),
            ]) + "Compared with LRU + chaining of the same engine, which has no lock for readers and lean headers, unlike memcached 1.4.",
        },
    ]
}
