//! How long values live, and how long a client waits.

use std::time::Duration;

use super::random::Random;

/// Whether a client that would have to wait may take a stale value instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleValues {
    /// The client waits.
    #[default]
    Refuse,
    /// The client takes the stale value at once. Servers keep stale values only with the option
    /// `--stale-values`.
    Use,
}

/// Above that, servers take an expiration time for a date.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) expiry: Duration,
    pub(super) absent_expiry: Duration,
    pub(super) jitter_percent: u32,
    pub(super) wait: Duration,
    pub(super) stale_values: StaleValues,
}

impl Policy {
    pub(super) const DEFAULT: Self = Self {
        expiry: Duration::from_secs(3600),
        absent_expiry: Duration::from_secs(60),
        jitter_percent: 10,
        wait: Duration::from_millis(250),
        stale_values: StaleValues::Refuse,
    };

    /// The lifetime of a value in whole seconds: `length`, varied so that values which were stored
    /// together do not expire together.
    pub(super) fn seconds(&self, length: Duration, random: &Random) -> u64 {
        let length = length.min(LONGEST).as_millis() as u64;
        let spread = length * u64::from(self.jitter_percent) / 100;
        let drawn = length - spread + random.below(2 * spread + 1);
        drawn.min(LONGEST.as_millis() as u64).div_ceil(1000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_around_what_was_asked_for() {
        let random = Random::new(1);
        let drawn = |seconds: u64, jitter_percent| {
            let policy = Policy { jitter_percent, ..Policy::DEFAULT };
            let all = (0..2000).map(|_| policy.seconds(Duration::from_secs(seconds), &random));
            let all: Vec<u64> = all.collect();
            (all.iter().min().copied().unwrap(), all.iter().max().copied().unwrap())
        };
        for (seconds, jitter, expected) in [(0, 10, (1, 1)), (1, 10, (1, 2)), (500, 0, (500, 500))] {
            assert_eq!(drawn(seconds, jitter), expected, "seed 1, {seconds} s");
        }
        let (least, most) = drawn(1000, 10);
        assert!((900..910).contains(&least) && (1091..=1100).contains(&most), "seed 1: {least} {most}");
        let (least, most) = drawn(u64::MAX, 10);
        assert!(least < 28 * 24 * 3600 && most == 30 * 24 * 3600, "seed 1: {least} {most}");
    }
}
