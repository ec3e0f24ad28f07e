//! The time that sampled requests take, which is limited by the processor time of the server.

use crate::observed::Pulse;
use std::time::Duration;

/// Sampled requests between two pulses, after which fewer keys are sampled at once, before it is known how long the server works between them …
pub(crate) const PER_PULSE: u64 = 5_000;
/// … after which it takes this many times as many as it had time for of late …
const FLOOD: f64 = 1.25;
/// … and, if that was not enough, again after this many more each time.
const PER_PULSE_MORE: u64 = PER_PULSE / 2;
/// The part of the time that it takes if it has to be lowered: requests are not equally many in each second.
const TIME_TAKEN: f64 = 0.9;
/// Less than this is no processor time: it was not measured exactly.
const BUSY_LEAST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Load {
    /// Sampled requests in a second of processor time.
    per_cpu_second: f64,
    /// Sampled requests since the last pulse.
    seen: u64,
    /// Sampled requests since the last call of [`Load::is_cheap`].
    seen_since_check: u64,
    /// An estimate of all requests since the last pulse, sampled or not.
    requests: f64,
    /// With more sampled requests since the last pulse, fewer keys are sampled.
    allowed: u64,
    /// This many in a second are a flood.
    flood: u64,
    /// The pulse since which requests are counted in `seen`: one in a second, however often advice is requested.
    counted_since: Option<Pulse>,
}

impl Load {
    pub(crate) fn new(per_cpu_second: f64) -> Self {
        Load {
            per_cpu_second,
            seen: 0,
            seen_since_check: 0,
            requests: 0.0,
            allowed: PER_PULSE,
            flood: 0,
            counted_since: None,
        }
    }

    /// Counts a sampled request. Returns whether fewer keys are to be sampled at once.
    pub(crate) fn count(&mut self, rate: f64) -> bool {
        self.seen += 1;
        self.seen_since_check += 1;
        self.requests += rate.recip();
        let is_flood = self.seen >= self.allowed;
        if is_flood {
            self.allowed = self.seen + PER_PULSE_MORE;
        }
        is_flood
    }

    /// Begins to count again, unless it has in this second. If the requests took too much of the time that the server
    /// worked, returns the share of the keys to be sampled further. `rate` is the present share of all keys.
    pub(crate) fn pulse(&mut self, pulse: Pulse, rate: f64) -> Option<f64> {
        let mut share = None;
        if let Some(since) = self.counted_since {
            if pulse.now == since.now {
                return None;
            }
            let busy = pulse.busy.saturating_sub(since.busy).max(BUSY_LEAST);
            let allowed = self.per_cpu_second * busy.as_secs_f64();
            // At the present rate, which has been lowered already if a flood began.
            let seen = self.requests * rate;
            if seen > allowed {
                share = Some(TIME_TAKEN * allowed / seen);
            }
            self.flood = ((FLOOD * allowed) as u64).max(self.flood / 2);
        }
        self.counted_since = Some(pulse);
        (self.seen, self.requests, self.allowed) = (0, 0.0, PER_PULSE.max(self.flood));
        share
    }

    /// Whether there was time for four times the requests since the last call. The server has worked for `busy` since then.
    pub(crate) fn is_cheap(&mut self, busy: Duration) -> bool {
        let seen = std::mem::take(&mut self.seen_since_check) as f64;
        seen < self.per_cpu_second / 4.0 * busy.max(BUSY_LEAST).as_secs_f64()
    }
}
