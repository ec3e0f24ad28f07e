//! S17: the balance of ages between size classes, when the sizes of values shift.

use guira_contract::{Engine, Expiry};
use guira_harness::driver::{Driver, Lookup, Maintenance};
use guira_slab::{Cuckoo, EngineOptions, SlabEngine, SlabOptions};
use guira_sync::clock::Seconds;
use guira_workload::rng::mix64;
use guira_workload::{KeyShape, Rng, ValuePool, Zipf};

use super::classes::{Classes, Rule};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-balance",
    claims: &["S17"],
    about: "How fast the hit ratio recovers from a shift of sizes, by the rule that moves pages between size classes",
    run,
};

/// Two families of keys: lengths of values about 100 and about 1,000 bytes.
const LENGTHS: [(usize, usize); 2] = [(50, 150), (500, 1500)];
/// An item is its value, its key and a header.
const OVERHEAD: usize = 24;
/// Keys of a family would fill the cache so many times.
const TIMES: usize = 4;
const THETA: f64 = 0.9;
/// Fills of the cache before the first shift, and after each.
const FILLS: [f64; 3] = [4.0, 6.0, 6.0];
const VALUE: usize = 2048;
const BATCH: usize = 64;
const NOW: Seconds = Seconds(1000);

/// What is asked for in three phases: the share of requests for small values.
#[derive(Debug, Clone, Copy)]
struct Shift {
    name: &'static str,
    small: [f64; 3],
}

const SHIFTS: [Shift; 2] = [
    Shift { name: "all requests", small: [1.0, 0.0, 1.0] },
    Shift { name: "four fifths of the requests", small: [0.9, 0.1, 0.9] },
];

trait Cache {
    /// Asks for a key, which is stored if it is not there. Tells whether it was.
    fn read(&mut self, key: u32, length: usize) -> bool;
}

impl Cache for Classes {
    fn read(&mut self, key: u32, length: usize) -> bool {
        Classes::read(self, key, length + OVERHEAD)
    }
}

/// The engine memc3 in this process.
struct Real {
    driver: Driver<<SlabEngine<Cuckoo> as Engine>::Session, VALUE>,
    keys: KeyShape,
    values: ValuePool,
    key: Vec<u8>,
    asked: usize,
}

impl Real {
    fn open(memory: usize) -> Result<Self, Failure> {
        let engine = EngineOptions { memory, max_item_size: 4096, ..EngineOptions::default() };
        let engine =
            SlabEngine::<Cuckoo>::open(SlabOptions { engine, ..SlabOptions::default() }).map_err(failed)?;
        let driver = Driver::new(engine.session(), Maintenance { every: 1, steps: 32 });
        Ok(Real {
            driver,
            keys: KeyShape::sixteen(),
            values: ValuePool::new(VALUE),
            key: Vec::new(),
            asked: 0,
        })
    }
}

impl Cache for Real {
    fn read(&mut self, key: u32, length: usize) -> bool {
        self.key.clear();
        self.keys.append(u64::from(key), &mut self.key);
        let mut lookup = [Lookup::default()];
        self.driver.look_ahead(std::iter::once(&self.key[..]), &mut lookup);
        let hit = self.driver.get(&self.key, lookup[0], NOW).is_some();
        if !hit {
            let value = self.values.get(u64::from(key), length).unwrap_or_default();
            // A refusal would show as a miss.
            let _refused = self.driver.set(&self.key, lookup[0], value, Expiry::Never, NOW);
        }
        self.asked += 1;
        if self.asked.is_multiple_of(BATCH) {
            self.driver.end_batch(NOW);
        }
        hit
    }
}

/// What a cache did after one shift: its hit ratio over time, in fills.
#[derive(Debug, Default, Clone)]
struct Course {
    /// Fills since the shift, and the hit ratio of the window that ended there.
    windows: Vec<(f64, f64)>,
}

impl Course {
    /// The hit ratio of the last third.
    fn level(&self) -> f64 {
        let last = &self.windows[self.windows.len() * 2 / 3..];
        last.iter().map(|(_, ratio)| ratio).sum::<f64>() / last.len().max(1) as f64
    }

    /// The mean of the first two fills.
    fn first(&self) -> f64 {
        let first: Vec<f64> =
            self.windows.iter().filter(|(fills, _)| *fills <= 2.0).map(|(_, ratio)| *ratio).collect();
        first.iter().sum::<f64>() / first.len().max(1) as f64
    }

    /// Fills until the hit ratio of two windows in a row was 95 % of `level`; all there were, if that never was.
    fn recovery(&self, level: f64) -> f64 {
        let is_there = |pair: &&[(f64, f64)]| pair.iter().all(|(_, ratio)| *ratio >= 0.95 * level);
        let end = self.windows.last().map_or(0.0, |(fills, _)| *fills);
        self.windows.windows(2).find(is_there).map_or(end, |pair| pair[0].0)
    }
}

/// The keys of both families: drawn, with their lengths.
struct Families {
    zipf: [Zipf; 2],
    counts: [u64; 2],
}

impl Families {
    fn new(memory: usize) -> Result<Self, Failure> {
        let count = |(least, most): (usize, usize)| {
            (TIMES * memory / (usize::midpoint(least, most) + OVERHEAD)) as u64
        };
        let counts = LENGTHS.map(count);
        let zipf = |count| Zipf::new(count, THETA).map_err(failed);
        Ok(Families { zipf: [zipf(counts[0])?, zipf(counts[1])?], counts })
    }

    fn keys(&self) -> usize {
        (self.counts[0] + self.counts[1]) as usize
    }

    /// A key and the length of its value.
    fn draw(&self, small: f64, rng: &mut Rng) -> (u32, usize) {
        let family = usize::from(rng.unit() >= small);
        let rank = self.zipf[family].draw(rng);
        let key = rank + if family == 1 { self.counts[0] } else { 0 };
        let (least, most) = LENGTHS[family];
        (key as u32, least + (mix64(key) % (most - least + 1) as u64) as usize)
    }
}

/// Drives a cache through the three phases. The courses are those after the two shifts.
fn drive(cache: &mut impl Cache, families: &Families, memory: usize, shift: Shift, seed: u64) -> [Course; 2] {
    let mut rng = Rng::new(seed);
    let mut courses = [const { Course { windows: Vec::new() } }; 3];
    let window = memory / 400;
    for (phase, course) in courses.iter_mut().enumerate() {
        let (mut stored, mut fills) = (0, 0.0);
        while fills < FILLS[phase] {
            let mut hits = 0;
            for _ in 0..window {
                let (key, length) = families.draw(shift.small[phase], &mut rng);
                if cache.read(key, length) {
                    hits += 1;
                } else {
                    stored += length + OVERHEAD;
                }
            }
            fills = stored as f64 / memory as f64;
            course.windows.push((fills, f64::from(hits) / window as f64));
        }
    }
    let [_, there, back] = courses;
    [there, back]
}

const NAMES: [&str; 5] =
    ["pages stay", "the paper's rule", "the engine's rule", "one LRU over all memory", "the engine memc3"];
const RULES: [Rule; 4] = [Rule::Still, Rule::Paper, Rule::Engine, Rule::Global];
const PAPER: usize = 1;
const OURS: usize = 2;
const GLOBAL: usize = 3;
const REAL: usize = 4;

/// Figures of one cache after one shift.
struct Found {
    recovery: Figure,
    first: Figure,
    level: Figure,
}

/// Figures of all caches after both shifts: `[way][cache]`.
fn measure(context: &Context, shift: Shift) -> Result<[Vec<Found>; 2], Failure> {
    let (small, large) = context.scale.pick((8 << 20, 64 << 20), (1 << 20, 8 << 20));
    let mut courses: Vec<Vec<[Course; 2]>> = vec![Vec::new(); NAMES.len()];
    for run in 0..context.runs {
        let seed = context.seed + u64::from(run);
        let families = Families::new(small)?;
        for (cache, rule) in RULES.into_iter().enumerate() {
            let mut model = Classes::new(rule, small, families.keys());
            courses[cache].push(drive(&mut model, &families, small, shift, seed));
        }
        let families = Families::new(large)?;
        courses[REAL].push(drive(&mut Real::open(large)?, &families, large, shift, seed));
    }
    let found = |way: usize| {
        let of = |cache: usize, figure: &dyn Fn(usize, &Course) -> f64| {
            let runs = courses[cache].iter().enumerate();
            Figure::of(&runs.map(|(run, ways)| figure(run, &ways[way])).collect::<Vec<f64>>())
        };
        // One yardstick for all that round up to chunks; the engine has overheads of its own.
        let level = |cache: usize, run: usize| {
            let level = |cache: usize| courses[cache][run][way].level();
            if cache >= GLOBAL { level(cache) } else { level(PAPER).max(level(OURS)) }
        };
        (0..NAMES.len())
            .map(|cache| Found {
                recovery: of(cache, &|run, course| course.recovery(level(cache, run))),
                first: of(cache, &|_, course| course.first()),
                level: of(cache, &|_, course| course.level()),
            })
            .collect()
    };
    Ok([found(0), found(1)])
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for shift in SHIFTS {
        for (found, way) in measure(context, shift)?.into_iter().zip(["to about 1 KB", "back to about 100 B"])
        {
            for (name, found) in NAMES.iter().zip(&found) {
                rows.push(vec![
                    format!("{} {way}", shift.name),
                    (*name).to_owned(),
                    format!("{:.2}", found.recovery),
                    format!("{:.1}", found.first.scaled(100.0)),
                    format!("{:.1}", found.level.scaled(100.0)),
                ]);
            }
            all.push(found);
        }
    }
    let mean = |cache: usize, of: fn(&Found) -> f64| {
        all.iter().map(|found| of(&found[cache])).sum::<f64>() / all.len() as f64
    };
    let recovery = |cache| mean(cache, |found| found.recovery.mean);
    let behind =
        |cache| 100.0 * (mean(GLOBAL, |found| found.level.mean) - mean(cache, |found| found.level.mean));
    let first = |cache| 100.0 * mean(cache, |found| found.first.mean);
    Ok(Outcome {
        how: format!(
            "A model of a cache of {} MiB in 256 pages with classes 1.25 apart and an exact LRU order in each: the rules differ in nothing but when a page moves and who gives it. Reads that miss are followed by a store, Zipf 0.9 over {TIMES} times what fits, values of 50 to 150 and of 500 to 1,500 bytes; the share of the small ones goes from 1 to 0 and back, or from 0.9 to 0.1 and back, each for 6 fills of the cache. Recovered is a cache that has 95 % of the hits that the better of both rules ends with; one LRU, and the engine itself, which has 64 MiB, are measured by what they end with. {} runs.",
            context.scale.pick(8, 1),
            context.runs
        ),
        answers: vec![answer(
            "S17",
            format!(
                "fills until recovered, mean of four shifts: {:.2} by the paper's rule, {:.2} by the engine's, {:.2} by one LRU; hits behind one LRU in the end, points: {:.2} by the paper's rule, {:.2} by the engine's, {:.2} if pages stay",
                recovery(PAPER),
                recovery(OURS),
                recovery(GLOBAL),
                behind(PAPER),
                behind(OURS),
                behind(0)
            ),
            verdict(&[
                ("the paper's rule comes within a point of one LRU", behind(PAPER) < 1.0),
                (
                    "the engine's rule recovers as fast as the paper's or faster",
                    recovery(OURS) <= recovery(PAPER),
                ),
                ("the engine's rule ends with as many hits or more", behind(OURS) <= behind(PAPER)),
                ("it has as many hits or more in the first two fills", first(OURS) >= first(PAPER)),
            ]) + "What is behind one LRU is also what rounding up to chunks costs.",
        )],
        tables: vec![table(
            "After a shift of the sizes:",
            &[
                "shift",
                "cache",
                "fills until recovered",
                "hits in the first two fills, %",
                "hits in the end, %",
            ],
            rows,
        )],
        charts: Vec::new(),
    })
}
