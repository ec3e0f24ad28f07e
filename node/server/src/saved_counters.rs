//! What the server itself keeps across an orderly stop: its counters, as lines of names and numbers.

use crate::counters::{ServerCount, TOTAL_CONNECTIONS, WorkerCount};
use crate::shared::Shared;
use guira_commands::CommandCount;
use guira_sync::atomic::Ordering;
use std::fmt::Write as _;

/// Writes the counts since the last reset.
pub(crate) fn write(shared: &Shared) -> Vec<u8> {
    let mut text = String::new();
    for (name, count) in shared.counted().lasting() {
        let _ = writeln!(text, "{name} {count}");
    }
    text.into_bytes()
}

/// Goes on counting from what was written. Names that this version does not count are ignored. To be called before the workers start: their
/// counters have one writer each.
pub(crate) fn read(written: &[u8], shared: &Shared) {
    let text = String::from_utf8_lossy(written);
    let pairs = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.parse::<u64>().ok()?))
    });
    let Some((_, commands)) = shared.workers.first() else {
        return;
    };
    for (name, number) in pairs {
        if let Some(what) = CommandCount::named(name) {
            commands.add(what, number);
        } else if let Some(what) = WorkerCount::named(name) {
            shared.add_before_start(what, number);
        } else if let Some(what) = ServerCount::named(name) {
            shared.hub.counters.add(what, number);
        } else if name == TOTAL_CONNECTIONS {
            shared.connections.total.fetch_add(number, Ordering::Relaxed);
        }
    }
}
