//! Gets by UDP directly, and by TCP through a router: how long they take.

use std::time::Duration;

use guira_client::pools::{Builder, Client, Store};
use guira_load::bench::machine::Machine;
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use super::fleet::{Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-udp",
    claims: &["S2"],
    about: "How long gets take by UDP directly, and by TCP through a router",
    run,
};

const MEMORY: &str = "64MiB";
const KEYS: u64 = 1000;
/// Keys of a get: one, and the paper's mean of a batch.
const BATCHES: [usize; 2] = [1, 24];
/// Lengths of values, in the order of the keys: the paper's median is 135 B, with peaks near 200 and 600 B, and few are long.
const LENGTHS: [usize; 8] = [62, 100, 135, 135, 200, 200, 600, 2000];
const TIMEOUT: Duration = Duration::from_millis(500);

/// Both ways, in the order in which they alternate.
const WAYS: [&str; 2] = ["UDP directly", "TCP through a router"];

/// Microseconds that one run of one way came to.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    mean: f64,
    median: f64,
    p95: f64,
    /// Keys without an answer.
    failed: u64,
}

fn key(number: u64) -> String {
    format!("key:{number}")
}

fn measure(client: &Client, batch: usize, gets: usize, seed: u64) -> Result<Found, Failure> {
    let (mut rng, mut times, mut lost) = (Rng::new(seed), Vec::with_capacity(gets), 0);
    for _ in 0..gets {
        let keys: Vec<String> = (0..batch).map(|_| key(rng.below(KEYS))).collect();
        let time = Stopwatch::start();
        let found = client.get_many(&keys);
        times.push(time.elapsed().as_nanos() as f64 / 1e3);
        for found in found {
            match found {
                Ok(Some(_)) => {}
                Ok(None) => return Err(failed("a key is missing")),
                Err(_) => lost += 1,
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    Ok(Found { mean, median: at(0.5), p95: at(0.95), failed: lost })
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let before = Machine::this();
    let node = Node::with_datagrams(context, MEMORY)?;
    let nodes = [node];
    let router = Router::start(context, &[pool("all", &nodes)], "\"PoolRoute|all\"", &[])?;
    let client = |address: String| Builder::servers(&[address]).timeout(TIMEOUT);
    let by_udp = Client::new(&client(nodes[0].address().to_string()).udp_gets()).map_err(failed)?;
    let by_tcp = Client::new(&client(router.address.to_string())).map_err(failed)?;
    for number in 0..KEYS {
        let value = vec![b'v'; LENGTHS[number as usize % LENGTHS.len()]];
        by_tcp.set(&Store::new(key(number).as_bytes(), &value)).map_err(failed)?;
    }
    let gets = context.scale.pick(20_000, 200);
    let mut found = vec![[Vec::new(), Vec::new()]; BATCHES.len()];
    for number in 0..context.runs {
        let seed = context.seed + u64::from(number);
        for (place, batch) in BATCHES.iter().enumerate() {
            for (way, client) in [&by_udp, &by_tcp].into_iter().enumerate() {
                found[place][way].push(measure(client, *batch, gets, seed)?);
            }
        }
    }
    Ok(outcome(&found, gets, &before.busy))
}

/// The figure of all runs of one way.
fn figure(found: &[Found], of: fn(&Found) -> f64) -> Figure {
    Figure::of(&found.iter().map(of).collect::<Vec<_>>())
}

fn outcome(found: &[[Vec<Found>; 2]], gets: usize, busy: &str) -> Outcome {
    const ALL: [fn(&Found) -> f64; 3] = [|found| found.mean, |found| found.median, |found| found.p95];
    let mut rows = Vec::new();
    for (batch, ways) in BATCHES.iter().zip(found) {
        for (way, found) in WAYS.iter().zip(ways) {
            let mut row = vec![batch.to_string(), (*way).to_owned()];
            row.extend(ALL.iter().map(|of| figure(found, *of).to_string()));
            row.push(found.iter().map(|found| found.failed).sum::<u64>().to_string());
            rows.push(row);
        }
    }
    let less =
        |ways: &[Vec<Found>; 2]| ALL.map(|of| 1.0 - figure(&ways[0], of).mean / figure(&ways[1], of).mean);
    let shown = |all: [f64; 3]| all.map(|less| format!("{:.0}", less * 100.0)).join(" / ");
    let [one, many] = [&found[0], &found[1]].map(less);
    let fifth = |all: [f64; 3]| all.iter().all(|less| *less >= 0.2);
    Outcome {
        how: format!(
            "A node with one worker, and a router with one worker before it, over loopback; one thread of the client library asks for {KEYS} keys, one at a \
             time and {} at once, {gets} times in a run, by UDP from the node and by TCP from the router in turns. Values of 62 to 2,000 B with a median of \
             168 B. Load average before: {busy}.{}",
            BATCHES[1],
            if cfg!(debug_assertions) { " It is a development build." } else { "" }
        ),
        answers: vec![answer(
            "S2",
            format!(
                "by UDP the mean, the median and the p95 of a get of one key are {} % lower; of {} keys {} %",
                shown(one),
                BATCHES[1],
                shown(many)
            ),
            verdict(&[("a fifth less for one key", fifth(one)), ("a fifth less for a batch", fifth(many))])
                + "Here there is no network, whose time is the same for both.",
        )],
        tables: vec![table(
            "Microseconds, and keys without an answer:",
            &["keys", "way", "mean", "median", "p95", "failed"],
            rows,
        )],
        charts: Vec::new(),
    }
}
