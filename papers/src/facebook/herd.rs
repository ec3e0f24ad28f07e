//! A herd on one key beside a slow database: with get and set, with leases, and with leases and stale values.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guira_harness::server::{ServerProcess, Spec};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;

use super::database::{Connection, Database};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-herd",
    claims: &["S5"],
    about: "Queries of a database behind a cache when a key that many clients read is deleted again and again",
    run,
};

/// How long the database takes for a query, in seconds.
const QUERY_S: f64 = 0.02;

/// Between two reads of a client.
const BETWEEN: Duration = Duration::from_millis(10);

/// How long a client waits before it asks again for a key that another one fills.
const WAIT: Duration = Duration::from_millis(3);

/// Between two changes of the row, in turn: the second comes while queries for the first run.
const CHANGES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(240)];

/// The peak is that of the windows of this length.
const WINDOW: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// get, and set.
    Plain,
    /// lease-get and lease-set, and waiting.
    Leases,
    /// The same, and whoever would wait takes the stale value.
    Stale,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Plain, "get and set"), (Way::Leases, "leases"), (Way::Stale, "leases, stale values for 10 s")];

/// What a read of the cache came to.
enum Got {
    Value(u64),
    Stale,
    /// A miss, with the token to fill it.
    Miss(u64),
    Wait,
}

struct Cache {
    stream: BufReader<TcpStream>,
}

impl Cache {
    fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Cache { stream: BufReader::new(stream) })
    }

    fn send(&mut self, text: &str) -> Result<String, Failure> {
        self.stream.get_mut().write_all(text.as_bytes()).map_err(failed)?;
        self.line()
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(failed)?;
        Ok(line.trim_end().to_owned())
    }

    fn read(&mut self, way: Way) -> Result<Got, Failure> {
        let verb = if way == Way::Plain { "get" } else { "lease-get" };
        let line = self.send(&format!("{verb} hot\r\n"))?;
        if line == "END" {
            return Ok(Got::Miss(0));
        }
        let words: Vec<&str> = line.split(' ').collect();
        let length = words.last().and_then(|word| word.parse::<usize>().ok()).ok_or_else(|| failed(&line))?;
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value).map_err(failed)?;
        self.line()?;
        let number = String::from_utf8_lossy(&value).trim_end().parse().ok();
        Ok(match (words[0], number, words.get(2)) {
            ("VALUE", Some(number), _) => Got::Value(number),
            ("LVALUE", Some(_), Some(&"1")) => Got::Stale,
            ("LVALUE", None, Some(&"1")) => Got::Wait,
            ("LVALUE", _, Some(token)) => Got::Miss(token.parse().map_err(failed)?),
            _ => return Err(failed(line)),
        })
    }
}

#[derive(Default)]
struct Herd {
    stop: AtomicBool,
    /// The row's number at the last delete that was answered.
    deleted: AtomicU64,
    reads: AtomicU64,
    /// Values served as fresh that were older than `deleted` when they were asked for.
    outdated: AtomicU64,
    /// When each query began, in milliseconds.
    queries: Mutex<Vec<u64>>,
    /// How long reads took, in microseconds.
    waits: Mutex<Vec<u64>>,
}

impl Herd {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// One client: reads, and fills what is missing.
fn client(
    way: Way,
    herd: &Herd,
    begin: Stopwatch,
    mut cache: Cache,
    mut database: Connection,
) -> Result<(), Failure> {
    while herd.goes_on() {
        let read = Stopwatch::start();
        while herd.goes_on() {
            let least = herd.deleted.load(Ordering::SeqCst);
            match cache.read(way)? {
                Got::Value(number) => {
                    herd.outdated.fetch_add(u64::from(number < least), Ordering::Relaxed);
                    break;
                }
                Got::Stale => break,
                Got::Wait => std::thread::sleep(WAIT),
                Got::Miss(token) => {
                    let at = begin.elapsed().as_millis() as u64;
                    herd.queries.lock().unwrap_or_else(PoisonError::into_inner).push(at);
                    let row = database
                        .row(&format!("WITH found AS MATERIALIZED (SELECT v FROM items WHERE k = 'hot'), slept AS MATERIALIZED (SELECT pg_sleep({QUERY_S}) FROM found) SELECT v FROM found, slept"))?;
                    let length = row.len();
                    let store = match way {
                        Way::Plain => format!("set hot 0 0 {length}\r\n{row}\r\n"),
                        Way::Leases | Way::Stale => {
                            format!("lease-set hot {token} 0 0 {length}\r\n{row}\r\n")
                        }
                    };
                    cache.send(&store)?;
                    break;
                }
            }
        }
        herd.reads.fetch_add(1, Ordering::Relaxed);
        herd.waits.lock().unwrap_or_else(PoisonError::into_inner).push(read.elapsed().as_micros() as u64);
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

/// Changes the row and deletes the key, again and again.
fn writer(herd: &Herd, mut cache: Cache, mut database: Connection) -> Result<(), Failure> {
    for pause in CHANGES.iter().cycle() {
        if !herd.goes_on() {
            break;
        }
        let number = database.row("UPDATE items SET v = v + 1 RETURNING v")?.parse().map_err(failed)?;
        cache.send("delete hot\r\n")?;
        herd.deleted.store(number, Ordering::SeqCst);
        std::thread::sleep(*pause);
    }
    Ok(())
}

struct Figures {
    /// Queries a second: on average, and in the fullest window.
    mean: f64,
    peak: f64,
    reads: f64,
    outdated: u64,
    /// Milliseconds of a read: the median, and of the slowest in a hundred.
    median: f64,
    slow: f64,
}

fn measure(context: &Context, way: Way, clients: usize, length: Duration) -> Result<Figures, Failure> {
    let database = Database::start(clients + 2)?;
    let mut connection = database.connect()?;
    connection.row(
        "CREATE TABLE items (k text PRIMARY KEY, v bigint); INSERT INTO items VALUES ('hot', 1); SELECT 1",
    )?;
    let mut command = Command::new(&context.guira);
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB", "--workers", "1"]);
    if way == Way::Stale {
        command.arg("--stale-values=10");
    }
    let (_server, address) = ServerProcess::listening(Spec::of_service(command), "").map_err(failed)?;
    let (herd, begin) = (Herd::default(), Stopwatch::start());
    let connections = (0..clients).map(|_| database.connect()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let herd = &herd;
        let mut parts = Vec::new();
        for connection in connections {
            let cache = Cache::connect(address)?;
            parts.push(scope.spawn(move || client(way, herd, begin, cache, connection)));
        }
        let cache = Cache::connect(address)?;
        parts.push(scope.spawn(move || writer(herd, cache, connection)));
        std::thread::sleep(length);
        herd.stop.store(true, Ordering::Relaxed);
        parts.into_iter().try_for_each(|part| part.join().map_err(|_| failed("a client panicked"))?)
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let queries = herd.queries.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut waits = herd.waits.into_inner().unwrap_or_else(PoisonError::into_inner);
    waits.sort_unstable();
    let wait = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    Ok(Figures {
        mean: queries.len() as f64 / seconds,
        peak: peak(&queries) / WINDOW.as_secs_f64(),
        reads: herd.reads.into_inner() as f64 / seconds,
        outdated: herd.outdated.into_inner(),
        median: wait(0.5),
        slow: wait(0.99),
    })
}

/// The most queries that began within a window.
fn peak(times: &[u64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let window = WINDOW.as_millis() as u64;
    let within = |(at, first): (usize, &u64)| sorted[at..].partition_point(|time| time - first < window);
    sorted.iter().enumerate().map(within).max().unwrap_or(0) as f64
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let clients = context.scale.pick(128, 8);
    let length = Duration::from_secs(context.scale.pick(20, 2));
    let all = WAYS.iter().map(|(way, _)| measure(context, *way, clients, length));
    let all: Vec<Figures> = all.collect::<Result<_, _>>()?;
    let rows = WAYS.iter().zip(&all).map(|((_, name), figures)| {
        vec![
            (*name).to_owned(),
            format!("{:.0}", figures.peak),
            format!("{:.1}", figures.mean),
            format!("{:.0}", figures.reads),
            format!("{:.2}", figures.median),
            format!("{:.1}", figures.slow),
            figures.outdated.to_string(),
        ]
    });
    let [plain, leases, stale] = &all[..] else { return Err(failed("three ways are measured")) };
    Ok(Outcome {
        how: format!(
            "{clients} clients read one key, each {} ms after its last read; PostgreSQL 15 on the same machine, whose query takes {:.0} ms; the row changes and the key is deleted twice within {} ms, every {} ms, for {} s. Who is to wait asks again after {} ms. The peak is that of the fullest {} ms. Outdated is what was served as fresh and older than a delete that had been answered.",
            BETWEEN.as_millis(),
            QUERY_S * 1000.0,
            CHANGES[0].as_millis(),
            (CHANGES[0] + CHANGES[1]).as_millis(),
            length.as_secs(),
            WAIT.as_millis(),
            WINDOW.as_millis()
        ),
        answers: vec![answer(
            "S5",
            format!(
                "peak {:.0} queries a second without leases, {:.0} with, {:.1} ×; {} outdated values without, {} with",
                plain.peak,
                leases.peak,
                plain.peak / leases.peak,
                plain.outdated,
                leases.outdated
            ),
            verdict(&[
                ("a thirteenth of the queries", leases.peak * 13.0 <= plain.peak),
                ("no outdated value with leases", leases.outdated == 0 && stale.outdated == 0),
                ("nobody waits where stale values do", stale.slow < leases.slow),
            ]) + "How much less there is depends on how many clients come by while a query runs.",
        )],
        tables: vec![table(
            "One hot key:",
            &[
                "clients use",
                "queries a second, peak",
                "mean",
                "reads a second",
                "read, median ms",
                "p99 ms",
                "outdated",
            ],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::peak;

    #[test]
    fn the_peak_is_that_of_the_fullest_window() {
        assert_eq!(peak(&[]), 0.0);
        assert_eq!(peak(&[500, 0, 10, 99, 100, 250]), 3.0);
    }
}
