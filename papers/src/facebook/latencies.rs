//! How long a web server's gets take through a router, while the cache is idle and while it is busy.

use std::time::Duration;

use guira_client::pools::{Builder, Client, Store};
use guira_load::bench::machine::Machine;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use super::fleet::{Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, build, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-latencies",
    claims: &["S22"],
    about: "How long gets take through a router with decompression, while the cache is idle and while it is busy",
    run,
};

const MEMORY: &str = "256MiB";
const NODES: usize = 2;
const KEYS: u64 = 20_000;
/// Lengths of values, in the order of the keys; what is longer than the last is compressed.
const LENGTHS: [usize; 8] = [62, 100, 135, 135, 200, 200, 600, 4000];
const COMPRESSED_FROM: usize = 1000;
/// Users that ask without a pause while the cache is busy, and keys of each of their requests.
const USERS: usize = 4;
const BATCH: usize = 24;
/// The time between two requests that are measured.
const BETWEEN: Duration = Duration::from_millis(1);
const QUANTILES: [f64; 3] = [0.5, 0.75, 0.95];

fn key(number: u64) -> String {
    format!("key:{number}")
}

/// Microseconds at each of the quantiles.
fn measure(client: &Client, gets: usize, seed: u64) -> Result<[f64; 3], Failure> {
    let (mut rng, mut times) = (Rng::new(seed), Vec::with_capacity(gets));
    for _ in 0..gets {
        std::thread::sleep(BETWEEN);
        let key = key(rng.below(KEYS));
        let time = Stopwatch::start();
        let found = client.get(key.as_bytes()).map_err(failed)?;
        times.push(time.elapsed().as_nanos() as f64 / 1e3);
        if found.is_none() {
            return Err(failed("a key is missing"));
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(QUANTILES.map(|part| times[((times.len() - 1) as f64 * part) as usize]))
}

/// Asks without a pause until it is to end. Returns how many keys.
fn ask(client: &Client, ends: &AtomicBool, seed: u64) -> Result<u64, Failure> {
    let (mut rng, mut asked) = (Rng::new(seed), 0);
    while !ends.load(Ordering::Relaxed) {
        let keys: Vec<String> = (0..BATCH).map(|_| key(rng.below(KEYS))).collect();
        for found in client.get_many(&keys) {
            found.map_err(failed)?;
        }
        asked += BATCH as u64;
    }
    Ok(asked)
}

/// The same while users ask; and how many keys they were told a second.
fn measure_busy(
    router: &Router,
    client: &Client,
    gets: usize,
    seed: u64,
) -> Result<([f64; 3], f64), Failure> {
    let users = Client::new(&builder(router)).map_err(failed)?;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..USERS as u64)
            .map(|user| {
                scope.spawn({
                    let (users, ends) = (&users, &ends);
                    move || ask(users, ends, seed.wrapping_mul(31) + user)
                })
            })
            .collect();
        let since = Stopwatch::start();
        let measured = measure(client, gets, seed);
        ends.store(true, Ordering::Relaxed);
        let seconds = since.elapsed().as_secs_f64();
        let mut asked = 0;
        for thread in threads {
            asked += thread.join().map_err(|_| failed("a user has panicked"))??;
        }
        Ok((measured?, asked as f64 / seconds))
    })
}

fn builder(router: &Router) -> Builder {
    Builder::servers(&[router.address.to_string()]).compress_from(COMPRESSED_FROM)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let before = Machine::this();
    let nodes = Node::start_all(context, NODES, MEMORY)?;
    let router = Router::start(context, &[pool("all", &nodes)], "\"PoolRoute|all\"", &[])?;
    let client = Client::new(&builder(&router)).map_err(failed)?;
    let mut rng = Rng::new(context.seed);
    for number in 0..KEYS {
        // Text, which is compressed to about a half.
        let length = LENGTHS[number as usize % LENGTHS.len()];
        let value: Vec<u8> = (0..length).map(|_| b'a' + rng.below(16) as u8).collect();
        client.set(&Store::new(key(number).as_bytes(), &value)).map_err(failed)?;
    }
    let gets = context.scale.pick(10_000, 100);
    let (mut idle, mut busy, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..context.runs {
        let seed = context.seed + u64::from(number);
        idle.push(measure(&client, gets, seed)?);
        let (found, rate) = measure_busy(&router, &client, gets, seed)?;
        busy.push(found);
        rates.push(rate);
    }
    let figures = |all: &[[f64; 3]]| {
        [0, 1, 2].map(|place| Figure::of(&all.iter().map(|found| found[place]).collect::<Vec<_>>()))
    };
    let [idle, busy] = [&idle[..], &busy[..]].map(figures);
    let shown = |all: &[Figure; 3]| all.map(|figure| format!("{:.0}", figure.mean)).join(" / ");
    let row = |name: &str, all: &[Figure; 3]| {
        std::iter::once(name.to_owned()).chain(all.iter().map(ToString::to_string)).collect()
    };
    Ok(Outcome {
        how: format!(
            "{NODES} nodes and a router, each with one worker, over loopback; one thread of the client library gets one key a millisecond, {gets} times, first alone, then while {USERS} users ask for \
             {BATCH} keys at once without a pause ({:.0} K keys a second), all on two processors. Values of 62 to 4,000 B, decompressed from {COMPRESSED_FROM} B on. Load average before: {}.{}",
            Figure::of(&rates).mean / 1e3,
            before.busy,
            build()
        ),
        answers: vec![answer(
            "S22",
            format!("p50 / p75 / p95 {} µs idle, {} µs busy", shown(&idle), shown(&busy)),
            verdict(&[
                ("an idle cache answers in less than the paper's 178 µs at the median", idle[0].mean < 178.0),
                (
                    "a busy one takes longer at each of these",
                    idle.iter().zip(&busy).all(|(idle, busy)| busy.mean > idle.mean),
                ),
            ]) + "There is no network here, and users, router and nodes share two processors.",
        )],
        tables: vec![table(
            "Microseconds of a get:",
            &["", "p50", "p75", "p95"],
            vec![row("idle", &idle), row("busy", &busy)],
        )],
        charts: Vec::new(),
    })
}
