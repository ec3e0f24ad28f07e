//! Commands: how often, with what result, and how long they take.

use crate::block::{Align, Block};
use crate::change::Change;
use crate::node::Node;
use crate::units::{UNKNOWN, count, or_unknown};

/// A command: its name, the counters of all its requests, of those that hit, and of those that missed.
type Command = (&'static str, &'static [&'static str], &'static str, &'static str);

const COMMANDS: &[Command] = &[
    ("get", &["cmd_get"], "get_hits", "get_misses"),
    ("set", &["cmd_set"], "", ""),
    ("delete", &["delete_hits", "delete_misses"], "delete_hits", "delete_misses"),
    ("incr", &["incr_hits", "incr_misses"], "incr_hits", "incr_misses"),
    ("decr", &["decr_hits", "decr_misses"], "decr_hits", "decr_misses"),
    ("cas", &["cas_hits", "cas_misses", "cas_badval"], "cas_hits", "cas_misses"),
    ("touch", &["cmd_touch"], "touch_hits", "touch_misses"),
    ("meta", &["cmd_meta"], "", ""),
    ("lease-get", &["cmd_lease_get"], "", "lease_hot_misses"),
    ("flush_all", &["cmd_flush"], "", ""),
    ("flush_prefix", &["cmd_flush_prefix"], "", ""),
    ("login", &["auth_cmds"], "", "auth_errors"),
];

/// Commands by second. Those that the server does not count are left out.
pub(crate) fn commands(node: &Node) -> Block {
    let columns = &[
        ("command", Align::Left),
        ("per second", Align::Right),
        ("hits/s", Align::Right),
        ("misses/s", Align::Right),
        ("total", Align::Right),
    ];
    let mut block = Block::new("commands", columns);
    let Some(reading) = node.last() else {
        return block.with_note(Some("waiting for the node".to_owned()));
    };
    let rate = |names: &[&str]| or_unknown(node.change().and_then(|change| change.rates(names)), count);
    for (name, all, hits, misses) in COMMANDS {
        let totals = all.iter().filter_map(|counter| reading.number(counter));
        let Some(total) = totals.reduce(u64::saturating_add) else { continue };
        let of = |counter: &str| if counter.is_empty() { String::new() } else { rate(&[counter]) };
        block.row([(*name).to_owned(), rate(all), of(hits), of(misses), count(total as f64)]);
    }
    block
}

/// The latency of requests on the node: recent, or since its start if the node reports only that.
pub(crate) fn latency(node: &Node) -> Block {
    let columns = &[
        ("", Align::Left),
        ("samples", Align::Right),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("p999", Align::Right),
    ];
    let lately = node.change().and_then(Change::latencies);
    let title = if lately.is_some() { "latency in µs, now" } else { "latency in µs, since start" };
    let mut block = Block::new(title, columns);
    let Some(reading) = node.last() else { return block };
    let Some(latencies) = lately.as_ref().or(reading.latency.received()) else {
        return block.with_note(reading.latency.note("latencies"));
    };
    let micros = |value: Option<f64>| or_unknown(value, |value| format!("{value:.1}"));
    for series in latencies.series() {
        block.row([
            series.name.clone(),
            series.samples.map_or(UNKNOWN.to_owned(), count),
            micros(series.mean_us),
            micros(series.p50_us),
            micros(series.p99_us),
            micros(series.p999_us),
        ]);
    }
    let is_empty = latencies.series().is_empty();
    block.with_note(is_empty.then(|| "nothing was measured yet".to_owned()))
}
