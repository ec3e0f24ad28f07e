//! Two clocks of two types. The *coarse* clock of expiry counts whole [`Seconds`] since a base that lies before
//! the first item; tests move it. The *fine* clock ([`Stopwatch`]) measures and decides nothing.

#[cfg(not(guira_simulated))]
mod system;

use crate::atomic::{AtomicU32, Ordering};
#[cfg(guira_simulated)]
use guira_world::time as system;
use std::sync::Arc;
use std::time::Duration;
use system::Instant;

/// Whole seconds since the base of a [`CoarseClock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

/// Milliseconds since the base of a [`CoarseClock`]: the same clock, read more finely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// Whole seconds.
    pub fn seconds(self) -> Seconds {
        Seconds((self.0 / 1000).min(u64::from(u32::MAX)) as u32)
    }
}

/// How far behind the start the base lies. Expiry times that have passed then differ from zero.
const BASE_BEFORE_START: u64 = 2;

/// The origin of a clock and the time that it has reached: all that is needed to continue it in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBase {
    /// The time of second 0, in seconds since 1970.
    pub unix: u64,
    /// The latest time that the clock has shown.
    pub reached: Seconds,
}

/// The longest time that a base can be used: half the range of [`Seconds`], 68 years.
const GOOD_FOR: u64 = 1 << 31;

impl TimeBase {
    /// A base for a new clock, at `now_unix` seconds since 1970.
    pub fn new(now_unix: u64) -> Self {
        TimeBase {
            unix: now_unix.saturating_sub(BASE_BEFORE_START),
            reached: Seconds(BASE_BEFORE_START as u32),
        }
    }

    /// The base to continue with at `now_unix`. Time never goes back: if the wall clock was set back meanwhile,
    /// second 0 moves back with it, as if no time had passed. `None` if the base is 68 years old or more.
    pub fn resume(self, now_unix: u64) -> Option<Self> {
        let elapsed = now_unix.saturating_sub(self.unix);
        if elapsed >= GOOD_FOR || u64::from(self.reached.0) >= GOOD_FOR {
            return None;
        }
        if elapsed >= u64::from(self.reached.0) {
            return Some(TimeBase { reached: Seconds(elapsed as u32), ..self });
        }
        Some(TimeBase { unix: now_unix.saturating_sub(u64::from(self.reached.0)), ..self })
    }
}

/// The clock that decides expiry.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    base_unix: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// The time `first` was at `start`.
    System {
        start: Instant,
        first: Millis,
    },
    Shifted {
        start: Instant,
        first: Millis,
        shift: Arc<Shift>,
    },
    Manual(Arc<AtomicU32>),
}

/// The adjustments of a shiftable clock.
#[derive(Debug, Default)]
struct Shift {
    /// Seconds that are added, modulo 2^32.
    by: AtomicU32,
    /// The time at which the clock is paused; 0 if it runs.
    paused: AtomicU32,
}

impl CoarseClock {
    /// The same clock, which [`CoarseClock::shift`] and [`CoarseClock::pause`] can adjust: for tests of a
    /// running server.
    #[must_use]
    pub fn shiftable(self) -> Self {
        match self {
            CoarseClock { base_unix, source: Source::System { start, first } } => {
                CoarseClock { base_unix, source: Source::Shifted { start, first, shift: Arc::default() } }
            }
            other => other,
        }
    }

    /// Moves a shiftable clock forward or back, but never before its base.
    pub fn shift(&self, seconds: i32) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.by.fetch_add(seconds as u32, Ordering::Relaxed);
            if shift.paused.load(Ordering::Relaxed) != 0 {
                shift.paused.fetch_add(seconds as u32, Ordering::Relaxed);
            }
        }
    }

    /// Pauses a shiftable clock.
    pub fn pause(&self) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.paused.store(self.now().0, Ordering::Relaxed);
        }
    }

    /// Resumes a shiftable clock at the system's time.
    pub fn resume(&self) {
        if let Source::Shifted { shift, .. } = &self.source {
            shift.paused.store(0, Ordering::Relaxed);
        }
    }

    /// The system's clock; the base is two seconds ago. It follows the monotonic clock, so that a step of the
    /// wall clock expires nothing.
    pub fn system() -> Self {
        Self::system_since(TimeBase::new(wall_clock()))
    }

    /// The system's clock, counting from this base. It never shows a time before the one that the base has reached.
    pub fn system_since(base: TimeBase) -> Self {
        Self::system_at(base, wall_clock_millis())
    }

    /// The same, where it is `now` (in milliseconds since 1970), whatever the wall clock says.
    pub fn system_at(base: TimeBase, now: u64) -> Self {
        let first = now.saturating_sub(base.unix.saturating_mul(1000)).max(u64::from(base.reached.0) * 1000);
        CoarseClock {
            base_unix: base.unix,
            source: Source::System { start: Instant::now(), first: Millis(first) },
        }
    }

    /// A clock that only [`CoarseClock::advance`] moves. It starts at `start_unix`.
    pub fn manual(start_unix: u64) -> Self {
        Self::manual_since(TimeBase::new(start_unix))
    }

    /// A manual clock that starts at the time that the base has reached.
    pub fn manual_since(base: TimeBase) -> Self {
        CoarseClock { base_unix: base.unix, source: Source::Manual(Arc::new(AtomicU32::new(base.reached.0))) }
    }

    /// Moves a manual clock; does nothing to the system's clock.
    pub fn advance(&self, seconds: u32) {
        if let Source::Manual(now) = &self.source {
            now.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// Seconds since the base.
    pub fn now(&self) -> Seconds {
        self.millis().seconds()
    }

    /// Milliseconds since the base. Clocks that tests move stand at whole seconds while they do not run.
    pub fn millis(&self) -> Millis {
        let whole = |seconds: u32| Millis(u64::from(seconds) * 1000);
        match &self.source {
            Source::System { start, first } => since(*start, *first),
            Source::Shifted { start, first, shift } => match shift.paused.load(Ordering::Relaxed) {
                0 => {
                    let by = i64::from(shift.by.load(Ordering::Relaxed) as i32);
                    Millis(since(*start, *first).0.saturating_add_signed(by * 1000))
                }
                paused => whole(paused),
            },
            Source::Manual(now) => whole(now.load(Ordering::Relaxed)),
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

/// The time of a clock that showed `first` at `start`.
fn since(start: Instant, first: Millis) -> Millis {
    Millis(start.elapsed().as_millis() as u64 + first.0)
}

/// The wall clock, in seconds since 1970.
pub fn wall_clock() -> u64 {
    system::wall().as_secs()
}

/// The wall clock, in milliseconds since 1970.
pub fn wall_clock_millis() -> u64 {
    system::wall().as_millis() as u64
}

/// The system's monotonic clock, in milliseconds: all processes of a machine have the same.
pub fn monotonic_millis() -> u64 {
    system::monotonic().as_millis() as u64
}

/// The processor time that this process has used.
pub fn process_cpu() -> Duration {
    system::process_cpu()
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
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
        let clock = CoarseClock::system().shiftable();
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
    fn a_manual_clock_moves_only_by_advance() {
        let clock = CoarseClock::manual(1_000);
        assert_eq!((clock.now(), clock.now_unix(), clock.base_unix()), (Seconds(2), 1_000, 998));
        clock.advance(5);
        assert_eq!((clock.now_unix(), clock.millis()), (1_005, Millis(7_000)));
    }

    #[test]
    fn time_goes_on_from_its_base_and_never_back() {
        let base = TimeBase { unix: 1_000, reached: Seconds(500) };
        let later = base.resume(2_000).unwrap();
        assert_eq!(later, TimeBase { unix: 1_000, reached: Seconds(1_000) });
        assert_eq!(CoarseClock::manual_since(later).now_unix(), 2_000);
        // The wall clock was put back by 300 seconds, and then to 1970.
        let earlier = base.resume(1_200).unwrap();
        assert_eq!(earlier, TimeBase { unix: 700, reached: Seconds(500) });
        assert_eq!(CoarseClock::manual_since(earlier).now_unix(), 1_200);
        assert_eq!(base.resume(3), Some(TimeBase { unix: 0, reached: Seconds(500) }));
        assert_eq!(base.resume(1_000 + (1 << 31)), None);
        assert_eq!(TimeBase { unix: 0, reached: Seconds(u32::MAX) }.resume(5), None);
    }

    #[test]
    fn the_systems_clock_can_be_given_a_base() {
        let now = wall_clock();
        let clock = CoarseClock::system_since(TimeBase { unix: now - 100, reached: Seconds(7) });
        assert!((100..110).contains(&clock.now().0), "{clock:?}");
        let ahead = CoarseClock::system_since(TimeBase { unix: now - 100, reached: Seconds(7_000) });
        assert!((7_000..7_010).contains(&ahead.now().0), "{ahead:?}");
        let other = CoarseClock::system_at(TimeBase { unix: 1_000, reached: Seconds(7) }, 1_500_600);
        assert!((500_600..510_000).contains(&other.millis().0), "{other:?}");
    }
}
