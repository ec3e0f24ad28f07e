//! A delete by prefix beside a load: what the crawl after `flush_prefix` costs those who ask for other keys, and whether
//! a key under the prefix is found after the reply.
//!
//! Each round has two deletes. During the first only the load runs, before, while and after the crawler is at work; during the
//! second a client asks for all keys under the prefix again and again, from the reply on until the crawler is through.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::process::Process;
use guira_harness::rounds::median;
use guira_harness::stats::{number, stats};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::mix::Weights;
use guira_workload::{
    Expiry, Generator, KeyShape, Mix, Model, OnMiss, Operation, Popularity, Rng, SizeModel, ValuePool,
};
use serde::Serialize;

use super::{Options, SAMPLE};
use crate::clock::{Clock, MonotonicClock};
use crate::counters::Counters;
use crate::engine::{Observer, Plan, Quiet, Span};
use crate::error::LoadError;
use crate::floor::Shape;
use crate::pace::Pace;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::{Outcome, run_source};
use crate::server::{Kind, Server, Spec, Wire};
use crate::source::{Draws, Preload, Source, Subject};
use crate::target::Target;

const VALUE_LEN: u32 = 32;
/// The keys are of this many families, and one of them is deleted.
const FAMILIES: u64 = 10;
/// Keys of a get under the prefix.
const TOGETHER: u32 = 100;
/// The share of the keys set that a server must hold: mica's index may lose some.
const HELD_MIN: f64 = 0.99;
/// The share of the items under the prefix that are gone when the crawler has been everywhere: the load may set some again of
/// those that mica's index has lost.
const GONE_MIN: f64 = 0.9;
/// How long the crawler may take.
const CRAWL_MAX: Duration = Duration::from_secs(900);
/// The server is asked about the crawler after this time, and then after this part of the time that has passed: `stats` costs it half a
/// millisecond, and 40 a second would be a twentieth of what is measured.
const LOOK: Duration = Duration::from_millis(25);
const LOOK_PART: u32 = 20;
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Time before what counts, in which the load gets going.
const WARMUP: Duration = Duration::from_millis(300);

/// What is deleted, and how long the load is measured before and after.
#[derive(Debug, Clone)]
pub struct Case {
    /// Keys that are set; a tenth of them is deleted.
    pub keys: u64,
    /// The server's memory in bytes.
    pub memory: u64,
    /// Time before the delete, and after the crawler is through.
    pub duration: Duration,
    /// The engines, one server each.
    pub engines: Vec<String>,
}

/// What a load came to, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Operations per second of time.
    pub per_s: f64,
    /// Operations per second of the server's processor time.
    pub per_cpu_s: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Round {
    /// Microseconds until both deletes were answered.
    pub reply_us: [f64; 2],
    /// Seconds from the reply until the crawler was through.
    pub crawl_s: f64,
    /// The load before the delete.
    pub before: Rate,
    /// The load from the reply on until the crawler was through.
    pub during: Rate,
    /// The load after that.
    pub after: Rate,
    /// Keys under the prefix that were asked for after the reply.
    pub asked: u64,
    /// Those of them that were found.
    pub found: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Deleted {
    pub engine: String,
    pub items: u64,
    /// Every round.
    pub rounds: Vec<Round>,
}

impl Round {
    /// The load beside the crawler, as a share of the load without it.
    #[must_use]
    pub fn kept(&self, of: fn(&Rate) -> f64) -> f64 {
        of(&self.during) / f64::midpoint(of(&self.before), of(&self.after)).max(1e-9)
    }
}

impl Deleted {
    #[must_use]
    pub fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    /// The longest reply, in microseconds.
    #[must_use]
    pub fn slowest_us(&self) -> f64 {
        self.rounds.iter().flat_map(|round| round.reply_us).fold(0.0, f64::max)
    }
}

/// Measures each engine of a Guira; other servers are left out, which is reported to `log`.
///
/// # Errors
/// When a server cannot be started, a load or a delete fails, or an answer is wrong.
pub fn run(case: &Case, options: &Options, log: &mut dyn FnMut(&str)) -> Result<Vec<Deleted>, LoadError> {
    let mut all = Vec::new();
    for kind in options.servers.iter().filter(|kind| kind.is_cache()) {
        let Kind::Guira { binary, args } = kind else {
            log(&format!("delete-prefix: skipped {}: delete by prefix is not supported", kind.name()));
            continue;
        };
        for engine in &case.engines {
            let args = [args.clone(), vec!["--engine".to_owned(), engine.clone()]].concat();
            let kind = Kind::Guira { binary: binary.clone(), args };
            log(&format!("delete-prefix: setting {} keys in {engine}", case.keys));
            all.push(measure(case, engine, kind, options, log)?);
        }
    }
    Ok(all)
}

fn measure(
    case: &Case,
    engine: &str,
    kind: Kind,
    options: &Options,
    log: &mut dyn FnMut(&str),
) -> Result<Deleted, LoadError> {
    let server = Server::start(&Spec {
        kind,
        workers: 1,
        memory: case.memory,
        max_connections: None,
        wire: Wire::Tcp,
        cores: options.server_cores.clone(),
        shape: Shape { key_len: 18, value_len: VALUE_LEN as usize },
    })?;
    let field =
        Field { keys: case.keys, addr: server.addr(), process: server.process(), duration: case.duration };
    field.set(0..case.keys)?;
    let items = server.stat("curr_items")?;
    if (items as f64) < HELD_MIN * case.keys as f64 {
        return Err(LoadError::Options(format!("{engine}: only {items} items of {} fit", case.keys)));
    }
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let mut round = field.beside_load(options.seed.wrapping_add(number as u64))?;
        field.set(field.family())?;
        field.asked_for(&mut round)?;
        field.set(field.family())?;
        log(&format!(
            "delete-prefix: round {} of {}: {engine:<8} {:.0} us, crawled in {:.2} s, {:.3} of the operations per CPU second, {:.3} per second; {} of {} found",
            number + 1,
            options.rounds,
            round.reply_us[0],
            round.crawl_s,
            round.kept(|rate| rate.per_cpu_s),
            round.kept(|rate| rate.per_s),
            round.found,
            round.asked
        ));
        rounds.push(round);
    }
    Ok(Deleted { engine: engine.to_owned(), items, rounds })
}

/// A server and what it holds.
struct Field {
    keys: u64,
    addr: SocketAddr,
    process: Process,
    duration: Duration,
}

/// A delete that was answered, and what came of it.
struct Crawl {
    /// When it was asked for, answered, and carried out.
    asked_ns: u64,
    answered_ns: u64,
    through_ns: u64,
}

impl Crawl {
    fn reply_us(&self) -> f64 {
        (self.answered_ns - self.asked_ns) as f64 / 1e3
    }
}

impl Field {
    /// The numbers of the keys under the prefix.
    const fn family(&self) -> std::ops::Range<u64> {
        self.keys - self.keys / FAMILIES..self.keys
    }

    fn model(&self, mix: Mix) -> Model {
        Model {
            popularity: Popularity::Uniform { count: self.family().start },
            keys: KeyShape::families(self.keys / FAMILIES),
            sizes: SizeModel::Constant(VALUE_LEN),
            mix,
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        }
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

    /// Deletes by prefix while the load runs, which asks for other keys.
    fn beside_load(&self, seed: u64) -> Result<Round, LoadError> {
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
            let source = Until { source: draws, stop: &stop };
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
            before: timeline.rate(crawl.asked_ns - span, crawl.asked_ns),
            during: timeline.rate(crawl.answered_ns, crawl.through_ns),
            after: timeline.rate(crawl.through_ns, crawl.through_ns + span),
            ..Round::default()
        })
    }

    /// Deletes by prefix, and asks for what is deleted from the reply on.
    fn asked_for(&self, round: &mut Round) -> Result<(), LoadError> {
        let (clock, stop) = (MonotonicClock::start(), AtomicBool::new(false));
        let sweep = || Sweep {
            model: self.model(Mix::Only(Operation::Multiget)),
            keys: self.family(),
            next: self.family().start,
            swept: false,
        };
        let once = AtomicBool::new(true);
        let before = self.run((1, 4), Until { source: sweep(), stop: &once }, clock, &mut Quiet)?;
        let counts = &before.counters.counts;
        if (counts.hits as f64) < HELD_MIN * counts.gets as f64 {
            let (hits, gets) = (counts.hits, counts.gets);
            return Err(LoadError::Options(format!("{hits} of {gets} keys were found before the delete")));
        }
        let mut connection = Connection::open(self.addr)?;
        let held = connection.items()?;
        let asked_ns = clock.now_ns();
        connection.delete()?;
        round.reply_us[1] = (clock.now_ns() - asked_ns) as f64 / 1e3;
        let (through, outcome) = thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let through = connection.wait_until_through(held, self.keys);
                stop.store(true, Ordering::Relaxed);
                through
            });
            let outcome = self.run((1, 4), Until { source: sweep(), stop: &stop }, clock, &mut Quiet);
            (joined(waiter.join()), outcome)
        });
        through?;
        let counts = outcome?.counters.counts;
        (round.asked, round.found) = (counts.gets, counts.hits);
        Ok(())
    }

    fn delete(&self, clock: MonotonicClock) -> Result<Crawl, LoadError> {
        let mut connection = Connection::open(self.addr)?;
        let held = connection.items()?;
        let asked_ns = clock.now_ns();
        connection.delete()?;
        let answered_ns = clock.now_ns();
        connection.wait_until_through(held, self.keys)?;
        Ok(Crawl { asked_ns, answered_ns, through_ns: clock.now_ns() })
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

    /// Deletes the keys of the last family.
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

    /// Waits until the items under the prefix are gone, which held about a tenth of `held`, and the crawler rests.
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

/// A stream that ends when it is told to.
struct Until<'a, S> {
    source: S,
    stop: &'a AtomicBool,
}

impl<S: Source + Endless> Source for Until<'_, S> {
    fn next_operation(&mut self) -> Option<Operation> {
        if self.stop.load(Ordering::Relaxed) && self.source.may_end() {
            return None;
        }
        self.source.next_operation()
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        self.source.append_key(out)
    }
}

/// A stream that has no end of its own.
trait Endless {
    /// Whether it has given what it must.
    fn may_end(&self) -> bool;
}

impl Endless for Draws {
    fn may_end(&self) -> bool {
        true
    }
}

/// Gets of all keys of a range, in their order, again and again; once at least.
struct Sweep {
    model: Model,
    keys: std::ops::Range<u64>,
    next: u64,
    swept: bool,
}

impl Endless for Sweep {
    fn may_end(&self) -> bool {
        self.swept
    }
}

impl Source for Sweep {
    fn next_operation(&mut self) -> Option<Operation> {
        Some(Operation::Multiget)
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

/// How far a load had come at some moments.
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
    /// How far it had come at this moment, as if it went evenly between two that are known.
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
    use guira_workload::{KeyShape, Mix, Operation};

    use super::{Deleted, Field, Point, Rate, Round, Sweep, Timeline, Until};
    use crate::clock::MonotonicClock;
    use crate::source::Source;

    fn field(keys: u64) -> Field {
        let process = Process::new(std::process::id());
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        Field { keys, addr, process, duration: std::time::Duration::ZERO }
    }

    #[test]
    fn a_sweep_asks_for_each_key_under_the_prefix_before_it_ends() {
        let field = field(1000);
        let model = field.model(Mix::Only(Operation::Multiget));
        let sweep = Sweep { model, keys: field.family(), next: field.family().start, swept: false };
        let stop = AtomicBool::new(true);
        let mut until = Until { source: sweep, stop: &stop };
        let mut keys = std::collections::HashSet::new();
        while until.next_operation().is_some() {
            let mut key = Vec::new();
            let id = until.append_key(&mut key).id;
            assert!((900..1000).contains(&id) && key.starts_with(&KeyShape::prefix(9)), "{id}");
            keys.insert(key);
        }
        assert_eq!(keys.len(), 100);
        stop.store(false, Ordering::Relaxed);
        assert!(until.next_operation().is_some(), "it goes on until it is told to stop");
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
