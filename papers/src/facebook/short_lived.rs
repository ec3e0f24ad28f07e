//! What a family of keys that live for a second takes of the memory, with short-lived items noted and without.

use std::time::Duration;

use guira_client::text::{Connection, Endpoint, Target};
use guira_harness::stats::{number, stats};
use guira_protocol::client::Reply;
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;
use guira_workload::{Rng, Zipf};

use super::fleet::Node;
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, build, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-short-lived",
    claims: &["S18"],
    about: "What items that live for a second take of the memory, and the hits of the others, with and without --short-lived",
    run,
};

const MEMORY: &str = "40MiB";
const VALUE: usize = 1000;
/// Keys that stay for as long as there is room, and how they are asked for.
const KEYS: u64 = 100_000;
const THETA: f64 = 0.9;
/// Of each round of ten milliseconds: reads, and in how many of a thousand rounds a key of the family is stored.
const ROUND: Duration = Duration::from_millis(10);
const READS: usize = 20;
const STORES: u64 = 930;

#[derive(Debug, Clone, Copy)]
struct Found {
    /// The family's share of the items.
    share: f64,
    /// Hits of the others, in the second half of the run.
    hits: f64,
}

fn read(connection: &mut Connection, key: &str) -> Result<bool, Failure> {
    connection.send(format!("get {key}\r\n").as_bytes()).map_err(failed)?;
    let found = matches!(connection.reply().map_err(failed)?, Reply::Value(_));
    if found {
        connection.reply().map_err(failed)?;
    }
    Ok(found)
}

fn store(connection: &mut Connection, key: &str, expiry: u32) -> Result<(), Failure> {
    let value = "v".repeat(VALUE);
    connection.send(format!("set {key} 0 {expiry} {VALUE}\r\n{value}\r\n").as_bytes()).map_err(failed)?;
    match connection.reply().map_err(failed)? {
        Reply::Line(reply::STORED) => Ok(()),
        other => Err(failed(format!("not stored: {}", other.line().escape_ascii()))),
    }
}

/// The family's share of the items: those that the list of all does not have have expired.
fn share(node: &Node, connection: &mut Connection) -> Result<f64, Failure> {
    let all = number(&stats(node.address(), "").map_err(failed)?, "curr_items").unwrap_or_default();
    // Without its crawler it lists nothing.
    connection.send(b"lru_crawler enable\r\n").map_err(failed)?;
    connection.line().map_err(failed)?;
    connection.send(b"lru_crawler mgdump all\r\n").map_err(failed)?;
    let mut others = 0u64;
    loop {
        match connection.line().map_err(failed)? {
            reply::META_MISS => return Ok(1.0 - others as f64 / all.max(1) as f64),
            reply::OK => {}
            line if line.starts_with(b"mg ") => others += u64::from(line.starts_with(b"mg key:")),
            line => return Err(failed(format!("items are not listed: {}", line.escape_ascii()))),
        }
    }
}

fn measure(context: &Context, options: &[&str], seed: u64) -> Result<Found, Failure> {
    let node = Node::with(context, MEMORY, options)?;
    let endpoint: Endpoint = node.address().to_string().parse().map_err(failed)?;
    let mut connection = Connection::open(&Target::new(endpoint, Duration::from_secs(10))).map_err(failed)?;
    connection.send(b"lru_crawler disable\r\n").map_err(failed)?;
    connection.line().map_err(failed)?;
    let (zipf, mut rng) = (Zipf::new(KEYS, THETA).map_err(failed)?, Rng::new(seed));
    // Half a second more than whole ones: in the middle of a second half of what lives for one is there.
    let rounds = context.scale.pick(12_050, 350);
    let (begin, mut hits, mut family) = (Stopwatch::start(), 0u64, 0u64);
    for round in 0..rounds {
        for _ in 0..READS {
            let key = format!("key:{}", zipf.draw(&mut rng));
            let found = read(&mut connection, &key)?;
            hits += u64::from(found && round >= rounds / 2);
            if !found {
                store(&mut connection, &key, 0)?;
            }
        }
        if rng.below(1000) < STORES {
            family += 1;
            store(&mut connection, &format!("short:{family}"), 1)?;
        }
        std::thread::sleep((ROUND * (round + 1)).saturating_sub(begin.elapsed()));
    }
    let reads = (rounds - rounds / 2) as usize * READS;
    Ok(Found { share: share(&node, &mut connection)?, hits: hits as f64 / reads as f64 })
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let without = measure(context, &[], context.seed)?;
    let with = measure(context, &["--short-lived", "2"], context.seed)?;
    let seconds = context.scale.pick(120, 3);
    let row = |name: &str, found: Found| {
        vec![name.to_owned(), format!("{:.2}", 100.0 * found.share), percent(found.hits)]
    };
    Ok(Outcome {
        how: format!(
            "A node of {MEMORY} with its usual engine and policy, without its crawler. {} reads a second of {KEYS} keys (Zipf {THETA}), whose misses are stored, and {} stores a second of \
             keys that live for a second, for {seconds} s; values of {VALUE} B.{}",
            READS * 100,
            STORES / 10,
            build()
        ),
        answers: vec![answer(
            "S18",
            format!(
                "the family takes {:.2} % of the items without, {:.2} % with; the others hit {} and {} %",
                100.0 * without.share,
                100.0 * with.share,
                percent(without.hits),
                percent(with.hits)
            ),
            verdict(&[
                ("the family's share falls to a tenth", with.share <= without.share / 10.0),
                ("the others hit as often or more", with.hits >= without.hits - 0.005),
            ]),
        )],
        tables: vec![table(
            "The family's share of the items, and how often the others were found:",
            &["", "share, %", "hits, %"],
            vec![row("without", without), row("--short-lived 2", with)],
        )],
        charts: Vec::new(),
    })
}
