//! The load generator's clock: nanoseconds that only go forward, behind a trait so that tests move it themselves.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// A source of nanoseconds since some fixed moment.
pub trait Clock {
    /// Nanoseconds now; never less than before.
    fn now_ns(&self) -> u64;
}

#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that starts at 0 now. Copies keep the same origin, so threads can agree on a moment.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "this is the one place where the lab reads the fine clock")]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A day of the calendar, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// Today, for the name of a file of results.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "results are filed under the day on which they were measured"
    )]
    pub fn today() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::of_day(i64::try_from(since_epoch.as_secs() / 86_400).unwrap_or(0))
    }

    /// The date `day` days after 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
    const fn of_day(day: i64) -> Self {
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
        Self { year, month, day: day_of_year - (153 * month_from_march + 2) / 5 + 1 }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// A clock that only moves when it is advanced. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now_ns: Rc<Cell<u64>>,
}

impl ManualClock {
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.set(self.now_ns.get().saturating_add(by_ns));
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Date, ManualClock, MonotonicClock};

    #[test]
    fn days_of_the_calendar() {
        for (day, date) in [(0, "1970-01-01"), (19_782, "2024-02-29"), (20_777, "2026-11-20")] {
            assert_eq!(Date::of_day(day).to_string(), date);
        }
    }

    #[test]
    fn clones_of_a_manual_clock_share_their_hands() {
        let clock = ManualClock::default();
        let other = clock.clone();
        clock.advance_ns(5);
        assert_eq!(other.now_ns(), 5);
    }

    #[test]
    fn the_monotonic_clock_goes_forward() {
        let clock = MonotonicClock::start();
        let first = clock.now_ns();
        assert!(clock.now_ns() >= first);
    }
}
