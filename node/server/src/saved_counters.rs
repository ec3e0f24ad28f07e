//! What the server itself keeps across an orderly stop: its counters, as lines of names and numbers.

use crate::counters::{ServerCount, TOTAL_CONNECTIONS, WorkerCount};
use crate::statistics::Statistics;
use guira_commands::CommandCount;
use std::fmt::Write as _;

/// Writes the counts since the last reset.
pub(crate) fn write(statistics: &Statistics) -> Vec<u8> {
    let mut text = String::new();
    for (name, count) in statistics.counted().lasting() {
        let _ = writeln!(text, "{name} {count}");
    }
    text.into_bytes()
}

/// Restores the counters that were written. Names that this version does not count are ignored. To be called before the workers start: their
/// counters have one writer each.
pub(crate) fn read(written: &[u8], statistics: &Statistics) {
    let text = String::from_utf8_lossy(written);
    let pairs = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.parse::<u64>().ok()?))
    });
    for (name, number) in pairs {
        if let Some(what) = CommandCount::named(name) {
            statistics.restore_command(what, number);
        } else if let Some(what) = WorkerCount::named(name) {
            statistics.restore_worker(what, number);
        } else if let Some(what) = ServerCount::named(name) {
            statistics.server().add(what, number);
        } else if name == TOTAL_CONNECTIONS {
            statistics.restore_connections(number);
        }
    }
}
