//! The time of a worker's round.

use guira_sync::clock::{CoarseClock, Seconds, Stopwatch};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct RoundClock {
    clock: CoarseClock,
    watch: Stopwatch,
    now: Seconds,
}

impl Default for RoundClock {
    fn default() -> Self {
        let clock = CoarseClock::system();
        RoundClock { now: clock.now(), clock, watch: Stopwatch::start() }
    }
}

impl RoundClock {
    pub(crate) fn begin_round(&mut self) {
        self.now = self.clock.now();
    }

    /// The beginning of the round.
    pub(crate) fn now(&self) -> Seconds {
        self.now
    }

    /// The present second since 1970.
    pub(crate) fn now_unix(&self) -> u64 {
        self.clock.now_unix()
    }

    /// The time since the worker started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }
}
