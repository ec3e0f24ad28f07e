//! Conversion of clients' expiration times into the engine's.

use crate::counters::CommandCount;
use crate::executor::Executor;
use guira_contract::{Expiry, Session};
use guira_protocol::Exptime;
use guira_sync::clock::Seconds;

/// Expiration times up to this are relative: 30 days.
const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;

/// A second in the past: the expiry of items that expire at once.
const LONG_AGO: Seconds = Seconds(1);

impl<S: Session> Executor<S> {
    pub(crate) fn expiry(&self, time: Exptime) -> Expiry {
        match time.0 {
            0 => Expiry::Never,
            ..0 => Expiry::At(LONG_AGO),
            1..=RELATIVE_MAX => Expiry::At(Seconds(self.now.0.saturating_add(time.0 as u32))),
            absolute => {
                let since_base = (absolute as u64).saturating_sub(self.clock.base_unix());
                Expiry::At(Seconds(since_base.clamp(u64::from(LONG_AGO.0), u64::from(u32::MAX) - 1) as u32))
            }
        }
    }

    /// Counts a flush, and returns when it takes effect with this delay: never, if it would only flush items stored
    /// before the server started. As in memcached, that is a second before the delay is over: items stored in that
    /// second are flushed too.
    pub fn flush_time(&self, delay: Exptime) -> Option<Seconds> {
        self.count(CommandCount::CmdFlush);
        if delay.0 > RELATIVE_MAX && delay.0 as u64 <= self.clock.base_unix() {
            return None;
        }
        Some(match self.expiry(delay) {
            Expiry::At(at) => Seconds(at.0.saturating_sub(1)).max(self.now),
            Expiry::Never => self.now,
        })
    }
}
