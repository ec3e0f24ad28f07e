//! I3, I7, I10, I14 and I16: engines inside the process, on one core and on two.

use guira_contract::{Engine, Expiry, Opened, Pace, Partitioning, Session};
use guira_harness::driver::{Driver, Lookup, Maintenance};
use guira_harness::together::{Placement, together};
use guira_roster::{Choice, Host, Setup};
use guira_sync::clock::Seconds;

use super::{Data, KEY_MAX, LARGE, Request, SKEWED, SMALL, TINY, loads};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mica-inside",
    claims: &["I3", "I7", "I10", "I14", "I16"],
    about: "Requests per second of engines inside the process, in batches of 32, on one core and on two",
    run,
};

/// An engine with its access mode.
pub(super) const ENGINES: [(&str, Option<&str>); 8] = [
    ("mica", Some("erew")),
    ("mica", Some("crew")),
    ("mica", Some("crcw")),
    ("mica-store", Some("erew")),
    ("memc3", None),
    ("fleec", None),
    ("memclock", None),
    ("classic", None),
];
const EREW: usize = 0;
const CREW: usize = 1;
const CRCW: usize = 2;
const STORE: usize = 3;
const MEMC3: usize = 4;

pub(super) fn label((engine, access): (&str, Option<&str>)) -> String {
    access.map_or(engine.to_owned(), |access| format!("{engine} {access}"))
}

const BATCH: usize = 32;
const MAINTENANCE: Maintenance = Maintenance { every: 8, steps: 32 };
/// The longest value of all data.
const VALUE_MAX: usize = LARGE.value;
/// The most slices of maintenance after an engine was filled.
const MAINTAINED_MOST: usize = 1 << 20;
const NOW: Seconds = Seconds(1000);

/// An engine, whichever it is.
trait Served: Sync {
    fn fill(&self, data: Data, keys: u32) -> Result<(), Failure>;
    /// Serves the requests of each thread; returns the seconds until the last thread was done.
    fn serve(&self, data: Data, threads: &[Vec<Request>]) -> Result<f64, Failure>;
    /// Divides requests among `threads` threads by the home of their keys.
    fn divide(&self, data: Data, requests: &[Request], threads: usize) -> Vec<Vec<Request>>;
}

struct Make;

impl Host for Make {
    type Output = Box<dyn Served>;

    fn run<E: Engine + Clone>(self, opened: Opened<E>) -> Box<dyn Served> {
        Box::new(Inside(opened.engine))
    }
}

struct Inside<E>(E);

fn serve<S: Session>(session: S, data: Data, requests: &[Request]) -> Result<(), Failure> {
    let mut driver = Driver::<S, VALUE_MAX>::new(session, MAINTENANCE);
    let value = vec![7; data.value];
    let mut keys = [[0; KEY_MAX]; BATCH];
    let mut lookups = [Lookup::default(); BATCH];
    let mut missed = 0;
    for batch in requests.chunks(BATCH) {
        for (request, key) in batch.iter().zip(&mut keys) {
            data.key(request.id, key);
        }
        let lookups = &mut lookups[..batch.len()];
        driver.look_ahead(keys.iter().map(|key| &key[..data.key]), lookups);
        for ((request, key), lookup) in batch.iter().zip(&keys).zip(&*lookups) {
            let key = &key[..data.key];
            if request.is_set {
                driver.set(key, *lookup, &value, Expiry::Never, NOW).map_err(failed)?;
            } else if driver.get(key, *lookup, NOW).is_none() {
                missed += 1;
            }
        }
        driver.end_batch(NOW);
    }
    // A lossy index may lose a little while it grows.
    if missed * 100 > requests.len() {
        return Err(Failure::Other(format!("{missed} of {} keys are gone", requests.len())));
    }
    Ok(())
}

impl<E: Engine> Served for Inside<E> {
    fn fill(&self, data: Data, keys: u32) -> Result<(), Failure> {
        let mut driver = Driver::<_, VALUE_MAX>::new(self.0.session(), MAINTENANCE);
        let (value, mut key) = (vec![7; data.value], [0; KEY_MAX]);
        for id in 0..keys {
            let key = data.key(id, &mut key);
            let lookup = driver.look_up(key);
            driver.set(key, lookup, &value, Expiry::Never, NOW).map_err(failed)?;
            if id.is_multiple_of(BATCH as u32) {
                driver.end_batch(NOW);
            }
        }
        let session = driver.session();
        // What is measured is not how a table grows.
        for _ in 0..MAINTAINED_MOST {
            if session.maintain(NOW, Pace::Idle, BATCH) == 0 {
                break;
            }
        }
        session.offline();
        Ok(())
    }

    fn serve(&self, data: Data, threads: &[Vec<Request>]) -> Result<f64, Failure> {
        let (done, seconds) = together(threads.len(), Placement::Free, |thread| {
            serve(self.0.session(), data, &threads[thread])
        });
        done.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(seconds)
    }

    fn divide(&self, data: Data, requests: &[Request], threads: usize) -> Vec<Vec<Request>> {
        let session = self.0.session();
        let usual = Partitioning { bits: 4, access: Default::default(), seed: 0 };
        let partitioning = self.0.partitioning().unwrap_or(usual);
        let mut divided = vec![Vec::new(); threads];
        let mut key = [0; KEY_MAX];
        for request in requests {
            let hash = session.hash(data.key(request.id, &mut key));
            divided[partitioning.home(hash, threads)].push(*request);
        }
        divided
    }
}

fn open((engine, access): (&str, Option<&str>), memory: usize) -> Result<Box<dyn Served>, Failure> {
    let mut choice = Choice::new(engine, None, None).map_err(failed)?;
    if let Some(access) = access {
        choice = choice.with_access(access).map_err(failed)?;
    }
    choice.open(&Setup::new(memory, 1 << 20, 1), Make).map_err(failed)
}

/// Millions of requests per second: by engine, then by load; on one core, and on two with the threads that keys are at home at.
struct Rates {
    one: Vec<Vec<Vec<f64>>>,
    two: Vec<Vec<Vec<f64>>>,
}

fn measure(context: &Context, data: Data, keys: u32, count: usize) -> Result<Rates, Failure> {
    let loads = loads(data, keys);
    let mut rates = Rates { one: Vec::new(), two: Vec::new() };
    let memory = context.scale.pick(4 << 30, 256 << 20);
    for engine in ENGINES {
        let cache = open(engine, memory)?;
        cache.fill(data, keys)?;
        let (mut one, mut two) = (vec![Vec::new(); loads.len()], vec![Vec::new(); loads.len()]);
        for run in 0..context.runs {
            for (load, ask) in loads.iter().enumerate() {
                let requests = ask.requests(count, context.seed + u64::from(run))?;
                let per_s = |seconds: f64| count as f64 / seconds / 1e6;
                let divided = cache.divide(data, &requests, 2);
                one[load].push(per_s(cache.serve(data, &[requests])?));
                two[load].push(per_s(cache.serve(data, &divided)?));
            }
        }
        rates.one.push(one);
        rates.two.push(two);
    }
    Ok(rates)
}

fn rows(rates: &[Vec<Vec<f64>>]) -> Vec<Vec<String>> {
    let row = |(engine, loads): (usize, &Vec<Vec<f64>>)| {
        let cells = loads.iter().map(|runs| Figure::of(runs).to_string());
        std::iter::once(label(ENGINES[engine])).chain(cells).collect()
    };
    rates.iter().enumerate().map(row).collect()
}

fn tables(data: Data, rates: &Rates) -> [Table; 2] {
    let head =
        ["engine", "uniform, 50 % get", "uniform, 95 % get", "Zipf 0.99, 50 % get", "Zipf 0.99, 95 % get"];
    let title = |cores: &str| {
        format!(
            "{} items ({} + {} bytes), million requests per second, {cores}:",
            data.name, data.key, data.value
        )
    };
    [
        table(&title("one core"), &head, rows(&rates.one)),
        table(&title("two threads, each with the keys that are at home there"), &head, rows(&rates.two)),
    ]
}

fn mean(rates: &[Vec<Vec<f64>>], engine: usize, load: usize) -> f64 {
    Figure::of(&rates[engine][load]).mean
}

/// mica's rate with EREW as a multiple of another engine's.
fn over(rates: &[Vec<Vec<f64>>], load: usize, other: usize) -> f64 {
    mean(rates, EREW, load) / mean(rates, other, load)
}

/// An engine's rates as shares of mica's with EREW, by load.
fn of_erew(rates: &[Vec<Vec<f64>>], engine: usize) -> String {
    let shares: Vec<String> = (0..4).map(|load| format!("{:.2}", 1.0 / over(rates, load, engine))).collect();
    shares.join(" / ")
}

/// What is found of tiny items on one core.
fn on_one_core(tiny: &Rates) -> Vec<Answer> {
    let each = |engine: usize| {
        (0..4).map(|load| Figure::of(&tiny.one[engine][load]).to_string()).collect::<Vec<_>>().join(" / ")
    };
    let skew = |rates: &[Vec<Vec<f64>>], gets: usize| mean(rates, EREW, 2 + gets) / mean(rates, EREW, gets);
    vec![
        answer(
            "I3",
            format!(
                "Zipf ÷ uniform: on one core {:.2} at 50 % get and {:.2} at 95 %, on two, each with its own partitions, {:.2} and {:.2}",
                skew(&tiny.one, 0),
                skew(&tiny.one, 1),
                skew(&tiny.two, 0),
                skew(&tiny.two, 1)
            ),
            verdict(&[(
                "a penalty of at most 14 % for skew",
                [0, 1].iter().all(|&gets| skew(&tiny.two, gets) >= 0.86),
            )]) + "Hot keys lie in the processor's caches.",
        ),
        answer(
            "I7",
            format!("mica-store ÷ mica, tiny items: {}", of_erew(&tiny.one, STORE)),
            verdict(&[("less than a third lost", (0..4).all(|load| over(&tiny.one, load, STORE) < 1.5))])
                + "In the order of the table. The store has to leave items where they are and to link buckets that are full.",
        ),
        answer(
            "I10",
            format!(
                "tiny items, one core, mica EREW, M/s: {} (uniform 50, 95 % get, Zipf 50, 95 %); CREW {}",
                each(EREW),
                each(CREW)
            ),
            verdict(&[
                ("skewed is faster than uniform", [0, 1].iter().all(|&gets| skew(&tiny.one, gets) > 1.0)),
                (
                    "EREW and CREW are alike, within a tenth",
                    (0..4).all(|load| (over(&tiny.one, load, CREW) - 1.0).abs() < 0.1),
                ),
            ]) + "The paper has 8.5 to 10.9 M a core of 2012.",
        ),
    ]
}

/// What is found of tiny items on two threads.
fn on_two_threads(tiny: &Rates) -> Vec<Answer> {
    vec![
        answer(
            "I14",
            format!(
                "two threads, tiny items, ÷ EREW: CREW {}; CRCW {}",
                of_erew(&tiny.two, CREW),
                of_erew(&tiny.two, CRCW)
            ),
            verdict(&[(
                "CRCW is never ahead of EREW",
                (0..4).all(|load| over(&tiny.two, load, CRCW) >= 1.0),
            )]) + "Requests go to where their keys are at home in all three. CRCW takes a partition for each write.",
        ),
        answer(
            "I16",
            format!("memc3 ÷ mica EREW, two threads, each with its own keys: {}", of_erew(&tiny.two, MEMC3)),
            verdict(&[(
                "partitioning alone reaches less than half of mica",
                (0..4).all(|load| over(&tiny.two, load, MEMC3) > 2.0),
            )]) + "memc3 stands for the paper's Masstree: keys are divided among threads so that its readers and writers never meet, and it does what it does for others all the same.",
        ),
    ]
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let sizes = [
        (TINY, context.scale.pick(12 << 20, 20_000), context.scale.pick(4 << 20, 20_000)),
        (SMALL, context.scale.pick(8 << 20, 10_000), context.scale.pick(4 << 20, 20_000)),
        (LARGE, context.scale.pick(1 << 20, 5_000), context.scale.pick(1 << 20, 5_000)),
    ];
    let mut all = Vec::new();
    for (data, keys, count) in sizes {
        all.push(measure(context, data, keys, count)?);
    }
    Ok(Outcome {
        how: format!(
            "Each engine holds {} tiny, {} small or {} large items in 4 GiB, and is asked for keys that are all there, {} of them a run, hashed, prefetched and executed in batches of {BATCH}, as a worker does it, once its index has stopped growing; Zipf's exponent is {SKEWED}. On two threads, each has the requests whose keys are at home at it, in the order of one stream, and the time is that of the slower one.",
            sizes[0].1, sizes[1].1, sizes[2].1, sizes[0].2
        ),
        answers: [on_one_core(&all[0]), on_two_threads(&all[0])].concat(),
        tables: sizes.iter().zip(&all).flat_map(|((data, ..), rates)| tables(*data, rates)).collect(),
        charts: Vec::new(),
    })
}
