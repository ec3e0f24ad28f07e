//! Hands the time of a server to another process of the same machine.

use guira_sync::clock::{CoarseClock, monotonic_millis, wall_clock_millis};

/// A time of a server's clock, with the time of a clock that both processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandedTime {
    /// In milliseconds since 1970.
    pub(crate) unix: u64,
    /// The system's monotonic clock, in milliseconds.
    pub(crate) at: u64,
}

/// More than a takeover may take. Processes that differ by more have different monotonic clocks (time
/// namespaces), which say nothing.
const LONGEST_MS: u64 = 600_000;

impl HandedTime {
    pub(crate) fn of(clock: &CoarseClock) -> Self {
        HandedTime { unix: clock.base_unix() * 1000 + clock.millis().0, at: monotonic_millis() }
    }

    /// The present time of that clock, in milliseconds since 1970.
    pub(crate) fn now(self) -> u64 {
        self.at(monotonic_millis()).unwrap_or_else(wall_clock_millis)
    }

    fn at(self, monotonic: u64) -> Option<u64> {
        let passed = monotonic.checked_sub(self.at).filter(|passed| *passed <= LONGEST_MS)?;
        Some(self.unix + passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_on_by_what_has_passed_whatever_the_wall_clock_says() {
        let handed = HandedTime { unix: 1_000_000, at: 5000 };
        assert_eq!(handed.at(5250), Some(1_000_250));
        assert_eq!(handed.at(4999), None, "another clock");
        assert_eq!(handed.at(5000 + LONGEST_MS + 1), None, "another clock");
    }
}
