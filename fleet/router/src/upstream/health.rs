//! Whether a server is sent requests: all workers know what one has found out.
//!
//! A server that has not answered several requests in a row, or cannot be connected to, is *out* (mcrouter: TKO): requests for it fail at once, and the
//! worker that has found out asks it from time to time whether it is there again. Any reply says that it is.

use guira_sync::atomic::{AtomicU32, Ordering};

/// When servers are given up, and how they are asked whether they are back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// Requests in a row that were not answered in time; 0 is never.
    pub timeouts: u32,
    pub probe_first_ms: u32,
    pub probe_most_ms: u32,
}

impl Default for HealthOptions {
    /// mcrouter's.
    fn default() -> Self {
        HealthOptions { timeouts: 3, probe_first_ms: 10_000, probe_most_ms: 60_000 }
    }
}

/// What is known of a server. The orderings are Relaxed: nothing else is published by it, and a worker that learns a little later sends a request
/// more.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Requests in a row that were not answered in time.
    timeouts: AtomicU32,
    /// `IN`, or why it is out.
    state: AtomicU32,
}

const IN: u32 = 0;
const SLOW: u32 = 1;
const GONE: u32 = 2;

/// Who asks a server whether it is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prober {
    /// Who was told this.
    You,
    SomebodyElse,
}

impl Health {
    #[inline]
    pub(crate) fn is_in(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IN
    }

    /// A request was not answered in time. `None` if it is sent more all the same.
    pub(crate) fn timed_out(&self, options: &HealthOptions) -> Option<Prober> {
        let timeouts = self.timeouts.fetch_add(1, Ordering::Relaxed) + 1;
        (options.timeouts > 0 && timeouts >= options.timeouts).then(|| self.put_out(SLOW))
    }

    /// It cannot be connected to.
    pub(crate) fn unreachable(&self) -> Prober {
        self.put_out(GONE)
    }

    fn put_out(&self, why: u32) -> Prober {
        match self.state.compare_exchange(IN, why, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Prober::You,
            Err(_) => Prober::SomebodyElse,
        }
    }

    /// It has answered.
    #[inline]
    pub(crate) fn heard(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
        if self.state.load(Ordering::Relaxed) != IN {
            self.state.store(IN, Ordering::Relaxed);
        }
    }
}

/// When a server that is out is asked next, by the worker that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) next_ms: u64,
    gap_ms: u32,
}

impl Probes {
    pub(crate) fn begin(now_ms: u64, options: &HealthOptions) -> Self {
        Probes { next_ms: now_ms + u64::from(options.probe_first_ms), gap_ms: options.probe_first_ms }
    }

    /// It was asked. The next time is half as long away again, and a part of that which is different for each, so that servers which have
    /// failed together are not asked together.
    pub(crate) fn asked(&mut self, now_ms: u64, options: &HealthOptions, random: u32) {
        let gap = u64::from(self.gap_ms) * 3 / 2;
        self.gap_ms = gap.min(u64::from(options.probe_most_ms)) as u32;
        // From 5 to 50 % more.
        let more = u64::from(self.gap_ms) * u64::from(5 + random % 46) / 100;
        self.next_ms = now_ms + u64::from(self.gap_ms) + more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_out_after_timeouts_in_a_row_and_in_again_once_it_answers() {
        let (health, options) = (Health::default(), HealthOptions::default());
        assert_eq!((health.timed_out(&options), health.timed_out(&options)), (None, None));
        health.heard();
        assert_eq!((health.timed_out(&options), health.timed_out(&options)), (None, None));
        assert!(health.is_in());
        assert_eq!(health.timed_out(&options), Some(Prober::You));
        assert_eq!(health.timed_out(&options), Some(Prober::SomebodyElse));
        assert_eq!(health.unreachable(), Prober::SomebodyElse);
        assert!(!health.is_in());
        health.heard();
        assert!(health.is_in());
        assert_eq!(health.unreachable(), Prober::You);
        let never = HealthOptions { timeouts: 0, ..options };
        let health = Health::default();
        assert!((0..100).all(|_| health.timed_out(&never).is_none()));
    }

    #[test]
    fn it_is_asked_less_and_less_often() {
        let options = HealthOptions::default();
        let mut probes = Probes::begin(1000, &options);
        assert_eq!(probes.next_ms, 11_000);
        let mut gaps = Vec::new();
        let mut now = probes.next_ms;
        for random in 0..12 {
            probes.asked(now, &options, random * 7);
            gaps.push(probes.next_ms - now);
            now = probes.next_ms;
        }
        assert!((15_750..=22_500).contains(&gaps[0]), "{gaps:?}");
        assert!(gaps[8..].iter().all(|gap| (63_000..=90_000).contains(gap)), "{gaps:?}");
    }
}
