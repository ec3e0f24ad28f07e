//! The clocks of the world, as `guira_sync::clock` has them.

use crate::scheduler;
use std::time::Duration;

/// Seconds since 1970 when a world begins.
pub(crate) const BEGIN: Duration = Duration::from_secs(1_700_000_000);
/// What the system's monotonic clock shows when a world begins: code may subtract from it.
#[cfg(guira_simulated)]
pub(crate) const UPTIME: Duration = Duration::from_secs(1_000_000);

/// The time since the world began.
pub fn now() -> Duration {
    scheduler::now()
}

/// The time since 1970.
pub fn wall() -> Duration {
    BEGIN + now()
}

/// The clock that all processes of a machine share.
pub fn monotonic() -> Duration {
    now()
}

/// The processor time of a process: a part of the time.
pub fn process_cpu() -> Duration {
    now() / 16
}

#[derive(Clone, Copy, Debug)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Instant(now())
    }

    pub fn elapsed(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}
