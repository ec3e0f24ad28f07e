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
    Shifted { start: Instant, shift: Arc<Shift> },
    Manual(Arc<AtomicU32>),
}

/// What was done to a clock that can be shifted.
#[derive(Debug, Default)]
struct Shift {
    /// So many seconds are added, modulo 2^32.
    by: AtomicU32,
    /// Where it stands still, if that is not 0.
    paused: AtomicU32,
}

impl CoarseClock {
    /// The system's clock, which [`CoarseClock::shift`] and [`CoarseClock::pause`] work on: for tests of a running server.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn shiftable() -> Self {
        let start = Instant::now();
        CoarseClock { source: Source::Shifted { start, shift: Arc::default() }, ..Self::system() }
    }

    /// Moves a clock that can be shifted, on or back. It never goes back before its base.
    pub fn shift(&self, seconds: i32) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.by.fetch_add(seconds as u32, Ordering::Relaxed);
            if shift.paused.load(Ordering::Relaxed) != 0 {
                shift.paused.fetch_add(seconds as u32, Ordering::Relaxed);
            }
        }
    }

    /// Has a clock that can be shifted stand still.
    pub fn pause(&self) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.paused.store(self.now().0, Ordering::Relaxed);
        }
    }

    /// Has it go on, from where the system's clock is.
    pub fn resume(&self) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.paused.store(0, Ordering::Relaxed);
        }
    }

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
            Source::System { start } => since(*start),
            Source::Shifted { start, shift } => match shift.paused.load(Ordering::Relaxed) {
                0 => {
                    let by = shift.by.load(Ordering::Relaxed) as i32;
                    Seconds(since(*start).0.saturating_add_signed(by))
                }
                paused => Seconds(paused),
            },
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

/// Seconds since the base of a clock that was started then.
fn since(start: Instant) -> Seconds {
    Seconds((start.elapsed().as_secs() + BASE_BEFORE_START).min(u64::from(u32::MAX)) as u32)
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
    fn a_clock_that_can_be_shifted_moves_and_stands_still() {
        let clock = CoarseClock::shiftable();
        let start = clock.now().0;
        clock.shift(1000);
        assert!((start + 1000..start + 1060).contains(&clock.now().0));
        clock.pause();
        let paused = clock.now();
        clock.shift(5);
        assert_eq!(clock.now().0, paused.0 + 5);
        clock.resume();
        clock.shift(-1005);
        assert!((start..start + 60).contains(&clock.now().0));
        clock.shift(i32::MIN);
        assert_eq!(clock.now(), Seconds(0), "not before the base");
    }

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = CoarseClock::manual(1_000);
        assert_eq!((clock.now(), clock.now_unix(), clock.base_unix()), (Seconds(2), 1_000, 998));
        clock.advance(5);
        assert_eq!(clock.now_unix(), 1_005);
    }
}
