//! F1 to F4: throughput and delays over a network by skew.

use std::time::Duration;

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};

use super::network::{Ask, CONNECTIONS, FLEEC, MEMCACHED, MEMCLOCK, NAMES, Point, Running, figure};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};
use crate::servers;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-skew",
    claims: &["F1", "F3", "F4"],
    about: "Throughput and delays of servers with two workers by Zipf's exponent, 99 % reads of small items",
    run,
};

const ALPHAS: [f64; 7] = [0.5, 0.7, 0.9, 0.99, 1.1, 1.3, 1.5];

/// All points: by exponent, then by server, then by run.
struct All(Vec<Vec<Vec<Point>>>);

impl All {
    fn figure(&self, alpha: usize, server: usize, of: fn(&Point) -> f64) -> Figure {
        figure(&self.0[alpha][server], of)
    }

    fn ratio(&self, alpha: usize, server: usize, other: usize, of: fn(&Point) -> f64) -> f64 {
        self.figure(alpha, server, of).mean / self.figure(alpha, other, of).mean
    }

    /// Ratios of one server to another at the lowest exponent, at 0.99, and at the highest.
    fn summary(&self, server: usize, other: usize, of: fn(&Point) -> f64) -> String {
        [0, 3, ALPHAS.len() - 1]
            .map(|alpha| format!("{:.2} at {}", self.ratio(alpha, server, other, of), ALPHAS[alpha]))
            .join(", ")
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (alpha, exponent) in ALPHAS.iter().enumerate() {
            for (server, name) in NAMES.iter().enumerate() {
                let cell = |of| self.figure(alpha, server, of).to_string();
                rows.push(vec![
                    exponent.to_string(),
                    (*name).to_owned(),
                    cell(|point| point.per_cpu),
                    format!("{:.2}", self.ratio(alpha, server, MEMCACHED, |point| point.per_cpu)),
                    cell(|point| point.per_second),
                    cell(|point| point.half),
                    cell(|point| point.slow),
                    if server == MEMCACHED { String::new() } else { cell(|point| point.waits) },
                    if server == MEMCACHED { String::new() } else { cell(|point| point.lost) },
                ]);
            }
        }
        let head = [
            "exponent",
            "server",
            "thousand operations per CPU second of the server",
            "÷ memcached",
            "thousand per second",
            "p50, us",
            "p99, us",
            "waits for locks in a million",
            "compare-and-swaps lost in a million",
        ];
        table("By exponent and server:", &head, rows)
    }

    fn chart(&self) -> Chart {
        let lines = NAMES.iter().enumerate().map(|(server, name)| {
            let dot = |(alpha, &x): (usize, &f64)| {
                let rate = self.figure(alpha, server, |point| point.per_cpu);
                Dot { x, y: rate.mean, spread: rate.spread }
            };
            Line::new(name, ALPHAS.iter().enumerate().map(dot).collect())
        });
        Chart {
            name: "fleec-skew".to_owned(),
            title: "99 % reads by skew".to_owned(),
            x: Axis::new("Zipf's exponent", Steps::Linear),
            y: Axis {
                about: "thousand operations per CPU second of the server".to_owned(),
                steps: Steps::Linear,
            },
            lines: lines.collect(),
        }
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let ask = |alpha| Ask {
        keys: context.scale.pick(1_000_000, 20_000),
        value: 32,
        alpha,
        pipeline: 8,
        rate: None,
        duration: Duration::from_millis(context.scale.pick(600, 60)),
    };
    let running = Running::start(context, context.scale.pick(512 << 20, 64 << 20), ask(ALPHAS[0]))?;
    let all = ALPHAS.iter().map(|&alpha| running.ask(context, ask(alpha))).collect::<Result<Vec<_>, _>>()?;
    let all = All(all);
    let ratios = |server: usize, other: usize, of: fn(&Point) -> f64| -> Vec<f64> {
        (0..ALPHAS.len()).map(|alpha| all.ratio(alpha, server, other, of)).collect()
    };
    let above = ratios(FLEEC, MEMCACHED, |point| point.per_cpu).iter().all(|ratio| *ratio > 1.0);
    let sooner = ratios(FLEEC, MEMCACHED, |point| point.half).iter().all(|ratio| *ratio < 1.0);
    let slowest = ratios(FLEEC, MEMCACHED, |point| point.slow).iter().all(|ratio| *ratio < 1.0);
    let alike = ratios(FLEEC, MEMCLOCK, |point| point.per_cpu).iter().all(|ratio| (ratio - 1.0).abs() < 0.05);
    Ok(Outcome {
        how: format!(
            "Servers with two workers, and a client with two threads and {CONNECTIONS} connections with 8 requests in flight on each, all on the machine's two processors; {} keys of 16 + 32 bytes that all fit, 99 % reads. memcached is {}. Delays are those of a closed loop, with 256 requests in flight.",
            ask(0.5).keys,
            servers::version(context)
        ),
        answers: vec![
            answer(
                "F1",
                format!(
                    "fleec ÷ memcached, operations per CPU second of the server: {}",
                    all.summary(FLEEC, MEMCACHED, |point| point.per_cpu)
                ),
                verdict(&[("above memcached at every exponent", above)])
                    + "Guira's server answers several requests with one system call, whatever the engine.",
            ),
            answer(
                "F3",
                format!(
                    "delay of fleec ÷ memcached: half of the reads {}; one in a hundred {}",
                    all.summary(FLEEC, MEMCACHED, |point| point.half),
                    all.summary(FLEEC, MEMCACHED, |point| point.slow)
                ),
                verdict(&[
                    ("half of the reads take less time than with memcached at every exponent", sooner),
                    ("the slowest hundredth of the reads takes less time at every exponent", slowest),
                ]) + "With four threads on two processors the slowest wait for a turn of the system's scheduler, 2 to 4 ms, for which more requests are in flight when the rate is higher. What a thread that stands still does to the others is in F4, and what growth does below (fleec-growth).",
            ),
            answer(
                "F4",
                format!(
                    "fleec ÷ memclock, operations per CPU second: {}; one read in a hundred takes {} of its time in memclock",
                    all.summary(FLEEC, MEMCLOCK, |point| point.per_cpu),
                    all.summary(FLEEC, MEMCLOCK, |point| point.slow)
                ),
                verdict(&[("over loopback locks cost less than a twentieth at every exponent", alike)])
                    + "Same server, table and eviction; locks are all that differs. fleec-contention has the engines without system calls, fleec-parked a thread that stands still.",
            ),
        ],
        tables: vec![all.table()],
        charts: vec![all.chart()],
    })
}
