//! How long a delivery is repeated of which a target rejects some keys and accepts others.
//!
//! Behind a router that is a server which rejects all deletes, such as one that has just started
//! without its users: its deletes must not be lost. Or it is a key that the target will never
//! accept, and must not stop the others for ever.

use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// The time for which keys that are still rejected are sent again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// For this time after keys were dropped, others are dropped at once: deliveries would wait again
/// and again.
const DROPPING: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// The first rejection of the delivery at hand.
    first: Option<Stopwatch>,
    dropped: Option<Stopwatch>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Patience { limit, first: None, dropped: None }
    }

    /// Whether a delivery of which keys were rejected is repeated.
    pub(super) fn is_left(&mut self) -> bool {
        if self.dropped.as_ref().is_some_and(|dropped| dropped.elapsed() < DROPPING) {
            return false;
        }
        self.first.get_or_insert_with(Stopwatch::start).elapsed() < self.limit
    }

    /// The delivery has ended; `has_dropped` if keys were rejected to the end.
    pub(super) fn end(&mut self, has_dropped: bool) {
        self.first = None;
        if has_dropped {
            self.dropped = Some(Stopwatch::start());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_keys_were_dropped_others_are_dropped_at_once() {
        let mut patience = Patience::new(Duration::MAX);
        assert!(patience.is_left() && patience.is_left());
        patience.end(false);
        assert!(patience.is_left());
        patience.end(true);
        assert!(!patience.is_left());
        assert!(!Patience::new(Duration::ZERO).is_left());
    }
}
