//! A server whose memory is full: sixty thousand keys, of which far fewer fit, values of all lengths that expire, are joined, counted and removed,
//! and memory that becomes less and more.
//!
//! Each connection has keys of its own, so it knows their values exactly. Where nothing may be
//! evicted every acknowledged value must exist, and a refused write has changed nothing; in a cache
//! an item may be missing, and then it never comes back. Once the server is at rest, its count of
//! items equals the number of items found.

mod model;
mod worker;

use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use crate::admin::{flush, run_command, stat};
use crate::client::Client;
use crate::field::{Field, Losses};
use crate::link::{Addresses, Carrier};
use crate::plan::Plan;
use crate::report;
use crate::server;
use crate::speech::Speech;
use worker::{Share, Worker};

const KEYS: u32 = 60_000;

/// Memory of the server, in MiB: less than a quarter of what the keys would need.
const MEMORY: u64 = 24;

/// The memory limits of a round in turn, in MiB. The last is higher than the first.
const MEMORIES: [u64; 4] = [20, 28, 22, 32];

/// Connections, one for each protocol.
const SPEECHES: [Speech; 3] = [Speech::Text, Speech::Meta, Speech::Binary];

/// Looks at everything. After the first everything is flushed.
const ROUNDS: u64 = 3;

/// The run fails if memory is not full after this many.
const ROUNDS_MAX: u64 = 15;

/// Refusals or evictions that show that memory was full.
const LOSSES_MIN: u64 = 100;

const LONG: Duration = Duration::from_secs(3600);

/// The longest time in which the server finds expired items.
const REST: Duration = Duration::from_secs(20);

/// Whether the server may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// It is kept until it expires or is removed.
    All,
    Some,
}

/// A cache and a store, each with the arguments that make one of the engine.
fn ways(engine: &str) -> &'static [(Keeping, &'static [&'static str])] {
    match engine {
        "mica-store" => &[(Keeping::All, &[])],
        _ => &[(Keeping::Some, &[]), (Keeping::All, &["--disable-evictions"])],
    }
}

/// Fills servers of all ways that the engine has. Returns what failed.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    let ways = ways(&plan.engine).iter();
    let all = ways
        .flat_map(|(keeping, arguments)| fill(plan, *keeping, arguments).unwrap_or_else(|what| vec![what]));
    Ok(all.collect())
}

fn fill(plan: &Plan, keeping: Keeping, more: &[&str]) -> Result<Vec<String>, String> {
    println!("full: {} {}, seed {}, {:?}", plan.engine, more.join(" "), plan.seed, plan.filling);
    let folder = Scratch::new();
    let (memory, unix) = (format!("{MEMORY}MiB"), format!("unix:{}", folder.file("socket").display()));
    let words = ["--workers", "2", "--memory", &memory, "--listen", "127.0.0.1:0", "--listen", &unix];
    let arguments: Vec<String> = words.iter().chain(more).map(|word| (*word).to_owned()).collect();
    let mut server = server::spawn(plan, &arguments)?;
    let tcp = server::wait_until_ready(&mut server)?;
    let [tcp] = tcp[..] else { return Err(format!("it listens on {tcp:?}, not on one port")) };
    let addresses = Addresses { tcp, tls: None, unix: folder.file("socket") };
    let field = Field::new(addresses, server.id(), LONG, Losses::Wrong);
    let mut workers = workers(plan, &field, keeping)?;
    for round in 0..ROUNDS_MAX {
        // A slow machine needs more rounds to fill the memory.
        if round >= ROUNDS && losses(&field, keeping, &workers) >= LOSSES_MIN {
            break;
        }
        one_round(plan, &field, round, &mut workers);
        if round == 0 && field.goes_on() {
            flush::once(&field).map_err(|error| format!("cannot flush: {error}"))?;
            field.remember("flush_all");
            workers.iter_mut().for_each(|worker| worker.model.clear());
        }
    }
    at_rest(&field, &mut workers);
    everybody(&mut workers, Worker::remove_all);
    wait_for_items(&field, || 0);
    judge_fullness(&field, keeping, losses(&field, keeping, &workers));
    drop(workers);
    for line in server.alarms() {
        field.fail(format!("the server says: {line}"));
    }
    report::counts(&field, field.now() as f64 / 1000.0);
    report::line("seconds", &format!("{:.1}", field.now() as f64 / 1000.0));
    Ok(report::verdict("full", &field, plan.seed, &server.lines()))
}

fn workers<'f>(plan: &Plan, field: &'f Field, keeping: Keeping) -> Result<Vec<Worker<'f>>, String> {
    let of = SPEECHES.len() as u32;
    let worker = |(rest, speech)| {
        let carrier = if rest == 0 { Carrier::Tcp } else { Carrier::Unix };
        let client = Client::try_open(field, carrier, speech).map_err(|error| error.to_string())?;
        let random = Rng::part(plan.seed, u64::from(rest));
        Ok(Worker::new(field, client, Share { rest, of }, keeping, random))
    };
    (0..of).zip(SPEECHES).map(worker).collect()
}

fn everybody<'f>(workers: &mut [Worker<'f>], act: impl Fn(&mut Worker<'f>) + Sync) {
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| act(worker));
        }
    });
}

/// Random requests, while memory becomes less and more; then a look at everything.
fn one_round(plan: &Plan, field: &Field, round: u64, workers: &mut [Worker<'_>]) {
    let length = plan.filling.as_millis() as u64 / ROUNDS;
    let end = field.now() + length;
    std::thread::scope(|scope| {
        for worker in &mut *workers {
            scope.spawn(move || worker.run(end));
        }
        // The first round does not change the memory limit.
        for memory in MEMORIES.into_iter().filter(|_| round > 0) {
            field.pause(Duration::from_millis(length / (MEMORIES.len() as u64 + 1)));
            resize(field, memory);
        }
    });
    everybody(workers, Worker::read_all);
}

fn resize(field: &Field, memory: u64) {
    let command = format!("cache_memlimit {memory}");
    field.remember(&command);
    match run_command(field, &command) {
        Some(answer) if answer == "OK" => field.counters().one("cache_memlimit"),
        Some(answer) if answer.starts_with("MEMLIMIT_ADJUST_FAILED") => {
            field.counters().one("cache_memlimit refused");
        }
        answer => field.fail(format!("{answer:?} to {command}")),
    }
}

/// Without load: compares the server's count of items with the items found.
fn at_rest(field: &Field, workers: &mut [Worker<'_>]) {
    everybody(workers, Worker::remove_mortals);
    wait_for_items(field, || {
        // Memory that becomes less takes items from a cache until it is done.
        everybody(workers, Worker::read_all);
        workers.iter().map(|worker| worker.model.len()).sum()
    });
}

/// Waits until the server counts as many items as there are.
fn wait_for_items(field: &Field, mut items: impl FnMut() -> u64) {
    let begin = Stopwatch::start();
    while field.goes_on() {
        // Expired items count until they are looked up.
        run_command(field, "lru_crawler crawl all");
        let (found, counted) = (items(), stat(field, "curr_items"));
        if counted == Some(found) {
            return;
        }
        if begin.elapsed() > REST {
            field.fail(format!("{found} items were found, and {counted:?} are counted"));
        }
        field.pause(Duration::from_millis(100));
    }
}

/// Refusals or evictions.
fn losses(field: &Field, keeping: Keeping, workers: &[Worker<'_>]) -> u64 {
    match keeping {
        Keeping::All => workers.iter().map(Worker::refusals).sum(),
        Keeping::Some => stat(field, "evictions").unwrap_or(0),
    }
}

fn judge_fullness(field: &Field, keeping: Keeping, losses: u64) {
    if losses < LOSSES_MIN && field.goes_on() {
        field.fail(format!("memory was not full: {losses} refusals or evictions"));
    }
    if keeping == Keeping::All && stat(field, "evictions") != Some(0) {
        field.fail("something was evicted that must stay");
    }
}
