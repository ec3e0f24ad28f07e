//! Two clocks of two types. The *coarse* clock of expiry counts whole [`Seconds`] since a base that lies before
//! the first item; tests move it. The *fine* clock ([`Stopwatch`]) measures and decides nothing.

use crate::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whole seconds since the base of a [`CoarseClock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

/// How far behind the start the base lies. Expiry times that have passed can then be told from zero.
const BASE_BEFORE_START: u64 = 2;

/// The clock that expiry goes by.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    base_unix: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System { start: Instant },
    Manual(Arc<AtomicU32>),
}

impl CoarseClock {
    /// The system's clock; the base is two seconds ago. It follows the monotonic clock, so that a step of the
    /// wall clock expires nothing.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        CoarseClock {
            base_unix: unix.saturating_sub(BASE_BEFORE_START),
            source: Source::System { start: Instant::now() },
        }
    }

    /// A clock that only moves when [`CoarseClock::advance`] is called. It starts at `start_unix`.
    pub fn manual(start_unix: u64) -> Self {
        CoarseClock {
            base_unix: start_unix.saturating_sub(BASE_BEFORE_START),
            source: Source::Manual(Arc::new(AtomicU32::new(BASE_BEFORE_START as u32))),
        }
    }

    /// Moves a manual clock. The system's clock is not ours to move: nothing happens.
    pub fn advance(&self, seconds: u32) {
        if let Source::Manual(now) = &self.source {
            now.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// Seconds since the base.
    pub fn now(&self) -> Seconds {
        match &self.source {
            Source::System { start } => {
                Seconds((start.elapsed().as_secs() + BASE_BEFORE_START).min(u64::from(u32::MAX)) as u32)
            }
            Source::Manual(now) => Seconds(now.load(Ordering::Relaxed)),
        }
    }

    /// The base, in seconds since 1970.
    pub fn base_unix(&self) -> u64 {
        self.base_unix
    }

    /// Now, in seconds since 1970.
    pub fn now_unix(&self) -> u64 {
        self.base_unix + u64::from(self.now().0)
    }
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = CoarseClock::manual(1_000);
        assert_eq!((clock.now(), clock.now_unix(), clock.base_unix()), (Seconds(2), 1_000, 998));
        clock.advance(5);
        assert_eq!(clock.now_unix(), 1_005);
    }
}
