//! F2, the mechanism: what threads in one process come to, and what they do in vain.

use guira_contract::EngineStats;
use guira_harness::rounds::turns;
use guira_workload::{Rng, Zipf};

use super::{CLASSIC, ENGINES, FLEEC, MEMC3, MEMCLOCK};
use crate::caches::{BATCH, Cache, Requests};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-contention",
    claims: &["F2"],
    about: "Requests per second of threads inside the process by skew, and what they do in vain or wait for",
    run,
};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Where one and two are among them.
const ONE: usize = 0;
const TWO: usize = 1;
const MOST: usize = THREADS.len() - 1;

/// Which keys are asked for, and one in how many requests stores.
#[derive(Debug, Clone, Copy)]
struct Mix {
    about: &'static str,
    /// Zipf's exponent; none: one key.
    alpha: Option<f64>,
    set_each: usize,
}

const MIXES: [Mix; 4] = [
    Mix { about: "Zipf 0.99, 99 % reads", alpha: Some(0.99), set_each: 100 },
    Mix { about: "Zipf 0.99, 50 % reads", alpha: Some(0.99), set_each: 2 },
    Mix { about: "one key, 99 % reads", alpha: None, set_each: 100 },
    Mix { about: "one key, 50 % reads", alpha: None, set_each: 2 },
];
const HOT: usize = 2;

impl Mix {
    /// Keys for `threads` threads, `count` in all.
    fn draw(&self, keys: u32, threads: usize, count: usize, seed: u64) -> Result<Vec<Vec<u32>>, Failure> {
        let Some(alpha) = self.alpha else {
            return Ok(vec![vec![0; count / threads]; threads]);
        };
        let zipf = Zipf::new(u64::from(keys), alpha).map_err(failed)?;
        let thread = |thread: usize| {
            let mut rng = Rng::part(seed, thread as u64);
            (0..count / threads).map(|_| zipf.draw(&mut rng) as u32).collect()
        };
        Ok((0..threads).map(thread).collect())
    }

    /// How many keys are looked up at once: a store comes between batches.
    fn at_once(&self) -> usize {
        self.set_each.min(BATCH)
    }
}

/// What one measurement came to. All but the rates are in a thousand requests.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Millions of requests per second.
    rate: f64,
    /// The same per second of processor time.
    rate_of_core: f64,
    again: f64,
    lost: f64,
    waits: f64,
}

fn measure(cache: &dyn Cache, mix: Mix, draws: &[Vec<u32>]) -> Result<Point, Failure> {
    let requests: Vec<Requests<'_>> =
        draws.iter().map(|keys| Requests { keys, set_each: mix.set_each, at_once: mix.at_once() }).collect();
    let before = cache.stats();
    let (rate, served) = cache.serve(&requests)?;
    let after = cache.stats();
    let count = (served.gets + served.sets) as f64;
    let of = |field: fn(&EngineStats) -> u64| 1e3 * (field(&after) - field(&before)) as f64 / count;
    Ok(Point {
        rate,
        rate_of_core: count / served.processor_s.max(1e-9) / 1e6,
        again: of(|stats| stats.read_retries + stats.write_retries),
        lost: of(|stats| stats.swaps_lost),
        waits: of(|stats| stats.lock_waits),
    })
}

/// All points: by mix, then by threads, then by engine, then by run.
struct All(Vec<Vec<Vec<Vec<Point>>>>);

impl All {
    fn figure(&self, mix: usize, threads: usize, engine: usize, of: fn(&Point) -> f64) -> Figure {
        Figure::of(&self.0[mix][threads][engine].iter().map(of).collect::<Vec<f64>>())
    }

    fn rate(&self, mix: usize, threads: usize, engine: usize) -> f64 {
        self.figure(mix, threads, engine, |point| point.rate).mean
    }

    fn table(&self, mix: usize) -> Table {
        let mut rows = Vec::new();
        for (threads, number) in THREADS.iter().enumerate() {
            for (engine, config) in ENGINES.iter().enumerate() {
                let cell = |of| self.figure(mix, threads, engine, of).to_string();
                let small = |of| format!("{:.3}", self.figure(mix, threads, engine, of));
                rows.push(vec![
                    number.to_string(),
                    config.name.to_owned(),
                    cell(|point| point.rate),
                    cell(|point| point.rate_of_core),
                    small(|point| point.again),
                    small(|point| point.lost),
                    small(|point| point.waits),
                ]);
            }
        }
        let head = [
            "threads",
            "engine",
            "M requests a second",
            "a second of processor time",
            "begun anew in 1,000",
            "compare-and-swaps lost in 1,000",
            "waits for locks in 1,000",
        ];
        table(&format!("{}:", MIXES[mix].about), &head, rows)
    }

    /// fleec's rate as a multiple of another engine's.
    fn against(&self, mix: usize, threads: usize, other: usize) -> f64 {
        self.rate(mix, threads, FLEEC) / self.rate(mix, threads, other)
    }

    fn summary(&self) -> String {
        let against = |mix, threads, other| self.against(mix, threads, other);
        let of_mix = |mix: usize| {
            let waits = self.figure(mix, MOST, MEMCLOCK, |point| point.waits).mean;
            let lost = self.figure(mix, MOST, FLEEC, |point| point.lost).mean;
            format!(
                "{}: with 2 threads {:.2} × classic, {:.2} × memclock, {:.2} × memc3; with 16 {:.2}, {:.2} and {:.2}, and of 1,000 requests {waits:.2} wait in memclock, {lost:.2} lose a compare-and-swap in fleec",
                MIXES[mix].about,
                against(mix, TWO, CLASSIC),
                against(mix, TWO, MEMCLOCK),
                against(mix, TWO, MEMC3),
                against(mix, MOST, CLASSIC),
                against(mix, MOST, MEMCLOCK),
                against(mix, MOST, MEMC3),
            )
        };
        let scaled = self.rate(HOT, TWO, FLEEC) / self.rate(HOT, ONE, FLEEC);
        let mixes: Vec<String> = (0..MIXES.len()).map(of_mix).collect();
        format!("{}; two threads on one key do {scaled:.2} × what one does", mixes.join("; "))
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(1_000_000, 20_000);
    let requests = context.scale.pick(1_600_000, 32_000);
    let caches = ENGINES
        .iter()
        .map(|config| {
            let cache = config.open(context.scale.pick(256 << 20, 32 << 20))?;
            cache.fill(keys)?;
            Ok::<_, Failure>(cache)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for mix in MIXES {
        let mut of_mix = Vec::new();
        for threads in THREADS {
            let mut points = vec![Vec::new(); ENGINES.len()];
            for run in 0..context.runs as usize {
                let draws = mix.draw(keys, threads, requests, context.seed + run as u64)?;
                for index in turns(run, ENGINES.len()) {
                    points[index].push(measure(caches[index].as_ref(), mix, &draws)?);
                }
            }
            of_mix.push(points);
        }
        all.push(of_mix);
    }
    let all = All(all);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Outcome {
        how: format!(
            "The engines in this process, {keys} keys of 16 + 32 bytes that all fit, {requests} requests a point, gets in batches of {BATCH} as a worker has them, or between two stores. The machine has {cores} cores: more threads than that take turns, and meet in the middle of an operation only when one of them is put aside there. A lock is waited for when somebody else has it; memc3's and classic's readers take none."
        ),
        answers: vec![answer(
            "F2",
            all.summary(),
            verdict(&[
                ("six times memclock on one key with two threads", all.against(HOT, TWO, MEMCLOCK) >= 6.0),
                (
                    "ahead of memclock in every mix",
                    (0..MIXES.len()).all(|mix| all.against(mix, TWO, MEMCLOCK) > 1.0),
                ),
                ("ahead of memc3 with 16 threads on one key", all.against(HOT, MOST, MEMC3) > 1.0),
            ]) + "Guira's other engines take no locks to read.",
        )],
        tables: (0..MIXES.len()).map(|mix| all.table(mix)).collect(),
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{ENGINES, MIXES, measure};

    #[test]
    fn every_engine_serves_every_mix() {
        for config in ENGINES {
            let cache = config.open(16 << 20).unwrap();
            cache.fill(1_000).unwrap();
            for mix in MIXES {
                let draws = mix.draw(1_000, 2, 4_000, 1).unwrap();
                assert!(measure(cache.as_ref(), mix, &draws).unwrap().rate > 0.0, "{}", config.name);
            }
        }
    }
}
