//! A cold cluster beside a warm one: how soon clients are served as by the warm one, and whether what was deleted comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use guira_harness::stats::{number, stats};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::{Rng, Zipf};

use super::fleet::{Client, Gets, Got, Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, Table, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-cold",
    claims: &["S13"],
    about: "A cold cluster with a warm one behind it and without: requests until clients are served as before, and outdated values",
    run,
};

const NODES: usize = 2;
const MEMORY: &str = "64MiB";

const KEYS: u64 = 100_000;
const THETA: f64 = 0.99;
/// Keys that the warm cluster has.
const HELD: u64 = 60_000;
/// Keys that a client asks for at once, and those that are counted together.
const ASKED: usize = 24;
const WINDOW: usize = 50 * ASKED;
/// What part of the warm cluster's hit rate is as good as that.
const AS_GOOD: f64 = 0.95;

/// How the router is told when the cold cluster is warm.
const END: &str = r#""end": {"share": 0.95, "for_s": 1, "min_requests": 1000}"#;

/// Keys that are changed, and the time between two changes.
const CHANGED: u64 = 400;
const BETWEEN: Duration = Duration::from_millis(10);
const READERS: u64 = 4;

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A number of `stats` of a router.
fn count(router: &Router, name: &str) -> Result<u64, Failure> {
    let stats = stats(router.address, "").map_err(failed)?;
    number(&stats, name).ok_or_else(|| failed(format!("its stats lack {name}")))
}

/// How a cluster did until it was as good as the warm one.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    /// Requests until clients have hit as often, and until the cold cluster itself had as much.
    served: Option<u64>,
    own: Option<u64>,
    /// Until the router has asked the warm one no more.
    ended: Option<u64>,
    /// Requests in all, and how many of them until the cold cluster had as much were queries of the database.
    asked: u64,
    queries: u64,
    /// Hits of clients in the first window.
    first: f64,
}

/// Whether a cluster has a warm one behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    Warm,
}

/// Asks until the cold cluster itself is as good as `goal` and its router asks no warm one any more, and fills what clients miss from the database.
fn fill(context: &Context, behind: Behind, goal: f64, most: u64) -> Result<Course, Failure> {
    let seed = context.seed;
    let route = match behind {
        Behind::Nothing => "\"PoolRoute|cold\"".to_owned(),
        Behind::Warm => format!(
            r#"{{"type": "WarmUpRoute", "cold": "PoolRoute|cold", "warm": "PoolRoute|warm", "enable_metaget": true, "hold_off": "native", {END}}}"#
        ),
    };
    let cold = Node::start_all(context, NODES, MEMORY)?;
    let warm = Node::start_all(context, NODES, MEMORY)?;
    let pools = [pool("cold", &cold), pool("warm", &warm)];
    let held: Vec<u64> = (0..HELD).collect();
    let loader = Router::start(context, &pools, "\"PoolRoute|warm\"", &[])?;
    if Client::connect(loader.address)?.set(&held)? > 0 {
        return Err(failed("a key was not stored"));
    }
    let router = Router::start(context, &pools, &route, &[])?;
    let mut client = Client::connect(router.address)?;
    let (zipf, mut rng) = (Zipf::new(KEYS, THETA).map_err(failed)?, Rng::part(seed, 1));
    let mut course = Course::default();
    let mut before = Gets::default();
    let is_over =
        |course: &Course| course.own.is_some() && (behind == Behind::Nothing || course.ended.is_some());
    while !is_over(&course) && course.asked < most {
        let mut hits = 0;
        for _ in 0..WINDOW / ASKED {
            let keys: Vec<u64> = (0..ASKED).map(|_| zipf.draw(&mut rng)).collect();
            let got = client.get(&keys)?;
            let missed: Vec<u64> =
                keys.iter().zip(&got).filter(|(_, got)| **got != Got::Hit).map(|(key, _)| *key).collect();
            hits += (ASKED - missed.len()) as u64;
            client.set(&missed)?;
        }
        course.asked += WINDOW as u64;
        course.queries += if course.own.is_none() { WINDOW as u64 - hits } else { 0 };
        let rate = share(hits, WINDOW as u64);
        if course.asked == WINDOW as u64 {
            course.first = rate;
        }
        let of_cold: Gets = cold.iter().map(Node::gets).sum::<Result<Gets, _>>()?;
        let own = of_cold.since(before);
        before = of_cold;
        let now = Some(course.asked);
        course.served = course.served.or(now.filter(|_| rate >= goal));
        course.own = course.own.or(now.filter(|_| share(own.found, own.asked) >= goal));
        if course.ended.is_none() && count(&router, "warm_ups_ended")? > 0 {
            course.ended = now;
        }
    }
    Ok(course)
}

/// The warm cluster's hit rate: the part of requests for keys that it has.
fn warm_rate(seed: u64) -> Result<f64, Failure> {
    let (zipf, mut rng) = (Zipf::new(KEYS, THETA).map_err(failed)?, Rng::part(seed, 2));
    let drawn = 1_000_000;
    Ok(share((0..drawn).filter(|_| zipf.draw(&mut rng) < HELD).count() as u64, drawn))
}

/// A connection to a cache whose values are numbers.
struct Cache {
    stream: BufReader<TcpStream>,
}

impl Cache {
    fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Cache { stream: BufReader::new(stream) })
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(failed)?;
        Ok(line.trim_end().to_owned())
    }

    fn ask(&mut self, text: &str) -> Result<String, Failure> {
        self.stream.get_mut().write_all(text.as_bytes()).map_err(failed)?;
        self.line()
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        let line = self.ask(&format!("get row:{key}\r\n"))?;
        if line == "END" {
            return Ok(None);
        }
        let length: usize =
            line.rsplit(' ').next().and_then(|length| length.parse().ok()).ok_or_else(|| failed(&line))?;
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value).map_err(failed)?;
        self.line()?;
        let number = String::from_utf8_lossy(&value).trim_end().parse().map_err(failed)?;
        Ok(Some(number))
    }

    fn store(&mut self, verb: &str, key: u64, number: u64) -> Result<String, Failure> {
        let text = number.to_string();
        self.ask(&format!("{verb} row:{key} 0 0 {}\r\n{text}\r\n", text.len()))
    }
}

/// The database, and what readers have seen that was older than it.
struct Rows {
    stop: AtomicBool,
    versions: Vec<AtomicU64>,
    deleted: Vec<AtomicU64>,
    /// The last outdated version that was read of each.
    outdated: Vec<AtomicU64>,
    reads: AtomicU64,
    outdated_reads: AtomicU64,
    outdated_values: AtomicU64,
}

impl Rows {
    fn new() -> Self {
        let ones = || (0..CHANGED).map(|_| AtomicU64::new(1)).collect();
        let (zero, none) = (|| AtomicU64::new(0), (0..CHANGED).map(|_| AtomicU64::new(0)).collect());
        Rows {
            stop: AtomicBool::new(false),
            versions: ones(),
            deleted: ones(),
            outdated: none,
            reads: zero(),
            outdated_reads: zero(),
            outdated_values: zero(),
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Reads rows through the router, and adds what is missing.
fn read(rows: &Rows, mut cache: Cache, mut rng: Rng) -> Result<(), Failure> {
    while rows.goes_on() {
        let key = rng.below(CHANGED);
        let at = key as usize;
        let least = rows.deleted[at].load(Ordering::SeqCst);
        rows.reads.fetch_add(1, Ordering::Relaxed);
        match cache.get(key)? {
            Some(version) if version < least => {
                rows.outdated_reads.fetch_add(1, Ordering::Relaxed);
                let is_new = rows.outdated[at].swap(version, Ordering::Relaxed) != version;
                rows.outdated_values.fetch_add(u64::from(is_new), Ordering::Relaxed);
            }
            Some(_) => {}
            None => {
                let version = rows.versions[at].load(Ordering::SeqCst);
                cache.store("add", key, version)?;
            }
        }
    }
    Ok(())
}

/// Changes rows, deletes their keys through the router, and says so to the warm cluster's side.
fn change(
    rows: &Rows,
    mut cache: Cache,
    mut rng: Rng,
    tell: &mpsc::Sender<(Stopwatch, u64)>,
) -> Result<u64, Failure> {
    let mut deletes = 0;
    while rows.goes_on() {
        let key = rng.below(CHANGED);
        let version = rows.versions[key as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let answer = cache.ask(&format!("delete row:{key}\r\n"))?;
        if answer != "DELETED" && answer != "NOT_FOUND" {
            return Err(failed(answer));
        }
        rows.deleted[key as usize].store(version, Ordering::SeqCst);
        deletes += 1;
        tell.send((Stopwatch::start(), key)).map_err(failed)?;
        std::thread::sleep(BETWEEN);
    }
    Ok(deletes)
}

/// What the warm cluster is told so much later: there, a client fills the key at once.
fn catch_up(
    rows: &Rows,
    mut warm: Cache,
    told: &mpsc::Receiver<(Stopwatch, u64)>,
    lag: Duration,
) -> Result<(), Failure> {
    while let Ok((since, key)) = told.recv() {
        while rows.goes_on() && since.elapsed() < lag {
            std::thread::sleep(lag.saturating_sub(since.elapsed()).min(Duration::from_millis(20)));
        }
        let version = rows.versions[key as usize].load(Ordering::SeqCst);
        warm.store("set", key, version)?;
    }
    Ok(())
}

/// What a time of changes came to.
#[derive(Debug, Clone, Copy)]
struct Staleness {
    deletes: u64,
    fills: u64,
    refused: u64,
    reads: u64,
    outdated_reads: u64,
    outdated_values: u64,
}

fn stale(context: &Context, more: &str, lag: Duration, length: Duration) -> Result<Staleness, Failure> {
    let cold = Node::start_all(context, 1, MEMORY)?;
    let warm = Node::start_all(context, 1, MEMORY)?;
    let route = format!(
        r#"{{"type": "WarmUpRoute", "cold": "PoolRoute|cold", "warm": "PoolRoute|warm", "enable_metaget": true{more}}}"#
    );
    let router = Router::start(context, &[pool("cold", &cold), pool("warm", &warm)], &route, &[])?;
    let mut loader = Cache::connect(warm[0].address())?;
    for key in 0..CHANGED {
        loader.store("set", key, 1)?;
    }
    let (rows, rng) = (Rows::new(), |part| Rng::part(context.seed, part));
    let (tell, told) = mpsc::channel();
    let deletes = std::thread::scope(|scope| {
        let rows = &rows;
        let mut parts = Vec::new();
        for part in 0..READERS {
            let cache = Cache::connect(router.address)?;
            parts.push(scope.spawn(move || read(rows, cache, rng(part))));
        }
        parts.push(scope.spawn(move || catch_up(rows, loader, &told, lag)));
        let cache = Cache::connect(router.address)?;
        let writer = scope.spawn(move || change(rows, cache, rng(READERS), &tell));
        std::thread::sleep(length);
        rows.stop.store(true, Ordering::Relaxed);
        let deletes = writer.join().map_err(|_| failed("the writer panicked"))?;
        parts.into_iter().try_for_each(|part| part.join().map_err(|_| failed("a client panicked"))?)?;
        deletes
    })?;
    Ok(Staleness {
        deletes,
        fills: count(&router, "warm_up_fills_count")?,
        refused: count(&router, "warm_up_refused_count")?,
        reads: rows.reads.into_inner(),
        outdated_reads: rows.outdated_reads.into_inner(),
        outdated_values: rows.outdated_values.into_inner(),
    })
}

/// What is said of hold-off, how long the warm cluster's delete is held back, and how that is called.
const HOLD_OFFS: [(&str, u64, &str); 4] = [
    ("", 1, "none"),
    (r#", "hold_off": "native""#, 1, "2 s, native"),
    (r#", "hold_off": "sentinel""#, 1, "2 s, sentinel"),
    (r#", "hold_off": "native""#, 3, "2 s, native"),
];

fn requests(number: Option<u64>) -> String {
    number.map_or_else(|| "never".to_owned(), |number| number.to_string())
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let rate = warm_rate(context.seed)?;
    let goal = AS_GOOD * rate;
    let most = context.scale.pick(5_000_000, 60_000);
    let length = Duration::from_secs(context.scale.pick(60, 5));
    let without = fill(context, Behind::Nothing, goal, most)?;
    let with = fill(context, Behind::Warm, goal, most)?;
    let all = HOLD_OFFS.iter().map(|(more, lag, _)| stale(context, more, Duration::from_secs(*lag), length));
    let all: Vec<Staleness> = all.collect::<Result<_, _>>()?;
    let [none, short, sentinel, long] = all[..] else { return Err(failed("four ways are measured")) };
    let ratio = without.served.unwrap_or(without.asked) as f64 / with.served.unwrap_or(u64::MAX) as f64;
    Ok(Outcome {
        how: how(rate, length),
        answers: vec![answer(
            "S13",
            format!(
                "clients hit 95 % as often as with the warm cluster after {} requests with it behind the cold one, after {} without, {ratio:.0} ×; until the cold cluster itself \
                 has as much, the database is asked {} times and {} times; outdated values when deletes of the warm cluster are held back for 1 s: {} without hold-off, \
                 {} with 2 s, {} by items in place of deletes; for 3 s with 2 s: {}; adds refused: {} and {}",
                requests(with.served),
                requests(without.served),
                with.queries,
                without.queries,
                none.outdated_values,
                short.outdated_values,
                sentinel.outdated_values,
                long.outdated_values,
                short.refused,
                long.refused
            ),
            verdict(&[
                ("a tenth of the requests", ratio >= 10.0),
                (
                    "no outdated value within the hold-off",
                    short.outdated_values + sentinel.outdated_values == 0,
                ),
                ("outdated values beyond it", long.outdated_values > 0),
                ("outdated values without it", none.outdated_values > 0),
                ("the router lets the warm cluster go", with.ended.is_some()),
            ]) + "The cold cluster itself takes as many requests with either: each key has to be asked for once. What differs is who answers it.",
        )],
        tables: vec![courses(&without, &with), outdated(&all)],
        charts: Vec::new(),
    })
}

fn how(rate: f64, length: Duration) -> String {
    format!(
        "Clusters of {NODES} nodes of {MEMORY} with one worker each behind guira router, all real processes. {KEYS} keys by Zipf's law with {THETA}; the warm cluster has {HELD} of \
         them, which {} % of the requests are for, and the cold one begins empty. A client asks for {ASKED} keys at once and sets what it misses, until the cold nodes themselves hit {AS_GOOD} × \
         as often and the router asks no warm ones any more; {WINDOW} requests are counted together. The router stops asking the warm cluster when the cold one has had 95 % of what either had, over a second. \
         Then {CHANGED} keys on clusters of one node: every {} ms a row is changed, its key deleted through the router, and brought up to date in the warm cluster 1 s or 3 s later; {READERS} clients \
         read through the router, and add what they miss, for {} s. Outdated is a value that is older than a delete that had been answered before it was asked for. It is one run.",
        percent(rate),
        BETWEEN.as_millis(),
        length.as_secs()
    )
}

fn courses(without: &Course, with: &Course) -> Table {
    let row = |name: &str, course: &Course| {
        vec![
            name.to_owned(),
            percent(course.first),
            requests(course.served),
            requests(course.own),
            course.queries.to_string(),
            if course.ended.is_some() { requests(course.ended) } else { "–".to_owned() },
        ]
    };
    table(
        "Requests until a cold cluster is as good as the warm one:",
        &[
            "cold cluster",
            "hits of clients in the first window, %",
            "until clients hit as often",
            "until its own nodes do",
            "queries of the database until then",
            "until the router asks the warm one no more",
        ],
        vec![row("alone", without), row("with the warm one behind it", with)],
    )
}

fn outdated(all: &[Staleness]) -> Table {
    let rows = HOLD_OFFS.iter().zip(all).map(|((_, lag, name), found)| {
        vec![
            (*name).to_owned(),
            lag.to_string(),
            found.deletes.to_string(),
            found.fills.to_string(),
            found.refused.to_string(),
            found.outdated_values.to_string(),
            format!("{} of {}", found.outdated_reads, found.reads),
        ]
    });
    table(
        "Outdated values in the cold cluster:",
        &[
            "hold-off",
            "the warm cluster is late, s",
            "deletes",
            "fills",
            "refused adds",
            "outdated values",
            "outdated reads",
        ],
        rows.collect(),
    )
}
