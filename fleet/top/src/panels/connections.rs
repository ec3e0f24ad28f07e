//! Connections: how many, what they do, and how long they have been idle.

use super::PAIRS;
use crate::block::{Align, Block};
use crate::node::Node;
use crate::units::{bytes, count, or_unknown};

/// A counter of connections, and how it is called.
const COUNTERS: &[(&str, &str)] = &[
    ("accepted", "total_connections"),
    ("refused", "rejected_connections"),
    ("limit reached", "listen_disabled_num"),
    ("idle, closed", "idle_kicks"),
    ("out of memory, receiving", "read_buf_oom"),
    ("out of memory, sending", "response_obj_oom"),
];

pub(crate) fn connections(node: &Node) -> Vec<Block> {
    let Some(reading) = node.last() else {
        return vec![Block::new("connections", PAIRS).with_note(Some("waiting for the node".to_owned()))];
    };
    let number = |name: &str| or_unknown(reading.number(name), |value| count(value as f64));
    let columns = &[("", Align::Left), ("per second", Align::Right), ("total", Align::Right)];
    let title = format!("connections: {} of {}", number("curr_connections"), number("max_connections"));
    let mut counters = Block::new(title, columns);
    for (name, counter) in COUNTERS.iter().filter(|(_, counter)| reading.number(counter).is_some()) {
        let rate = node.change().and_then(|change| change.rate(counter));
        counters.row([(*name).to_owned(), or_unknown(rate, count), number(counter)]);
    }
    let mut memory = Block::new("memory of connections", PAIRS);
    for (name, gauge) in [
        ("used", "conn_memory_used"),
        ("items being sent", "conn_memory_pinned"),
        ("limit", "conn_memory_limit"),
    ] {
        if let Some(value) = reading.number(gauge) {
            memory.row([name.to_owned(), bytes(value as f64)]);
        }
    }
    let mut states = Block::new("sockets by state", PAIRS);
    let mut idle = Block::new("connections by time since the last command", PAIRS);
    if let Some(received) = reading.connections.received() {
        received.by_state().for_each(|(state, number)| states.row([state.to_owned(), number.to_string()]));
        let names = ["up to 1 s", "up to 10 s", "up to 1 min", "up to 1 h", "longer"];
        for (name, number) in names.into_iter().zip(received.by_idle()) {
            idle.row([name.to_owned(), number.to_string()]);
        }
    } else {
        states.note = reading.connections.note("its connections");
    }
    let mut blocks = vec![counters, states, idle, memory];
    blocks.retain(|block| !block.is_empty());
    blocks
}
