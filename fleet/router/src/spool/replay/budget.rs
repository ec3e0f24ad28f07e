//! How many deletes a replay may deliver.

use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// This many a second, and at most a tenth of a second's at once.
#[derive(Debug)]
pub(crate) struct Budget {
    rate: f64,
    tokens: f64,
    filled: Duration,
    since: Stopwatch,
}

impl Budget {
    pub(crate) fn new(rate: u32) -> Self {
        let rate = f64::from(rate);
        Budget { rate, tokens: Self::most(rate), filled: Duration::ZERO, since: Stopwatch::start() }
    }

    fn most(rate: f64) -> f64 {
        (rate / 10.0).max(1.0)
    }

    /// How many may be delivered now.
    pub(crate) fn available(&mut self) -> usize {
        self.available_at(self.since.elapsed())
    }

    fn available_at(&mut self, now: Duration) -> usize {
        let new = now.saturating_sub(self.filled).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + new).min(Self::most(self.rate));
        self.filled = now;
        self.tokens as usize
    }

    /// They were delivered, or tried.
    pub(crate) fn spend(&mut self, count: usize) {
        self.tokens -= count as f64;
    }

    /// When there will be one.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.tokens) / self.rate).clamp(0.001, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_delivered_than_the_rate_allows() {
        for rate in [1, 7, 1000] {
            let mut budget = Budget::new(rate);
            let mut delivered = 0;
            for millisecond in 0..60_000 {
                let count = budget.available_at(Duration::from_millis(millisecond)).min(256);
                budget.spend(count);
                delivered += count;
            }
            let expected = 60 * rate as usize;
            assert!((expected - 1..=expected + 101).contains(&delivered), "{rate}: {delivered}");
        }
    }
}
