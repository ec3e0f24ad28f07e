//! A server of eight hangs: what clients see of it, without a gutter and with one, in compressed time.

use std::time::Duration;

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::{Rng, Zipf};

use super::fleet::{Client, Gets, Got, Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, Table, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-gutter",
    claims: &["S8"],
    about: "What clients see of a server that hangs, without a gutter and with one, and how soon the gutter has what they ask for",
    run,
};

const SERVERS: usize = 8;
const GUTTER: usize = 2;
const MEMORY: &str = "64MiB";
const GUTTER_MEMORY: &str = "16MiB";

/// One second of this machine stands for so many.
const COMPRESSION: f64 = 10.0;
/// How long an item of the gutter lives, in seconds of this machine; and as it is told the router.
const EXPTIME: u64 = 1;

const KEYS: u64 = 100_000;
const THETA: f64 = 0.99;
/// Clients, and the keys that each asks for at once.
const CLIENTS: usize = 8;
const ASKED: usize = 24;
/// Keys that all clients together ask for, per second of this machine.
const RATE: f64 = 20_000.0;
/// How long the database takes for what one client misses at once.
const DATABASE: Duration = Duration::from_millis(1);

/// What is counted together, in compressed seconds.
const WINDOW: f64 = 10.0;
/// Compressed seconds before the server hangs, and after it.
const BEFORE: f64 = 30.0;
const AFTER: f64 = 240.0;

/// A request that is not answered in this time has failed; three in a row, and the server is out.
const TIMEOUT_MS: &str = "100";

/// What all clients count, in each window.
struct Counts {
    asked: Vec<AtomicU64>,
    failed: Vec<AtomicU64>,
    queries: Vec<AtomicU64>,
}

impl Counts {
    fn new(windows: usize) -> Self {
        let zeros = || (0..windows).map(|_| AtomicU64::new(0)).collect();
        Counts { asked: zeros(), failed: zeros(), queries: zeros() }
    }
}

fn window(now: Duration) -> usize {
    (now.as_secs_f64() * COMPRESSION / WINDOW) as usize
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    asked: u64,
    /// Gets and sets that were answered with an error.
    failed: u64,
    queries: u64,
    gutter: Gets,
}

struct Found {
    windows: Vec<Window>,
    /// The window in which the server hangs.
    at: usize,
}

impl Found {
    fn before(&self) -> Window {
        sum(&self.windows[..self.at])
    }

    /// The window in which it hangs, and so is found out.
    fn detection(&self) -> Window {
        self.windows[self.at]
    }

    fn later(&self) -> Window {
        sum(&self.windows[self.at + 1..])
    }

    fn after(&self) -> Window {
        sum(&self.windows[self.at..])
    }
}

fn sum(windows: &[Window]) -> Window {
    windows.iter().fold(Window::default(), |sum, one| Window {
        asked: sum.asked + one.asked,
        failed: sum.failed + one.failed,
        queries: sum.queries + one.queries,
        gutter: [sum.gutter, one.gutter].into_iter().sum(),
    })
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Asks by a timetable until the end, and fills what is missing from the database.
fn ask(
    mut client: Client,
    zipf: &Zipf,
    mut rng: Rng,
    counts: &Counts,
    begin: Stopwatch,
) -> Result<(), Failure> {
    let gap = ASKED as f64 * CLIENTS as f64 / RATE;
    let mut due = gap * rng.unit();
    loop {
        if let Some(early) = Duration::from_secs_f64(due).checked_sub(begin.elapsed()) {
            std::thread::sleep(early);
        }
        due += gap;
        let keys: Vec<u64> = (0..ASKED).map(|_| zipf.draw(&mut rng)).collect();
        let got = client.get(&keys)?;
        let count = |wanted| got.iter().filter(|got| **got == wanted).count() as u64;
        let window = window(begin.elapsed());
        let Some(asked) = counts.asked.get(window) else { return Ok(()) };
        asked.fetch_add(ASKED as u64, Ordering::Relaxed);
        // Who is told an error asks the database as well.
        counts.queries[window].fetch_add(count(Got::Miss) + count(Got::Failed), Ordering::Relaxed);
        let missed: Vec<u64> =
            keys.iter().zip(&got).filter(|(_, got)| **got == Got::Miss).map(|(key, _)| *key).collect();
        let mut failures = count(Got::Failed);
        if !missed.is_empty() {
            std::thread::sleep(DATABASE);
            failures += client.set(&missed)?;
        }
        counts.failed[window].fetch_add(failures, Ordering::Relaxed);
    }
}

fn measure(context: &Context, route: &str, after: f64) -> Result<Found, Failure> {
    let nodes = Node::start_all(context, SERVERS, MEMORY)?;
    let gutter = Node::start_all(context, GUTTER, GUTTER_MEMORY)?;
    let pools = [pool("A", &nodes), pool("G", &gutter)];
    // Longer than it is measured: the server does not come back.
    let options = ["--server-timeout-ms", TIMEOUT_MS, "--probe-timeout-initial-ms", "3000"];
    let router = Router::start(context, &pools, route, &options)?;
    let connect = || Client::connect(router.address);
    let all: Vec<u64> = (0..KEYS).collect();
    if connect()?.set(&all)? > 0 {
        return Err(failed("a key was not stored"));
    }
    let (at, windows) = ((BEFORE / WINDOW) as usize, ((BEFORE + after) / WINDOW) as usize);
    let (counts, zipf) = (Counts::new(windows), Zipf::new(KEYS, THETA).map_err(failed)?);
    let begin = Stopwatch::start();
    let mut of_gutter = Vec::new();
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (client, rng) = (connect()?, Rng::part(context.seed, number as u64));
            let (zipf, counts) = (&zipf, &counts);
            clients.push(scope.spawn(move || ask(client, zipf, rng, counts, begin)));
        }
        for number in 0..=windows {
            let due = Duration::from_secs_f64(number as f64 * WINDOW / COMPRESSION);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            if number == at {
                nodes[0].stop();
            }
            of_gutter.push(gutter.iter().map(Node::gets).sum::<Result<Gets, _>>()?);
        }
        clients.into_iter().try_for_each(|part| part.join().map_err(|_| failed("a client panicked"))?)
    })?;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let windows = (0..windows).map(|number| Window {
        asked: load(&counts.asked[number]),
        failed: load(&counts.failed[number]),
        queries: load(&counts.queries[number]),
        gutter: of_gutter[number + 1].since(of_gutter[number]),
    });
    Ok(Found { windows: windows.collect(), at })
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let after = context.scale.pick(AFTER, 30.0);
    let route = format!(
        r#"{{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"], "failover_exptime": {EXPTIME}}}"#
    );
    let without = measure(context, "\"PoolRoute|A\"", after)?;
    let with = measure(context, &route, after)?;
    let last = with.windows.iter().rev().take(3).copied().collect::<Vec<_>>();
    let best = share(sum(&last).gutter.found, sum(&last).gutter.asked);
    let fallen = 1.0
        - share(with.after().failed, with.after().asked)
            / share(without.after().failed, without.after().asked).max(1e-12);
    let soon =
        with.windows[with.at..].iter().position(|one| share(one.gutter.found, one.gutter.asked) >= 0.35);
    let soon_s = soon.map_or(f64::INFINITY, |windows| (windows + 1) as f64 * WINDOW);
    let failures = |window: Window| format!("{} of {}", window.failed, window.asked);
    Ok(Outcome {
        how: how(after),
        answers: vec![answer(
            "S8",
            format!(
                "failures that clients see fall by {} %: while the server is found out {} without a gutter, {} with one; from then on {} and {}; the \
                 gutter's hits {} % at the end, at least 35 % after {soon_s:.0} s",
                percent(fallen),
                failures(without.detection()),
                failures(with.detection()),
                failures(without.later()),
                failures(with.later()),
                percent(best)
            ),
            verdict(&[
                ("99 % fewer failures", fallen >= 0.99),
                ("35 % hits in the gutter within 4 minutes", soon_s <= 240.0),
                ("no failure before", without.before().failed + with.before().failed == 0),
                ("fewer queries of the database", with.later().queries < without.later().queries),
            ]),
        )],
        tables: vec![course(&without, &with)],
        charts: vec![chart(&with)],
    })
}

fn how(after: f64) -> String {
    format!(
        "{SERVERS} servers of {MEMORY} and a gutter of {GUTTER} of {GUTTER_MEMORY} with one worker each behind guira router, all real processes; \
         a second stands for {COMPRESSION:.0}, in which all times are told here. {KEYS} keys by Zipf's law with {THETA}; {CLIENTS} clients ask for \
         {ASKED} keys at once, all together {:.0} in a second, and fill what they miss from a database, which takes {:.0} ms for it. After {BEFORE:.0} s \
         one server is stopped: it keeps its connections and answers nothing. The router gives a request up after {:.0} s and a server after three. \
         Items of the gutter live {:.0} s. It is watched for {after:.0} s. A failure is an error in place of a reply. It is one run; how many requests \
         meet the server before it is found out depends on the machine.",
        RATE / COMPRESSION,
        DATABASE.as_secs_f64() * COMPRESSION * 1e3,
        TIMEOUT_MS.parse::<f64>().unwrap_or(0.0) * COMPRESSION / 1e3,
        EXPTIME as f64 * COMPRESSION
    )
}

/// Both runs, three windows to a row.
fn course(without: &Found, with: &Found) -> Table {
    let rows =
        without.windows.chunks(3).zip(with.windows.chunks(3)).enumerate().map(|(number, (without, with))| {
            let begin = 3.0 * number as f64 * WINDOW - BEFORE;
            let (without, with) = (sum(without), sum(with));
            vec![
                format!("{begin:.0} to {:.0}", begin + 3.0 * WINDOW),
                percent(share(without.failed, without.asked)),
                percent(share(with.failed, with.asked)),
                percent(share(without.queries, without.asked)),
                percent(share(with.queries, with.asked)),
                percent(share(with.gutter.found, with.gutter.asked)),
            ]
        });
    table(
        "From when the server hangs, in percent of the keys asked for; the last column of those asked of the gutter:",
        &["s", "failures without a gutter", "with", "queries without", "with", "hits in the gutter"],
        rows.collect(),
    )
}

fn chart(with: &Found) -> Chart {
    let dots = with.windows.iter().enumerate().skip(with.at).map(|(number, one)| {
        let x = (number + 1) as f64 * WINDOW - BEFORE;
        Dot::new(x, 100.0 * share(one.gutter.found, one.gutter.asked))
    });
    Chart {
        name: "facebook-gutter".to_owned(),
        title: "Hits in a gutter from when a server hangs".to_owned(),
        x: Axis::new("seconds, compressed", Steps::Linear),
        y: Axis::new("hits, percent", Steps::Linear),
        lines: vec![Line::new("gutter", dots.collect())],
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Found, Gets, Window, window};

    #[test]
    fn time_is_compressed_and_divided_into_windows() {
        let of = |ms| window(Duration::from_millis(ms));
        assert_eq!([of(0), of(999), of(1000), of(26_999)], [0, 0, 1, 26]);
    }

    #[test]
    fn windows_are_summed_before_and_after_the_failure() {
        let one = |failed, found| Window { asked: 10, failed, queries: 1, gutter: Gets { asked: 4, found } };
        let found = Found { windows: vec![one(0, 0), one(5, 1), one(1, 2), one(0, 4)], at: 1 };
        assert_eq!((found.before().failed, found.detection().failed, found.later().failed), (0, 5, 1));
        assert_eq!((found.after().asked, found.later().gutter), (30, Gets { asked: 8, found: 6 }));
    }
}
