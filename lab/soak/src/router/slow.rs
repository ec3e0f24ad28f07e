//! A server that replies after ten milliseconds: clients of another pool on the same worker do not
//! notice it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;

use super::fleet::{Node, Router, pool};
use super::{Failures, as_text};
use crate::line::Line;
use crate::plan::Plan;

const SLOW: Duration = Duration::from_millis(10);
const CLIENTS: usize = 8;
/// Gets of the other one in a round, and rounds with and without the slow one, in turn.
const GETS: usize = 10_000;
const ROUNDS: usize = 9;
/// How much slower the slowest in a hundred may be.
const RATIO_MAX: f64 = 1.2;
/// Other work on the machine may be the reason once.
const TRIES: usize = 3;

/// Answers every get after a while with a miss, until the process ends.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let Ok(mut out) = stream.try_clone() else { return };
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                std::thread::sleep(SLOW);
                let answer: &[u8] = if line.starts_with("get ") { b"END\r\n" } else { b"VERSION slow\r\n" };
                if out.write_all(answer).is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends a request every ten milliseconds, or whenever a slower answer arrives.
fn request_until_over(address: SocketAddr, prefix: &str, is_over: &AtomicBool) -> std::io::Result<()> {
    let mut line = Line::open(address)?;
    while !is_over.load(Ordering::Relaxed) {
        let since = Stopwatch::start();
        line.request(&format!("get {prefix}key\r\n"))?;
        std::thread::sleep(SLOW.saturating_sub(since.elapsed()));
    }
    Ok(())
}

/// The p99 of the gets of one client, in microseconds, while others request keys with this prefix.
fn round(address: SocketAddr, prefix: &str) -> Result<f64, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| request_until_over(address, prefix, &is_over))).collect();
        let mut times = Vec::with_capacity(GETS);
        let mut measure = || -> std::io::Result<()> {
            let mut line = Line::open(address)?;
            for _ in 0..GETS {
                let since = Stopwatch::start();
                line.request("get quick\r\n")?;
                times.push(since.elapsed().as_nanos() as f64 / 1e3);
            }
            Ok(())
        };
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            other.join().map_err(|_| "a client panicked")?.map_err(as_text)?;
        }
        measured.map_err(as_text)?;
        times.sort_by(f64::total_cmp);
        Ok(times[GETS * 99 / 100])
    })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// How many times the p99 grows beside a slow server.
fn compare(router: SocketAddr) -> Result<f64, String> {
    let (mut quick, mut with_slow) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quick.push(round(router, "other:")?);
        with_slow.push(round(router, "slow:")?);
    }
    let (quick, with_slow) = (median(quick), median(with_slow));
    println!(
        "  p99 {quick:.0} us beside quick servers, {with_slow:.0} us beside a slow one, median of {ROUNDS} rounds"
    );
    Ok(with_slow / quick)
}

pub(super) fn run(plan: &Plan) -> Result<Failures, String> {
    let node = Node::start(plan)?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(as_text)?;
    let slow = listener.local_addr().map_err(as_text)?;
    std::thread::spawn(move || serve(&listener));
    let config = format!(
        "{{\"pools\": {{{}, {}}}, \"route\": {{\"type\": \"PrefixSelectorRoute\", \"policies\": {{\"slow:\": \"PoolRoute|S\"}}, \"wildcard\": \"PoolRoute|A\"}}}}",
        pool("A", &[node.address]),
        pool("S", &[slow])
    );
    let mut router =
        Router::start(&plan.binary, &config, &["--num-proxies", "1", "--server-timeout-ms", "5000"])?;
    let mut ratio = f64::INFINITY;
    for _ in 0..TRIES {
        ratio = ratio.min(compare(router.address)?);
        if ratio <= RATIO_MAX {
            break;
        }
    }
    let mut failures = router.failures();
    if ratio > RATIO_MAX {
        failures.push(format!("a slow server makes the p99 of another pool {ratio:.2} times as long"));
    }
    Ok(failures)
}
