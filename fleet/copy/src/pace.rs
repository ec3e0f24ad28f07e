//! How many keys are read at once, and when.

use std::num::NonZeroU32;
use std::time::Duration;

/// Bytes of values in a batch.
const BYTES: u64 = 1 << 20;

/// Keys in a batch.
const KEYS_MAX: u64 = 128;

/// Keys in the first batch, whose values may have any size.
const KEYS_FIRST: u64 = 8;

/// A rate is divided into at least this many batches per second.
const BATCHES_PER_SECOND: u64 = 10;

/// The size and the time of batches.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: Option<NonZeroU32>,
    keys: u64,
    begun: u64,
    /// The time that waits for servers have taken since the start.
    lost: Duration,
}

impl Pace {
    /// With at most this many keys per second.
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        Pace { per_second, keys: KEYS_FIRST, begun: 0, lost: Duration::ZERO }
    }

    /// The number of keys of the next batch.
    pub(crate) fn keys(&self) -> usize {
        let by_rate = self.per_second.map_or(KEYS_MAX, |rate| u64::from(rate.get()) / BATCHES_PER_SECOND);
        self.keys.min(by_rate).max(1) as usize
    }

    /// Records a batch, the bytes of its values, and the time since the start: the next one has about [`BYTES`] if its
    /// values are as long. Batches that are late are not made up for: a server that comes back gets no burst.
    pub(crate) fn record(&mut self, keys: u64, bytes: u64, elapsed: Duration) {
        self.begun += keys;
        self.lost += elapsed.saturating_sub(self.due());
        let fitting = BYTES.saturating_mul(keys).checked_div(bytes).unwrap_or(KEYS_MAX);
        // It grows step by step: the next values may be longer.
        self.keys = fitting.min(self.keys * 2).clamp(1, KEYS_MAX);
    }

    /// When the next batch is due, after the start.
    pub(crate) fn due(&self) -> Duration {
        let rate = self.per_second.map_or(f64::INFINITY, |rate| f64::from(rate.get()));
        self.lost + Duration::from_secs_f64(self.begun as f64 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_while_values_are_short_and_shrink_at_once() {
        let mut pace = Pace::new(None);
        let mut sizes = Vec::new();
        for bytes in [800, 1600, 3200, 6400, 12800, 100 << 20, 1 << 20, 0] {
            let keys = pace.keys();
            sizes.push(keys);
            pace.record(keys as u64, bytes, Duration::ZERO);
        }
        assert_eq!(sizes, [8, 16, 32, 64, 128, 128, 1, 1]);
        assert_eq!(pace.keys(), 2);
        assert_eq!(pace.due(), Duration::ZERO);
    }

    #[test]
    fn batches_are_due_at_the_rate() {
        let mut pace = Pace::new(NonZeroU32::new(100));
        assert_eq!((pace.keys(), pace.due()), (8, Duration::ZERO));
        pace.record(8, 8, Duration::from_millis(5));
        assert_eq!((pace.keys(), pace.due()), (10, Duration::from_millis(80)));
        // A server was down for a minute: the next batches are not sent at once.
        pace.record(10, 10, Duration::from_secs(60));
        assert_eq!(pace.due(), Duration::from_secs(60));
        pace.record(10, 10, Duration::from_secs(60));
        assert_eq!(pace.due(), Duration::from_millis(60_100));
        assert_eq!(Pace::new(NonZeroU32::new(3)).keys(), 1);
    }
}
