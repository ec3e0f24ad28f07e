//! The clocks of the system.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant(std::time::Instant);

impl Instant {
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub(super) fn now() -> Self {
        Instant(std::time::Instant::now())
    }

    #[inline]
    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(super) fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

pub(super) fn process_cpu() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
