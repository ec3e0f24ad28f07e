//! What a pool takes at a rate of requests, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Found, Load, Loss, Way};
use crate::report::{Simulated, grid, grouped};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Processor time of a request of a client, in microseconds.
    pub request_us: f64,
    /// Processor time of each of its keys, in microseconds.
    pub key_us: f64,
}

impl Costs {
    /// Processors that a load takes, at so many keys a second.
    fn cores(self, load: Load, rate: f64, keys_at_once: usize) -> f64 {
        let requests = load.requests * rate / keys_at_once as f64;
        (requests * self.request_us + load.keys * rate * self.key_us) / 1e6
    }
}

/// What was found of pools of several sizes.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub source: String,
    /// How it is written, or what it is made from and what was assumed.
    pub about: String,
    pub simulated: Simulated,
    /// Keys that are asked for, stored and deleted in a second.
    pub rate: f64,
    /// How many of them a client asks for at once.
    pub keys_at_once: usize,
    /// The room of a node, as it was written.
    pub memory: String,
    pub costs: Costs,
    pub pools: Vec<Found>,
}

/// How much of one processor the busiest node may use, so that a host has room for queues and other work.
const BUSY: f64 = 0.7;

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Rehash => "rehashed",
            Self::Gutter => "in the gutter",
            Self::Copies => "on other copies",
        }
    }
}

fn most(loads: &[Load], part: impl Fn(Load) -> f64) -> f64 {
    loads.iter().map(|load| part(*load)).fold(0.0, f64::max)
}

/// A number of something in a second.
fn rate(number: f64) -> String {
    match number {
        0.0..1e4 => format!("{number:.0}"),
        1e4..1e6 => format!("{:.0}k", number / 1e3),
        _ => format!("{:.1}M", number / 1e6),
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        0.0..10.0 => format!("{seconds:.1} s"),
        10.0..600.0 => format!("{seconds:.0} s"),
        600.0..36_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

impl Report {
    /// Tables with a row for each pool.
    #[must_use]
    pub fn text(&self) -> String {
        let Simulated { requests, keys, rate: share } = self.simulated;
        let sampled =
            if share < 1.0 { format!(" (a sample of {:.1} %)", 100.0 * share) } else { String::new() };
        let mut text = self.answer();
        let _infallible = writeln!(
            text,
            "\n\nSimulated: {}, {}\n{} requests for {} keys{sampled}; {} keys a second, {} at once; {} a node; {} µs of CPU time a request and {} a key",
            self.source,
            self.about,
            grouped(requests),
            grouped(keys),
            rate(self.rate),
            self.keys_at_once,
            self.memory,
            self.costs.request_us,
            self.costs.key_us
        );
        text += "\nThe model has no queues, network or other work of the hosts.\n\nIn operation (columns from requests/s on: the busiest node):\n";
        text += &self.at_work();
        text += "\nFrom empty:\n";
        text += &self.cold();
        if self.pools.iter().any(|pool| !pool.losses.is_empty()) {
            text +=
                "\nAfter the loss of the busiest node (hits: at first, and at the end of the requests):\n";
            text += &self.lost();
        }
        text
    }

    /// The smallest pool that carries the load, and what the loss of its busiest node means for the database.
    fn answer(&self) -> String {
        let busiest =
            |pool: &Found| most(&pool.loads, |load| self.costs.cores(load, self.rate, self.keys_at_once));
        let fits = self.pools.iter().filter(|pool| busiest(pool) <= BUSY);
        let Some(pool) = fits.min_by_key(|pool| (pool.nodes, pool.copies)) else {
            let least = self.pools.iter().map(busiest).fold(f64::INFINITY, f64::min);
            return format!(
                "No pool that was compared keeps its busiest node within {:.0} % of one processor; the best needs \
                 {least:.1} processors there. Use more nodes, or hosts with more processors.",
                100.0 * BUSY
            );
        };
        let copies = if pool.copies > 1 { format!(" with {} copies", pool.copies) } else { String::new() };
        let nodes = if pool.nodes == 1 {
            "1 node carries".to_owned()
        } else {
            format!("{} nodes{copies} carry", pool.nodes)
        };
        let mut text = format!(
            "{nodes} this load: the busiest uses {:.0} % of one processor, and {:.2} of 100 reads are hits.",
            100.0 * busiest(pool),
            100.0 * pool.hit_ratio
        );
        let least = pool.losses.iter().min_by(|one, other| one.more_misses.total_cmp(&other.more_misses));
        if let Some(loss) = least {
            let _infallible = write!(
                text,
                "\nIf it is lost, the database gets {} more queries a second at first, with its keys {}.",
                rate(loss.more_misses.max(0.0) * self.rate),
                loss.way.name()
            );
        }
        text
    }

    fn at_work(&self) -> String {
        let head = ["nodes", "copies", "hits, %", "database/s", "requests/s", "keys/s", "MB/s", "processors"];
        let rows = self.pools.iter().map(|pool| {
            let loads = &pool.loads[..];
            vec![
                pool.nodes.to_string(),
                pool.copies.to_string(),
                format!("{:.2}", 100.0 * pool.hit_ratio),
                rate(pool.misses * self.rate),
                rate(most(loads, |load| load.requests) * self.rate / self.keys_at_once as f64),
                rate(most(loads, |load| load.keys) * self.rate),
                format!("{:.1}", most(loads, |load| load.bytes) * self.rate / 1e6),
                format!("{:.2}", most(loads, |load| self.costs.cores(load, self.rate, self.keys_at_once))),
            ]
        });
        grid(&head, rows)
    }

    fn cold(&self) -> String {
        let head = ["nodes", "copies", "until 95 % of its hits", "queries beyond those of a warm pool"];
        // A sample has so many times fewer keys.
        let whole = 1.0 / self.simulated.rate;
        let rows = self.pools.iter().map(|pool| {
            let [until, queries] = match pool.cold_keys {
                Some(keys) => [seconds(keys as f64 * whole / self.rate), rate(pool.cold_misses * whole)],
                None => ["longer than the requests".to_owned(), "-".to_owned()],
            };
            vec![pool.nodes.to_string(), pool.copies.to_string(), until, queries]
        });
        grid(&head, rows)
    }

    fn lost(&self) -> String {
        let head = [
            "nodes",
            "its load, %",
            "its keys",
            "hits, %",
            "later",
            "database/s",
            "grows most",
            "gutter keys/s",
        ];
        let rows = self.pools.iter().flat_map(|pool| pool.losses.iter().map(move |loss| (pool, loss)));
        let rows = rows.map(|(pool, loss)| self.loss(pool, loss));
        grid(&head, rows)
    }

    fn loss(&self, pool: &Found, loss: &Loss) -> Vec<String> {
        let [soon, later] = loss.hit_ratios.map(|ratio| format!("{:.2}", 100.0 * ratio));
        let gutter = match loss.way {
            Way::Gutter => rate(most(&loss.gutter, |load| load.keys) * self.rate),
            Way::Rehash | Way::Copies => "-".to_owned(),
        };
        vec![
            pool.nodes.to_string(),
            format!("{:.1}", 100.0 * loss.share),
            loss.way.name().to_owned(),
            soon,
            later,
            format!("+{}", rate(loss.more_misses.max(0.0) * self.rate)),
            format!("× {:.2}", loss.most),
            gutter,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_processors_by_requests_and_by_keys() {
        let costs = Costs { request_us: 5.0, key_us: 0.5 };
        let load = Load { keys: 0.25, requests: 1.0, bytes: 0.0 };
        // 10,000 requests of 100 keys a second come to the node, each with 25 of them.
        assert!((costs.cores(load, 1e6, 100) - (0.05 + 0.125)).abs() < 1e-9);
    }

    #[test]
    fn numbers_have_units_that_can_be_read() {
        assert_eq!([0.4, 9999.0, 123_456.0, 4.2e7].map(rate), ["0", "9999", "123k", "42.0M"]);
        assert_eq!([0.25, 59.6, 3600.0, 86_400.0].map(seconds), ["0.2 s", "60 s", "60 min", "24 h"]);
    }
}
