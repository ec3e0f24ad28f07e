//! The servers behind a router.

use crate::block::{Align, Block};
use crate::node::Node;
use crate::units::{UNKNOWN, count, or_unknown};

/// A row for each server: those that are out of service come first.
pub(crate) fn servers(node: &Node) -> Block {
    let columns = &[
        ("server", Align::Left),
        ("", Align::Left),
        ("up", Align::Right),
        ("req/s", Align::Right),
        ("fail/s", Align::Right),
        ("avg µs", Align::Right),
        ("waiting", Align::Right),
        ("under way", Align::Right),
        ("failed", Align::Right),
        ("not sent", Align::Right),
    ];
    let received = node.last().and_then(|reading| reading.servers.received());
    let Some(received) = received else {
        let note = node.last().and_then(|reading| reading.servers.note("servers behind it"));
        return Block::new("servers", columns).with_note(note);
    };
    let mut servers: Vec<_> = received.iter().collect();
    servers.sort_by_key(|(_, figures)| (figures.tko.is_none(), figures.up > 0));
    let out = servers.iter().filter(|(_, figures)| figures.tko.is_some()).count();
    let mut block =
        Block::new(format!("servers: {} of {} in service", servers.len() - out, servers.len()), columns);
    let number = |value: u64| count(value as f64);
    for (name, figures) in servers {
        let rate = |what| node.change().and_then(|change| change.of_server(name, what));
        let latency =
            if figures.latency_us > 0.0 { format!("{:.0}", figures.latency_us) } else { UNKNOWN.to_owned() };
        block.row([
            name.to_owned(),
            figures.tko.clone().unwrap_or_default(),
            format!("{}/{}", figures.up, figures.connections),
            or_unknown(rate(|figures| figures.answered + figures.failed), count),
            or_unknown(rate(|figures| figures.failed + figures.refused), count),
            latency,
            number(figures.pending),
            number(figures.inflight),
            number(figures.failed),
            number(figures.refused),
        ]);
    }
    block
}
