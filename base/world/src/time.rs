//! The clocks of the world, as `guira_sync::clock` has them.

use crate::net::host_of;
use crate::scheduler::{self, Own};
use std::collections::BTreeMap;
use std::net::IpAddr;
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

/// The time since 1970, by the clock of the host of the process that runs.
pub fn wall() -> Duration {
    wall_at(now())
}

/// How the wall clock of a host differs from the world's time.
#[derive(Clone, Copy, Debug, Default)]
struct Skew {
    since: Duration,
    /// At that time, in nanoseconds.
    ahead: i128,
    /// From then on, in parts per million.
    drift: i64,
}

impl Skew {
    fn ahead_at(self, now: Duration) -> i128 {
        let passed = now.saturating_sub(self.since).as_nanos() as i128;
        self.ahead + passed * i128::from(self.drift) / 1_000_000
    }
}

thread_local! {
    static SKEWS: Own<BTreeMap<IpAddr, Skew>> = const { Own::new() };
}

pub(crate) fn wall_at(now: Duration) -> Duration {
    let host = host_of(scheduler::current_process());
    let skew = SKEWS.with(|skews| skews.with(|| (), |skews| skews.get(&host).copied().unwrap_or_default()));
    let wall = (BEGIN + now).as_nanos() as i128 + skew.ahead_at(now);
    Duration::from_nanos(u64::try_from(wall.max(0)).unwrap_or(u64::MAX))
}

/// Moves the wall clock of a host by `jump_ms`, and has it gain `drift` microseconds each second from now on. Both may be
/// negative. The other clocks of the host stay.
pub fn set_wall(host: IpAddr, jump_ms: i64, drift: i64) {
    let now = now();
    SKEWS.with(|skews| {
        skews.with(
            || (),
            |skews| {
                let skew = skews.entry(host).or_default();
                let ahead = skew.ahead_at(now) + i128::from(jump_ms) * 1_000_000;
                *skew = Skew { since: now, ahead, drift };
            },
        );
    });
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
