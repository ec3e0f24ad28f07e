//! What the server itself keeps across an orderly stop: its counters, as lines of names and numbers.

use crate::shared::{Shared, WorkerCount};
use guira_commands::CommandCount;
use guira_sync::atomic::Ordering;
use std::fmt::Write as _;

/// The name of the count of connections.
const CONNECTIONS: &str = "total_connections";

/// Writes down what was counted since the last reset.
pub(crate) fn write(shared: &Shared, since: &Since) -> Vec<u8> {
    let mut text = String::new();
    for (index, what) in CommandCount::ALL.iter().enumerate() {
        let before = since.commands.get(index).copied().unwrap_or(0);
        let _ = writeln!(text, "{} {}", what.name(), shared.command_sum(*what).saturating_sub(before));
    }
    for what in WorkerCount::ALL {
        let before = since.workers.get(what as usize).copied().unwrap_or(0);
        let _ = writeln!(text, "{} {}", what.name(), shared.worker_sum(what).saturating_sub(before));
    }
    let total = shared.connections.total.load(Ordering::Relaxed).saturating_sub(since.total_connections);
    let _ = writeln!(text, "{CONNECTIONS} {total}");
    text.into_bytes()
}

/// What the counters said when they were last reset.
#[derive(Debug, Default)]
pub(crate) struct Since {
    pub(crate) commands: Vec<u64>,
    pub(crate) workers: Vec<u64>,
    pub(crate) total_connections: u64,
    pub(crate) rejected_connections: u64,
}

/// Goes on counting from what was written down. Names that are not known any more are passed over. To be called before the workers
/// start: their counters have one writer each.
pub(crate) fn read(notes: &[u8], shared: &Shared) {
    let text = String::from_utf8_lossy(notes);
    let pairs = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.parse::<u64>().ok()?))
    });
    let Some((_, commands)) = shared.workers.first() else {
        return;
    };
    for (name, number) in pairs {
        if let Some(what) = CommandCount::ALL.iter().find(|what| what.name() == name) {
            commands.add(*what, number);
        } else if let Some(what) = WorkerCount::ALL.iter().find(|what| what.name() == name) {
            shared.add_before_start(*what, number);
        } else if name == CONNECTIONS {
            shared.connections.total.fetch_add(number, Ordering::Relaxed);
        }
    }
}
