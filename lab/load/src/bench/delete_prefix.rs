//! A delete by prefix under load: what the crawl after `flush_prefix` costs clients that request
//! other keys, and whether a key under the prefix is found after the reply.
//!
//! Each round has two deletes. The first is measured under load, before, during and after the
//! crawl. During the second a client requests all keys under the prefix repeatedly, from the reply
//! until the end of the crawl.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::process::Process;
use guira_harness::rounds::median_of;
use guira_harness::stats::{number, stats};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::mix::Weights;
use guira_workload::{Generator, KeyShape, Mix, Model, OnMiss, Operation, Rng, ValuePool};
use serde::Serialize;

use super::SAMPLE;
use super::columns::{rows, significant};
use super::driver::{Bench, HELD_MIN, require_held};
use super::parameters::Scale;
use crate::clock::{Clock, MonotonicClock};
use crate::counters::Counters;
use crate::engine::{Observer, Plan, Quiet, Span};
use crate::error::LoadError;
use crate::pace::Pace;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::{Outcome, run_source};
use crate::server::{Kind, Server, Spec};
use crate::source::{Draws, Preload, Source, Subject};
use crate::target::Target;

const NAME: &str = "delete-prefix";
/// The text above the table.
pub(super) const CAPTION: &str = "A tenth of the items is deleted by prefix while 95 % gets and 5 % sets ask for others: medians of the rounds, in millions of operations \
    per second of server processor time, and of time; what is kept while the crawler is at work is of the mean before and after. What \
    was found is of the keys under the prefix that were asked for from the reply on.";

const VALUE_LEN: u32 = 32;
/// The keys have this many prefixes, and one of them is deleted.
const FAMILIES: u64 = 10;
/// Keys of a get under the prefix.
const TOGETHER: u32 = 100;
/// The share of the items under the prefix that are gone at the end of the crawl: the load may set
/// some again of those that mica's index has lost.
const GONE_MIN: f64 = 0.9;
const CRAWL_MAX: Duration = Duration::from_secs(900);
/// The first interval between `stats` requests about the crawler, and the later ones as a part of
/// the elapsed time: `stats` takes half a millisecond of the server, and 40 a second would distort
/// the measurement by a twentieth.
const LOOK: Duration = Duration::from_millis(25);
const LOOK_PART: u32 = 20;
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Time before the measurement, in which the load starts.
const WARMUP: Duration = Duration::from_millis(300);

/// The keys to delete, and the time of the load before and after.
#[derive(Debug, Clone)]
pub struct Case {
    /// The number of keys that are set; a tenth of them is deleted.
    pub keys: u64,
    /// The server's memory in bytes.
    pub memory: u64,
    /// The time before the delete, and after the crawl.
    pub duration: Duration,
}

impl Case {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            keys: scale.part(10_000_000),
            memory: scale.part(2 << 30),
            duration: scale.or(Duration::from_secs(15), Duration::from_millis(500)),
        }
    }
}

/// The throughput of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Operations per second of time.
    pub per_s: f64,
    /// Per second of the server's processor time.
    pub per_cpu_s: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Round {
    /// The time to the replies of both deletes, in microseconds.
    pub reply_us: [f64; 2],
    /// The time from the reply to the end of the crawl, in seconds.
    pub crawl_s: f64,
    /// The load before the delete.
    pub before: Rate,
    /// The load from the reply to the end of the crawl.
    pub during: Rate,
    /// The load after the prefix was deleted.
    pub after: Rate,
    /// Keys under the prefix that were requested after the reply.
    #[serde(rename = "asked")]
    pub requested: u64,
    pub found: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Deleted {
    pub engine: String,
    pub items: u64,
    pub rounds: Vec<Round>,
}

impl Round {
    /// The throughput during the crawl, as a share of that without it.
    #[must_use]
    pub fn kept(&self, of: fn(&Rate) -> f64) -> f64 {
        of(&self.during) / f64::midpoint(of(&self.before), of(&self.after)).max(1e-9)
    }
}

impl Deleted {
    #[must_use]
    pub fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median_of(&self.rounds, of)
    }

    #[must_use]
    pub fn slowest_us(&self) -> f64 {
        self.rounds.iter().flat_map(|round| round.reply_us).fold(0.0, f64::max)
    }
}

/// Measures each engine of a Guira; other servers are skipped with a notice.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Deleted>, LoadError> {
    let case = Case::new(bench.scale());
    let mut all = Vec::new();
    for (engine, kind) in bench.engines(NAME) {
        bench.log(&format!("{NAME}: setting {} keys in {engine}", case.keys));
        all.push(measure(&case, engine, kind, bench)?);
    }
    Ok(all)
}

fn measure(case: &Case, engine: &str, kind: Kind, bench: &mut Bench<'_>) -> Result<Deleted, LoadError> {
    let options = bench.options;
    let server = Server::start(&Spec::new(kind, case.memory, &options.server_cores))?;
    let field =
        Field { keys: case.keys, addr: server.addr(), process: server.process(), duration: case.duration };
    field.set(0..case.keys)?;
    let items = server.stat("curr_items")?;
    require_held(engine, items, case.keys)?;
    let rounds = bench.repeat(NAME, engine, |number| {
        let mut round = field.during_load(options.seed.wrapping_add(number as u64))?;
        field.set(field.family())?;
        field.requested(&mut round)?;
        field.set(field.family())?;
        let line = format!(
            "{:.0} us, crawled in {:.2} s, {:.3} of the operations per CPU second, {:.3} per second; {} of {} found",
            round.reply_us[0],
            round.crawl_s,
            round.kept(|rate| rate.per_cpu_s),
            round.kept(|rate| rate.per_s),
            round.found,
            round.requested
        );
        Ok((round, line))
    })?;
    Ok(Deleted { engine: engine.to_owned(), items, rounds })
}

pub(super) fn table(results: &[Deleted]) -> String {
    let millions = |deleted: &Deleted, of: fn(&Round) -> f64| significant(deleted.median(of) / 1e6, 3);
    let kept = |deleted: &Deleted, of: fn(&Rate) -> f64| {
        format!("{:.1}", 100.0 * deleted.median(|round| round.kept(of)))
    };
    rows(
        results,
        &[
            ("engine", &|deleted| deleted.engine.clone()),
            ("items", &|deleted| deleted.items.to_string()),
            ("reply, µs", &|deleted| format!("{:.0}", deleted.median(|round| round.reply_us[0]))),
            ("slowest", &|deleted| format!("{:.0}", deleted.slowest_us())),
            ("crawl, s", &|deleted| significant(deleted.median(|round| round.crawl_s), 3)),
            ("before, M/CPU s", &|deleted| millions(deleted, |round| round.before.per_cpu_s)),
            ("during", &|deleted| millions(deleted, |round| round.during.per_cpu_s)),
            ("after", &|deleted| millions(deleted, |round| round.after.per_cpu_s)),
            ("kept, %", &|deleted| kept(deleted, |rate| rate.per_cpu_s)),
            ("before, M/s", &|deleted| millions(deleted, |round| round.before.per_s)),
            ("during", &|deleted| millions(deleted, |round| round.during.per_s)),
            ("after", &|deleted| millions(deleted, |round| round.after.per_s)),
            ("kept, %", &|deleted| kept(deleted, |rate| rate.per_s)),
            ("found of those asked for", &|deleted| {
                let sum = |of: fn(&Round) -> u64| deleted.rounds.iter().map(of).sum::<u64>();
                format!("{} of {}", sum(|round| round.found), sum(|round| round.requested))
            }),
        ],
    )
}

/// A server and its keys.
struct Field {
    keys: u64,
    addr: SocketAddr,
    process: Process,
    duration: Duration,
}

/// A delete by prefix and its crawl.
struct Crawl {
    /// When the delete was sent, when its reply arrived, and when the crawl ended.
    sent_ns: u64,
    answered_ns: u64,
    through_ns: u64,
}

impl Crawl {
    fn reply_us(&self) -> f64 {
        (self.answered_ns - self.sent_ns) as f64 / 1e3
    }
}

impl Field {
    /// The numbers of the keys under the prefix.
    const fn family(&self) -> std::ops::Range<u64> {
        self.keys - self.keys / FAMILIES..self.keys
    }

    fn model(&self, mix: Mix) -> Model {
        let keys = KeyShape::families(self.keys / FAMILIES);
        Model::uniform(keys, self.family().start, VALUE_LEN, mix)
    }

    fn run<S: Source>(
        &self,
        (connections, pipeline): (usize, usize),
        source: S,
        clock: MonotonicClock,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        let plan = Plan {
            target: Target::text(self.addr),
            connections,
            pipeline,
            pace: Pace::Closed,
            style: ItemStyle { flags: 0, multiget_keys: TOGETHER },
            check: Check::Contents { sample: SAMPLE },
            span: Span { from_ns: 0, until_ns: None },
        };
        let outcome = run_source(&plan, source, ValuePool::new(VALUE_LEN as usize), clock, None, observer)?;
        outcome.require_right()?;
        Ok(outcome)
    }

    fn set(&self, keys: std::ops::Range<u64>) -> Result<(), LoadError> {
        let source = Preload::new(self.model(Mix::Only(Operation::Set)), keys.start, keys.end);
        self.run((4, 64), source, MonotonicClock::start(), &mut Quiet)?;
        Ok(())
    }

    /// Deletes by prefix under a load on other keys.
    fn during_load(&self, seed: u64) -> Result<Round, LoadError> {
        let weights = Weights { get: 0.95, set: 0.05, ..Weights::default() };
        let mix = Mix::new(&weights).map_err(|error| LoadError::Options(error.to_string()))?;
        let (clock, stop) = (MonotonicClock::start(), AtomicBool::new(false));
        let draws = Draws::new(Generator::new(self.model(mix), Rng::new(seed)));
        let mut timeline = Timeline { clock, process: self.process, points: Vec::new() };
        let (crawl, outcome) = thread::scope(|scope| {
            let deleter = scope.spawn(|| {
                thread::sleep(WARMUP + self.duration);
                let crawl = self.delete(clock);
                thread::sleep(self.duration);
                stop.store(true, Ordering::Relaxed);
                crawl
            });
            let source = Until { draws, stop: &stop };
            let outcome = self.run((16, 32), source, clock, &mut timeline);
            (joined(deleter.join()), outcome)
        });
        let (crawl, outcome) = (crawl?, outcome?);
        let counts = &outcome.counters.counts;
        if (counts.hits as f64) < HELD_MIN * counts.gets as f64 {
            return Err(LoadError::Options(format!(
                "{} of {} other keys were found",
                counts.hits, counts.gets
            )));
        }
        let span = self.duration.as_nanos() as u64;
        Ok(Round {
            reply_us: [crawl.reply_us(), 0.0],
            crawl_s: (crawl.through_ns - crawl.answered_ns) as f64 / 1e9,
            before: timeline.rate(crawl.sent_ns - span, crawl.sent_ns),
            during: timeline.rate(crawl.answered_ns, crawl.through_ns),
            after: timeline.rate(crawl.through_ns, crawl.through_ns + span),
            ..Round::default()
        })
    }

    /// Deletes by prefix, and requests the deleted keys from the reply on.
    fn requested(&self, round: &mut Round) -> Result<(), LoadError> {
        let (clock, stop) = (MonotonicClock::start(), AtomicBool::new(false));
        let once = AtomicBool::new(true);
        let before = self.run((1, 4), self.sweep(&once), clock, &mut Quiet)?;
        let counts = &before.counters.counts;
        if (counts.hits as f64) < HELD_MIN * counts.gets as f64 {
            let (hits, gets) = (counts.hits, counts.gets);
            return Err(LoadError::Options(format!("{hits} of {gets} keys were found before the delete")));
        }
        let mut connection = Connection::open(self.addr)?;
        let held = connection.items()?;
        let sent_ns = clock.now_ns();
        connection.delete()?;
        round.reply_us[1] = (clock.now_ns() - sent_ns) as f64 / 1e3;
        let (through, outcome) = thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let through = connection.wait_until_through(held, self.keys);
                stop.store(true, Ordering::Relaxed);
                through
            });
            let outcome = self.run((1, 4), self.sweep(&stop), clock, &mut Quiet);
            (joined(waiter.join()), outcome)
        });
        through?;
        let counts = outcome?.counters.counts;
        (round.requested, round.found) = (counts.gets, counts.hits);
        Ok(())
    }

    fn sweep<'a>(&self, stop: &'a AtomicBool) -> Sweep<'a> {
        let (model, keys) = (self.model(Mix::Only(Operation::Multiget)), self.family());
        Sweep { model, next: keys.start, keys, swept: false, stop }
    }

    fn delete(&self, clock: MonotonicClock) -> Result<Crawl, LoadError> {
        let mut connection = Connection::open(self.addr)?;
        let held = connection.items()?;
        let sent_ns = clock.now_ns();
        connection.delete()?;
        let answered_ns = clock.now_ns();
        connection.wait_until_through(held, self.keys)?;
        Ok(Crawl { sent_ns, answered_ns, through_ns: clock.now_ns() })
    }
}

fn joined<T>(result: thread::Result<Result<T, LoadError>>) -> Result<T, LoadError> {
    result.unwrap_or_else(|_| Err(LoadError::Options("a thread panicked".to_owned())))
}

fn lacking(name: &str) -> LoadError {
    LoadError::Options(format!("stats lack {name}"))
}

struct Connection {
    addr: SocketAddr,
    socket: BufReader<TcpStream>,
}

impl Connection {
    fn open(addr: SocketAddr) -> Result<Self, LoadError> {
        let connect = || -> io::Result<TcpStream> {
            let socket = TcpStream::connect(addr)?;
            socket.set_nodelay(true)?;
            Ok(socket)
        };
        let socket = connect().map_err(|source| LoadError::Connect { addr, source })?;
        Ok(Self { addr, socket: BufReader::new(socket) })
    }

    fn stats(&self) -> Result<Vec<(String, String)>, LoadError> {
        stats(self.addr, "").map_err(|source| LoadError::Connect { addr: self.addr, source })
    }

    fn items(&self) -> Result<u64, LoadError> {
        number(&self.stats()?, "curr_items").ok_or_else(|| lacking("curr_items"))
    }

    /// Deletes the keys of the last prefix.
    fn delete(&mut self) -> Result<(), LoadError> {
        let prefix = KeyShape::prefix(FAMILIES - 1);
        let request = [b"flush_prefix ", prefix.as_slice(), b"\r\n"].concat();
        let mut line = String::new();
        let failed = LoadError::system("a delete by prefix failed");
        self.socket.get_mut().write_all(&request).map_err(&failed)?;
        self.socket.read_line(&mut line).map_err(&failed)?;
        if line == "OK\r\n" {
            return Ok(());
        }
        Err(LoadError::Options(format!("a delete by prefix is answered with {line:?}")))
    }

    /// Waits until the items under the prefix, about a tenth of `held`, are gone and the crawler
    /// rests.
    fn wait_until_through(&self, held: u64, keys: u64) -> Result<(), LoadError> {
        let gone = (GONE_MIN * (keys / FAMILIES) as f64 * held as f64 / keys as f64) as u64;
        let (deadline, since) = (Deadline::after(CRAWL_MAX), Stopwatch::start());
        while deadline.left().is_some() {
            let found = self.stats()?;
            let of = |name: &str| number(&found, name).ok_or_else(|| lacking(name));
            if of("curr_items")? + gone <= held && of("lru_crawler_running")? == 0 {
                return Ok(());
            }
            thread::sleep((since.elapsed() / LOOK_PART).clamp(LOOK, LOOK_MAX));
        }
        Err(LoadError::Options(format!("no end of the crawl within {CRAWL_MAX:?}")))
    }
}

/// Draws that end when `stop` is set.
struct Until<'a> {
    draws: Draws,
    stop: &'a AtomicBool,
}

impl Source for Until<'_> {
    fn next_operation(&mut self) -> Option<Operation> {
        if self.stop.load(Ordering::Relaxed) { None } else { self.draws.next_operation() }
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        self.draws.append_key(out)
    }
}

/// Gets of all keys of a range in order, repeated until `stop` is set; at least once.
struct Sweep<'a> {
    model: Model,
    keys: std::ops::Range<u64>,
    next: u64,
    swept: bool,
    stop: &'a AtomicBool,
}

impl Source for Sweep<'_> {
    fn next_operation(&mut self) -> Option<Operation> {
        let is_over = self.swept && self.stop.load(Ordering::Relaxed);
        (!is_over).then_some(Operation::Multiget)
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let id = self.next;
        self.next += 1;
        if self.next == self.keys.end {
            (self.next, self.swept) = (self.keys.start, true);
        }
        self.model.keys.append(id, out);
        Subject { id, value_len: VALUE_LEN, exptime: 0, on_miss: OnMiss::Leave }
    }
}

/// The progress of a load at several times.
#[derive(Debug)]
struct Timeline {
    clock: MonotonicClock,
    process: Process,
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    at_ns: f64,
    operations: f64,
    cpu_ns: f64,
}

impl Observer for Timeline {
    fn progress(&mut self, counters: &Counters) {
        let cpu_ns = self.process.cpu_ns().unwrap_or(0) as f64;
        let operations = counters.counts.operations() as f64;
        self.points.push(Point { at_ns: self.clock.now_ns() as f64, operations, cpu_ns });
    }
}

impl Timeline {
    /// The progress at this time, interpolated between two known points.
    fn at(&self, at_ns: f64) -> Option<Point> {
        let next =
            self.points.partition_point(|point| point.at_ns < at_ns).clamp(1, self.points.len().max(2) - 1);
        let (before, after) = (self.points.get(next - 1)?, self.points.get(next)?);
        let share = ((at_ns - before.at_ns) / (after.at_ns - before.at_ns)).clamp(0.0, 1.0);
        let between = |from: f64, to: f64| from + share * (to - from);
        Some(Point {
            at_ns: between(before.at_ns, after.at_ns),
            operations: between(before.operations, after.operations),
            cpu_ns: between(before.cpu_ns, after.cpu_ns),
        })
    }

    fn rate(&self, from_ns: u64, to_ns: u64) -> Rate {
        let (Some(from), Some(to)) = (self.at(from_ns as f64), self.at(to_ns as f64)) else {
            return Rate::default();
        };
        let each = |of: f64| (to.operations - from.operations) * 1e9 / of.max(1.0);
        Rate { per_s: each(to.at_ns - from.at_ns), per_cpu_s: each(to.cpu_ns - from.cpu_ns) }
    }
}

#[cfg(test)]
mod tests {
    use guira_harness::process::Process;
    use guira_sync::atomic::{AtomicBool, Ordering};
    use guira_workload::KeyShape;

    use super::{Deleted, Field, Point, Rate, Round, Timeline};
    use crate::clock::MonotonicClock;
    use crate::source::Source;

    fn field(keys: u64) -> Field {
        let process = Process::new(std::process::id());
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        Field { keys, addr, process, duration: std::time::Duration::ZERO }
    }

    #[test]
    fn a_sweep_asks_for_each_key_under_the_prefix_before_it_ends() {
        let stop = AtomicBool::new(true);
        let mut sweep = field(1000).sweep(&stop);
        let mut keys = std::collections::HashSet::new();
        while sweep.next_operation().is_some() {
            let mut key = Vec::new();
            let id = sweep.append_key(&mut key).id;
            assert!((900..1000).contains(&id) && key.starts_with(&KeyShape::prefix(9)), "{id}");
            keys.insert(key);
        }
        assert_eq!(keys.len(), 100);
        stop.store(false, Ordering::Relaxed);
        assert!(sweep.next_operation().is_some(), "it goes on until it is told to stop");
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let point = |at_s: f64, operations: f64, cpu_s: f64| Point {
            at_ns: at_s * 1e9,
            operations,
            cpu_ns: cpu_s * 1e9,
        };
        let points = vec![
            point(0.0, 0.0, 0.0),
            point(1.0, 100.0, 0.5),
            point(3.0, 500.0, 1.5),
            point(4.0, 500.0, 1.5),
        ];
        let process = Process::new(std::process::id());
        let timeline = Timeline { clock: MonotonicClock::start(), process, points };
        assert_eq!(timeline.rate(1_000_000_000, 3_000_000_000), Rate { per_s: 200.0, per_cpu_s: 400.0 });
        assert_eq!(timeline.rate(500_000_000, 2_000_000_000).per_s, 250.0 / 1.5);
        let empty = Timeline { points: Vec::new(), ..timeline };
        assert_eq!(empty.rate(0, 1), Rate::default());
    }

    #[test]
    fn what_is_kept_is_of_the_load_before_and_after() {
        let rate = |per_s| Rate { per_s, per_cpu_s: 2.0 * per_s };
        let round = Round { before: rate(80.0), during: rate(90.0), after: rate(120.0), ..Round::default() };
        assert_eq!(round.kept(|rate| rate.per_s), 0.9);
        let slow = Round { reply_us: [1.0, 7.0], crawl_s: 2.0, ..round };
        let deleted = Deleted { engine: "memc3".to_owned(), items: 1, rounds: vec![round, slow] };
        assert_eq!((deleted.slowest_us(), deleted.median(|round| round.crawl_s)), (7.0, 1.0));
    }
}
