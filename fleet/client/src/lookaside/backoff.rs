//! How long a client waits between two looks for a key that another one fills.

use std::time::Duration;

use super::random::Random;

/// Before the second look: the holder of a token typically stores within a few milliseconds.
const FIRST: Duration = Duration::from_millis(2);

/// A pause is never longer.
const LONGEST: Duration = Duration::from_millis(32);

/// The pauses of one wait. They double, and each is drawn from the upper half of its range, so that
/// callers who began to wait together do not retry together.
#[derive(Debug)]
pub(super) struct Backoff {
    most: Duration,
    pause: Duration,
}

impl Backoff {
    /// A wait of at most this long in all.
    pub(super) const fn new(most: Duration) -> Self {
        Self { most, pause: FIRST }
    }

    /// The next pause after waiting for `waited`; `None` when the wait is over.
    pub(super) fn next(&mut self, waited: Duration, random: &Random) -> Option<Duration> {
        let left = self.most.checked_sub(waited).filter(|left| !left.is_zero())?;
        let half = self.pause.as_micros() as u64 / 2;
        let pause = Duration::from_micros(half + random.below(half + 1));
        self.pause = (self.pause * 2).min(LONGEST);
        Some(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_limit_and_end_with_the_wait() {
        let (random, most) = (Random::new(1), Duration::from_millis(200));
        let (mut backoff, mut waited, mut pauses) = (Backoff::new(most), Duration::ZERO, Vec::new());
        while let Some(pause) = backoff.next(waited, &random) {
            waited += pause;
            pauses.push(pause);
        }
        assert_eq!(waited, most, "seed 1");
        for (number, pause) in pauses[..pauses.len() - 1].iter().enumerate() {
            let longest = (FIRST * 2u32.pow(number as u32)).min(LONGEST);
            assert!((longest / 2..=longest).contains(pause), "seed 1, pause {number}: {pause:?}");
        }
        assert!(pauses.len() > 7, "seed 1: {pauses:?}");
        assert_eq!(Backoff::new(Duration::ZERO).next(Duration::ZERO, &random), None);
    }

    #[test]
    fn two_clients_do_not_wait_alike() {
        let random = Random::new(1);
        let first = || Backoff { most: LONGEST, pause: LONGEST }.next(Duration::ZERO, &random);
        assert_ne!(first(), first(), "seed 1");
    }
}
