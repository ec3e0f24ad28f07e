//! Rates, hit ratio, memory and the process.

use super::PAIRS;
use crate::block::{Align, Block};
use crate::change::{Change, GETS, SETS};
use crate::node::Node;
use crate::reading::Reading;
use crate::units::{UNKNOWN, bytes, count, or_unknown, percent, span};

/// A line of the table of rates: how it is called, the counters that it sums up, a router's among them, and how it is written.
type Rate = (&'static str, &'static [&'static str], fn(f64) -> String);

const RATES: &[Rate] = &[
    ("gets", GETS, count),
    ("misses", &["get_misses"], count),
    ("sets", SETS, count),
    ("deletes", &["delete_hits", "delete_misses", "cmd_delete_count"], count),
    ("touches", &["cmd_touch", "cmd_touch_count"], count),
    (
        "incr, decr",
        &["incr_hits", "incr_misses", "decr_hits", "decr_misses", "cmd_incr_count", "cmd_decr_count"],
        count,
    ),
    ("evictions", &["evictions"], count),
    ("expired", &["reclaimed", "crawler_reclaimed", "short_lived_reclaimed"], count),
    ("bytes in", &["bytes_read"], bytes),
    ("bytes out", &["bytes_written"], bytes),
];

/// Counters, per second and in total.
pub(crate) fn rates(node: &Node) -> Block {
    let columns = &[("", Align::Left), ("per second", Align::Right), ("total", Align::Right)];
    let mut block = Block::new("rates", columns);
    let Some(reading) = node.last() else {
        return block.with_note(Some("waiting for the node".to_owned()));
    };
    for (name, counters, write) in RATES {
        let totals = counters.iter().filter_map(|counter| reading.number(counter));
        let total = totals.reduce(u64::saturating_add);
        let rate = node.change().and_then(|change| change.rates(counters));
        block.row([
            (*name).to_owned(),
            or_unknown(rate, write),
            or_unknown(total, |total| write(total as f64)),
        ]);
    }
    block
}

pub(crate) fn ratio(node: &Node) -> Block {
    let mut block = Block::new("hit ratio", PAIRS);
    let now = node.change().and_then(Change::hit_ratio);
    block.row(["now".to_owned(), or_unknown(now, percent)]);
    block.row(["since start".to_owned(), or_unknown(node.hit_ratio(), percent)]);
    block
}

/// Memory by what it is used for.
pub(crate) fn memory(node: &Node) -> Block {
    let mut block = Block::new("memory", PAIRS);
    let Some(reading) = node.last() else { return block };
    let size = |name: &str| or_unknown(reading.number(name), |value| bytes(value as f64));
    let number = |name: &str| or_unknown(reading.number(name), |value| count(value as f64));
    block.row(["ceiling".to_owned(), size("limit_maxbytes")]);
    if let (Some(used), Some(limit)) = (reading.number("memory_used"), reading.number("memory_limit")) {
        let share = if limit > 0 { percent(used as f64 / limit as f64) } else { UNKNOWN.to_owned() };
        block.row(["items, index".to_owned(), format!("{} ({share})", bytes(used as f64))]);
    }
    block.row(["items".to_owned(), number("curr_items")]);
    block.row(["bytes of items".to_owned(), size("bytes")]);
    block.row(["index".to_owned(), size("hash_bytes")]);
    if reading.number("conn_memory_limit").is_some() {
        let text = format!("{} of {}", size("conn_memory_used"), size("conn_memory_limit"));
        block.row(["connections".to_owned(), text]);
    }
    block
}

pub(crate) fn server(node: &Node) -> Block {
    let mut block = Block::new("server", PAIRS);
    let Some(reading) = node.last() else { return block };
    let number = |name: &str| or_unknown(reading.number(name), |value| count(value as f64));
    let per_second = |name: &str| {
        or_unknown(node.change().and_then(|change| change.rate(name)), |rate| format!("{}/s", count(rate)))
    };
    let processors = node.change().and_then(Change::processors);
    block.row(["processors".to_owned(), or_unknown(processors, |used| format!("{used:.2}"))]);
    block.row(["workers".to_owned(), number("threads")]);
    block.row(["yields".to_owned(), per_second("conn_yields")]);
    if reading.number("forwarded_requests").is_some() {
        block.row(["forwarded".to_owned(), per_second("forwarded_requests")]);
    }
    let connections = format!("{} of {}", number("curr_connections"), number("max_connections"));
    block.row(["connections".to_owned(), connections]);
    block
}

/// Describes a node: version, time since the start, engine and policy.
pub(crate) fn header(reading: &Reading) -> String {
    let mut words = Vec::new();
    if let Some(version) = reading.general.received().and_then(|stats| stats.text("version")) {
        words.push(version.to_owned());
    }
    if let Some(uptime) = reading.number("uptime") {
        words.push(format!("up {}", span(uptime)));
    }
    words.extend(reading.setting("engine").map(str::to_owned));
    words.extend(reading.setting("policy").map(|policy| format!("policy {policy}")));
    let next = reading.setting("policy_next").filter(|next| *next != "NULL");
    words.extend(next.map(|next| format!("(next {next})")));
    words.join("  ")
}
