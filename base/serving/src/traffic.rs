//! What each worker counts of its connections.

use guira_sync::counters::Counters;

/// What is counted of connections, whatever they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficCount {
    BytesRead,
    BytesWritten,
    /// Turns that ended before their connection had nothing more to do.
    Yields,
    /// Logins, and those that failed.
    AuthCommands,
    AuthErrors,
    /// Connections closed because nothing came from them.
    IdleKicks,
}

const COUNTS: usize = TrafficCount::IdleKicks as usize + 1;

/// One worker's counters. Only its thread adds to them.
#[derive(Debug, Default)]
pub struct TrafficCounters(Counters<COUNTS>);

impl TrafficCounters {
    pub fn add(&self, what: TrafficCount, amount: u64) {
        self.0.add(what as usize, amount);
    }

    pub fn get(&self, what: TrafficCount) -> u64 {
        self.0.get(what as usize)
    }
}
