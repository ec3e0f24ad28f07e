//! Nodes side by side, and their totals.

use crate::block::{Align, Block};
use crate::change::{Change, GETS, SETS, ratio};
use crate::node::{Link, Node};
use crate::reading::Reading;
use crate::units::{UNKNOWN, bytes, count, or_unknown, percent};

/// A row for each node, and the totals of those that answer.
pub(crate) fn nodes(nodes: &[Node]) -> Block {
    let columns = &[
        ("node", Align::Left),
        ("", Align::Left),
        ("gets/s", Align::Right),
        ("sets/s", Align::Right),
        ("hits", Align::Right),
        ("evict/s", Align::Right),
        ("items", Align::Right),
        ("memory", Align::Right),
        ("conns", Align::Right),
        ("p99 µs", Align::Right),
    ];
    let up: Vec<&Node> = nodes.iter().filter(|node| *node.link() == Link::Up).collect();
    let mut block = Block::new(format!("nodes: {} of {} answer", up.len(), nodes.len()), columns);
    for node in nodes {
        let state = match node.link() {
            Link::Connecting => "...",
            Link::Up => "up",
            Link::Down { .. } => "DOWN",
        };
        let hits = node.change().and_then(Change::hit_ratio);
        let is_up = *node.link() == Link::Up;
        let p99 = p99_of_gets(node).filter(|_| is_up);
        let shown: &[&Node] = if is_up { &[node] } else { &[] };
        block.row(figures(node.name(), state, hits, shown, or_unknown(p99, |p99| format!("{p99:.0}"))));
    }
    if nodes.len() > 1 {
        let sum = |name: &str| {
            let grown = up.iter().filter_map(|node| node.change()?.growth(name));
            grown.reduce(u64::saturating_add)
        };
        let hits = sum("get_hits").zip(sum("get_misses")).and_then(|(hits, misses)| ratio(hits, misses));
        block.row(figures("total", "", hits, &up, String::new()));
    }
    block
}

/// The recent value, or the one since the start if the server reports only that.
fn p99_of_gets(node: &Node) -> Option<f64> {
    match node.change().and_then(Change::latencies) {
        Some(lately) => lately.of("get")?.p99_us,
        None => node.last()?.latency.received()?.of("get")?.p99_us,
    }
}

fn figures(name: &str, state: &str, hits: Option<f64>, nodes: &[&Node], p99: String) -> [String; 10] {
    let rate = |counters: &[&str]| {
        let rates = nodes.iter().filter_map(|node| node.change()?.rates(counters));
        or_unknown(rates.reduce(|sum, rate| sum + rate), count)
    };
    let sum_of = |gauge: &dyn Fn(&Reading) -> Option<u64>| {
        let values = nodes.iter().filter_map(|node| gauge(node.last()?));
        values.reduce(u64::saturating_add)
    };
    let sum = |name: &str| sum_of(&|reading| reading.number(name));
    // A stock memcached reports its limit, but not the memory it has allocated.
    let memory = sum_of(&|reading| reading.number("memory_used").or_else(|| reading.number("bytes")));
    [
        name.to_owned(),
        state.to_owned(),
        rate(GETS),
        rate(SETS),
        hits.map_or(UNKNOWN.to_owned(), percent),
        rate(&["evictions"]),
        or_unknown(sum("curr_items"), |value| count(value as f64)),
        or_unknown(memory, |value| bytes(value as f64)),
        or_unknown(sum("curr_connections"), |value| count(value as f64)),
        p99,
    ]
}
