//! I8 and I15: two workers, and who directs requests to them.

use guira_harness::stats::stats;
use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Client, How, Path, Server};
use super::{Ask, SKEWED, TINY, near};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mica-spread",
    claims: &["I8", "I15"],
    about: "Two workers: bursts under skew, and requests directed by the client or by the server",
    run,
};

/// How often bursts of each size came to each worker.
fn bursts(address: SocketAddr) -> Result<Vec<Vec<(u64, u64)>>, Failure> {
    let mut workers = vec![Vec::new(); 2];
    for (name, count) in stats(address, "bursts").map_err(failed)? {
        let (worker, size) = name.split_once(':').ok_or_else(|| Failure::Other(name.clone()))?;
        let worker: usize = worker.parse().map_err(failed)?;
        workers[worker % 2].push((size.parse().map_err(failed)?, count.parse().map_err(failed)?));
    }
    Ok(workers)
}

/// The mean burst between two looks, taking each size for its largest.
fn mean(before: &[(u64, u64)], after: &[(u64, u64)]) -> (f64, f64) {
    let counts = before.iter().zip(after).map(|((size, before), (_, after))| (*size, after - before));
    let (bursts, datagrams) = counts
        .fold((0.0, 0.0), |(all, sum), (size, count)| (all + count as f64, sum + (size * count) as f64));
    (datagrams / bursts.max(1.0), datagrams)
}

/// By skew and run: million requests per second of the server's processor time, and the mean bursts of the busier worker and of the other, with the
/// share of the busier.
#[derive(Debug, Default)]
struct Found {
    directed: [Vec<f64>; 2],
    anywhere: [Vec<f64>; 2],
    busiest: [Vec<(f64, f64, f64)>; 2],
}

fn measure(context: &Context, server: &Server, how: How, keys: u32) -> Result<Found, Failure> {
    let mut found = Found::default();
    let spent = || server.processor_s();
    for run in 0..context.runs {
        for (skew, alpha) in [0.0, SKEWED].into_iter().enumerate() {
            let ask = Ask { data: TINY, keys, alpha, gets: 0.5 };
            let seed = context.seed + u64::from(run);
            let before = bursts(server.tcp())?;
            found.directed[skew].push(
                Client::new(server.connect(Path::Ring)?, how)?.ask(&ask, how, seed, &spent)?.per_cpu_s / 1e6,
            );
            let after = bursts(server.tcp())?;
            let sizes: Vec<(f64, f64)> = (0..2).map(|worker| mean(&before[worker], &after[worker])).collect();
            let most = usize::from(sizes[1].1 > sizes[0].1);
            found.busiest[skew].push((
                sizes[most].0,
                sizes[1 - most].0,
                sizes[most].1 / (sizes[0].1 + sizes[1].1),
            ));
            let undirected = Client::undirected(server.connect(Path::Ring)?, how)?;
            found.anywhere[skew].push({ undirected }.ask(&ask, how, seed, &spent)?.per_cpu_s / 1e6);
        }
    }
    Ok(found)
}

impl Found {
    /// A part of the mean bursts, over the runs.
    fn bursts(&self, skew: usize, part: fn(&(f64, f64, f64)) -> f64) -> Figure {
        Figure::of(&self.busiest[skew].iter().map(part).collect::<Vec<_>>())
    }

    fn answers(&self) -> Vec<Answer> {
        let of = |skew, part| self.bursts(skew, part);
        let mean = |runs: &[f64]| Figure::of(runs).mean;
        let ratio = |skew: usize| 100.0 * mean(&self.anywhere[skew]) / mean(&self.directed[skew]);
        vec![
            answer(
                "I8",
                format!(
                    "mean burst of the busier worker {} uniform and {} with Zipf 0.99, of the other {} and {}; the busier one has {:.0} and {:.0} % of the datagrams",
                    of(0, |it| it.0),
                    of(1, |it| it.0),
                    of(0, |it| it.1),
                    of(1, |it| it.1),
                    100.0 * of(0, |it| it.2).mean,
                    100.0 * of(1, |it| it.2).mean
                ),
                verdict(&[(
                    "bursts of the busier worker grow with skew",
                    of(1, |it| it.0).mean > of(0, |it| it.0).mean,
                )]) + "Three threads share two processors, so that bursts are as long as a thread had to wait for its turn. A burst is taken for the largest of its size in the histogram.",
            ),
            answer(
                "I15",
                format!(
                    "requests that the server has to direct: {:.0} % uniform, {:.0} % with Zipf 0.99 of those that the client directs, per second of the server's processor time",
                    ratio(0),
                    ratio(1)
                ),
                verdict(&[(
                    "directing in software leaves less than half",
                    ratio(0) < 50.0 && ratio(1) < 50.0,
                )]) + "The paper sends each request on through a queue between cores. Here the partition comes to the worker instead, at the end of a batch. Requests over TCP are sent on, as in the paper.",
            ),
        ]
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(4 << 20, 20_000);
    let how =
        How { per_datagram: 1, rate: None, duration: Duration::from_millis(context.scale.pick(800, 50)) };
    let arguments = ["--engine", "mica", "--access", "erew", "--memory", "1GiB"].map(str::to_owned);
    let server = Server::start(context, &arguments, 2)?;
    Client::new(server.connect(Path::Ring)?, how)?.fill(TINY, keys)?;
    let found = measure(context, &server, how, keys)?;
    let mut rows = Vec::new();
    for (skew, name) in ["uniform", "Zipf 0.99"].into_iter().enumerate() {
        rows.push(vec![
            name.to_owned(),
            Figure::of(&found.directed[skew]).to_string(),
            Figure::of(&found.anywhere[skew]).to_string(),
            found.bursts(skew, |it| it.0).to_string(),
            found.bursts(skew, |it| it.1).to_string(),
            format!("{:.1}", 100.0 * found.bursts(skew, |it| it.2).mean),
        ]);
    }
    Ok(Outcome {
        how: format!(
            "`guira serve --engine mica --access erew` with two workers and a client with one thread, all on the machine's two processors, {keys} tiny items, 50 % get, one request to a datagram, shared memory. Undirected requests go to the workers in turn, and half of them to the wrong one. {}",
            near::summary()
        ),
        answers: found.answers(),
        tables: vec![table(
            "Two workers, million requests per second of the server's processor time:",
            &[
                "",
                "directed by the client",
                "in turn",
                "mean burst, busier worker",
                "the other",
                "% of datagrams at the busier",
            ],
            rows,
        )],
        charts: Vec::new(),
    })
}
