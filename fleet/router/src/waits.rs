//! Times that handles wait for.

use crate::ticket::Ticket;
use guira_routing::{Origin, Outcome};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// More handles of a worker do not wait at once.
const WAITS_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct Waits {
    waits: BinaryHeap<Reverse<Waiting>>,
    serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until_ms: u64,
    serial: u64,
    origin: Origin<Ticket>,
}

impl Waiting {
    /// The order of waits: by end, then by begin.
    fn rank(&self) -> (u64, u64) {
        (self.until_ms, self.serial)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Waits {
    /// From `now_ms` on, this many milliseconds at least.
    pub(crate) fn add(&mut self, now_ms: u64, ms: u32, origin: Origin<Ticket>) -> Result<(), Outcome> {
        if self.waits.len() >= WAITS_MAX {
            return Err(Outcome::Busy);
        }
        self.serial += 1;
        // A part of the first millisecond may be over.
        let until_ms = now_ms + u64::from(ms) + 1;
        self.waits.push(Reverse(Waiting { until_ms, serial: self.serial, origin }));
        Ok(())
    }

    /// The end of the earliest wait.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.waits.peek().map(|Reverse(first)| first.until_ms)
    }

    /// Takes a handle whose wait is over.
    pub(crate) fn due(&mut self, now_ms: u64) -> Option<Origin<Ticket>> {
        if self.next_ms()? > now_ms {
            return None;
        }
        self.waits.pop().map(|Reverse(first)| first.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame: u32) -> Origin<Ticket> {
        Origin::Frame { frame, child: 0 }
    }

    #[test]
    fn times_are_over_in_their_order_and_not_too_early() {
        let mut waits = Waits::default();
        for (number, ms) in [(0, 50), (1, 5), (2, 50), (3, 20)] {
            waits.add(1_000, ms, frame(number)).unwrap();
        }
        assert_eq!(waits.next_ms(), Some(1_006));
        assert_eq!(waits.due(1_005), None);
        assert_eq!((waits.due(1_006), waits.due(1_006)), (Some(frame(1)), None));
        let rest: Vec<_> = std::iter::from_fn(|| waits.due(2_000)).collect();
        assert_eq!(rest, [frame(3), frame(0), frame(2)]);
        assert_eq!(waits.next_ms(), None);
    }

    #[test]
    fn too_many_do_not_wait() {
        let mut waits = Waits::default();
        let added = (0..=WAITS_MAX as u32).filter(|number| waits.add(0, 1, frame(*number)).is_ok()).count();
        assert_eq!(added, WAITS_MAX);
    }
}
