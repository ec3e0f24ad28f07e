//! F6: what drives contention.

use std::time::Duration;

use super::network::{Ask, FLEEC, MEMCACHED, MEMCLOCK, NAMES, Point, Running, figure};
use crate::experiment::{Context, Experiment, Failure};
use crate::outcome::{Outcome, Table, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-drivers",
    claims: &["F6"],
    about: "Servers with two workers by the size of items and by the rate at which requests can come, Zipf 0.99, 99 % reads",
    run,
};

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16_384];
/// Requests per second that come, in thousands: as through a slow network, and as fast as they are answered.
const RATES: [Option<f64>; 4] = [Some(50e3), Some(150e3), Some(400e3), None];

fn rows(first: &str, points: &[Vec<Point>], value: usize) -> Vec<Vec<String>> {
    let base = figure(&points[MEMCACHED], |point| point.per_cpu).mean;
    let row = |(server, points): (usize, &Vec<Point>)| {
        let cell = |of: fn(&Point) -> f64| figure(points, of).to_string();
        let has = |text: String| if server == MEMCACHED { String::new() } else { text };
        vec![
            first.to_owned(),
            NAMES[server].to_owned(),
            cell(|point| point.per_cpu),
            format!("{:.2}", figure(points, |point| point.per_cpu).mean / base),
            cell(|point| point.per_second),
            figure(points, |point| point.per_second * 8e-6 * value as f64).to_string(),
            cell(|point| point.half),
            cell(|point| point.slow),
            has(cell(|point| point.waits)),
            has(cell(|point| point.lost)),
        ]
    };
    points.iter().enumerate().map(row).collect()
}

fn by(title: &str, first: &str, rows: Vec<Vec<String>>) -> Table {
    let head = [
        first,
        "server",
        "thousand operations per CPU second of the server",
        "÷ memcached",
        "thousand per second",
        "Gbit/s of values",
        "p50, us",
        "p99, us",
        "waits for locks in a million",
        "compare-and-swaps lost in a million",
    ];
    table(title, &head, rows)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let ask = |value, rate: Option<f64>| Ask {
        keys: context.scale.pick(20_000, 2_000),
        value,
        alpha: 0.99,
        pipeline: if rate.is_some() { 1 } else { 8 },
        rate,
        duration: Duration::from_millis(context.scale.pick(600, 60)),
    };
    let (mut by_size, mut by_rate) = (Vec::new(), Vec::new());
    let (mut sizes, mut waits) = (Vec::new(), Vec::new());
    let (mut by_growing_size, mut by_growing_rate) = (Vec::new(), Vec::new());
    let against = |points: &[Vec<Point>], other: usize| {
        let rate = |server: usize| figure(&points[server], |point| point.per_cpu).mean;
        rate(FLEEC) / rate(other)
    };
    for value in SIZES {
        let running = Running::start(context, 1 << 30, ask(value, None))?;
        let points = running.ask(context, ask(value, None))?;
        let of_memclock = figure(&points[MEMCLOCK], |point| point.waits).mean;
        by_growing_size.push(of_memclock);
        sizes.push(format!("{value} bytes {:.2} ({of_memclock:.0} waits)", against(&points, MEMCLOCK)));
        by_size.extend(rows(&value.to_string(), &points, value));
    }
    let running = Running::start(context, 1 << 30, ask(32, None))?;
    for rate in RATES {
        let points = running.ask(context, ask(32, rate))?;
        let name = rate.map_or("as answered".to_owned(), |rate| format!("{:.0}", rate / 1e3));
        let of_memclock = figure(&points[MEMCLOCK], |point| point.waits).mean;
        by_growing_rate.push(of_memclock);
        waits.push(format!("{name}: {of_memclock:.0}"));
        by_rate.extend(rows(&name, &points, 32));
    }
    let grows = |waits: &[f64]| waits.last() > waits.first();
    Ok(Outcome {
        how: "As fleec-skew, with 20,000 keys. The rate at which requests come stands for the bandwidth of the network: an open loop with random gaps, whose delays count from when a request should have been sent.".to_owned(),
        answers: vec![answer(
            "F6",
            format!(
                "fleec ÷ memclock per CPU second by size of the value, with waits for locks in a million operations of memclock: {}; waits by thousand requests a second: {}",
                sizes.join(", "),
                waits.join(", ")
            ),
            verdict(&[
                ("more waits for locks with 16 KiB than with 16 bytes", grows(&by_growing_size)),
                ("more as fast as requests are answered than at the lowest rate", grows(&by_growing_rate)),
            ]) + "A value is copied under memclock's lock. Access frequency is in F1 and fleec-contention.",
        )],
        tables: vec![
            by("By bytes of the value:", "bytes", by_size),
            by("By thousand requests a second:", "thousand a second", by_rate),
        ],
        charts: Vec::new(),
    })
}
