//! Tracks how many lines of a sender all targets have acknowledged.

use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The number of a connection, and of lines on it, such as `3-1500`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) connection: u64,
    pub(super) lines: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.connection, self.lines)
    }
}

/// The newest position of the current connection that all targets have acknowledged. The thread of
/// that connection sends it to the sender, so that no other thread waits for a sender that does not
/// read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledged(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: invalidator_acknowledged. Leaf.
    newest: Mutex<Position>,
    advanced: Condvar,
}

impl Acknowledged {
    fn newest(&self) -> MutexGuard<'_, Position> {
        self.0.newest.lock()
    }

    /// Sets the position that all targets have acknowledged. A position of an earlier connection is
    /// ignored: its sender sends those lines again.
    pub(crate) fn set(&self, position: &str) {
        let Some((connection, lines)) = position.split_once('-') else { return };
        let (Ok(connection), Ok(lines)) = (connection.parse::<u64>(), lines.parse()) else { return };
        let mut newest = self.newest();
        if newest.connection == connection {
            newest.lines = lines;
            self.0.advanced.notify_all();
        }
    }

    pub(super) fn begin(&self, connection: u64) {
        *self.newest() = Position { connection, lines: 0 };
    }

    pub(super) fn lines(&self) -> u64 {
        self.newest().lines
    }

    /// Waits up to `duration` until more than this many lines are acknowledged.
    pub(super) fn wait_for_more(&self, than: u64, duration: Duration) {
        drop(self.0.advanced.wait_timeout_while(self.newest(), duration, |newest| newest.lines <= than));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positions_of_the_present_connection_count() {
        let acknowledged = Acknowledged::default();
        acknowledged.begin(2);
        for position in ["1-70", "2-5", "1-80", "", "2", "x-9", "2-x"] {
            acknowledged.set(position);
        }
        assert_eq!(acknowledged.lines(), 5);
        acknowledged.begin(3);
        acknowledged.set("2-9");
        assert_eq!(acknowledged.lines(), 0);
    }
}
