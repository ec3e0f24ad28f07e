//! When requests are sent.
//!
//! A closed loop sends the next request when the last one is answered. It measures what a server can do, but its
//! latencies leave out requests that were never sent: while the server stalls, no request is sent, so a stall of a second
//! counts as one slow request instead of the thousands that users would have sent (coordinated omission; Tene).
//!
//! An open loop sends by a timetable that does not know about the server, and a request's latency counts from the
//! moment in the timetable, however late it could really be sent.

use guira_workload::Rng;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Whenever the last ones are answered.
    Closed,
    Open {
        /// Commands per second over all connections.
        rate_per_s: f64,
        arrivals: Gaps,
    },
}

/// The gaps between arrivals of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// Random and independent, as from many users (a Poisson process).
    Poisson,
    Even,
    /// Only after a batch of this many, as from a client that sends many at once.
    Batches(u32),
}

/// The timetable of an open loop.
#[derive(Debug, Clone)]
pub struct Timetable {
    gap_ns: f64,
    gaps: Gaps,
    next_ns: f64,
    /// How many more come at that moment.
    more: u32,
    rng: Rng,
}

impl Timetable {
    /// A timetable that begins at `start_ns`.
    #[must_use]
    pub fn new(rate_per_s: f64, gaps: Gaps, start_ns: u64, rng: Rng) -> Self {
        let mut timetable = Self { gap_ns: 1e9 / rate_per_s, gaps, next_ns: start_ns as f64, more: 0, rng };
        timetable.advance();
        timetable
    }

    /// The moment of the next arrival.
    #[must_use]
    pub const fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Takes the next arrival if its moment has come.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.next_ns();
        if due > now_ns {
            return None;
        }
        self.advance();
        Some(due)
    }

    fn advance(&mut self) {
        if self.more > 0 {
            self.more -= 1;
            return;
        }
        self.next_ns += match self.gaps {
            Gaps::Even => self.gap_ns,
            Gaps::Poisson => self.gap_ns * self.rng.exponential(),
            Gaps::Batches(size) => {
                self.more = size - 1;
                self.gap_ns * f64::from(size)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::Rng;

    use super::{Gaps, Timetable};
    use crate::clock::{Clock, ManualClock};
    use crate::counters::histogram;

    const MS: u64 = 1_000_000;

    /// A server that takes `service_ns` for a request, but stops for `stall_ns` before the `stall_at`-th.
    struct Stalling {
        clock: ManualClock,
        served: u64,
    }

    impl Stalling {
        fn serve(&mut self) -> u64 {
            if self.served == 500 {
                self.clock.advance_ns(1000 * MS);
            }
            self.served += 1;
            self.clock.advance_ns(MS / 10);
            self.clock.now_ns()
        }
    }

    #[test]
    fn an_open_loop_counts_the_requests_that_a_stall_held_up() {
        // 1,000 requests a second, one stall of a second: half of 2,000 requests waited, 500 ms on average.
        let clock = ManualClock::default();
        let mut server = Stalling { clock: clock.clone(), served: 0 };
        let mut timetable = Timetable::new(1000.0, Gaps::Even, 0, Rng::new(1));
        let mut latencies = histogram();
        while latencies.len() < 2000 {
            match timetable.take_due(clock.now_ns()) {
                Some(intended) => latencies.saturating_record(server.serve() - intended),
                None => clock.advance_ns(timetable.next_ns() - clock.now_ns()),
            }
        }
        let p75_ms = latencies.value_at_quantile(0.75) / MS;
        assert!((400..600).contains(&p75_ms), "p75 is {p75_ms} ms");
    }

    #[test]
    fn a_closed_loop_sees_the_same_stall_once() {
        let clock = ManualClock::default();
        let mut server = Stalling { clock: clock.clone(), served: 0 };
        let mut latencies = histogram();
        while latencies.len() < 2000 {
            let sent = clock.now_ns();
            latencies.saturating_record(server.serve() - sent);
        }
        assert!(latencies.value_at_quantile(0.99) < MS);
        assert!(latencies.max() >= 1000 * MS);
    }

    #[test]
    fn all_kinds_of_gaps_keep_the_rate() {
        for gaps in [Gaps::Poisson, Gaps::Even, Gaps::Batches(1000)] {
            let mut timetable = Timetable::new(1e5, gaps, 0, Rng::new(4));
            let mut arrivals = 0;
            while timetable.take_due(1_000_000_000).is_some() {
                arrivals += 1;
            }
            assert!((99_000..=101_000).contains(&arrivals), "{gaps:?}: {arrivals}");
        }
    }
}
