//! How often everything may be flushed.

use std::time::Duration;

/// From one flush to the next. A gap that is found again at once is not one that a flush mends, and databases do not bear it that caches are emptied again and again.
const APART: Duration = Duration::from_secs(60);

/// When everything was flushed last. Times are those of any clock that continues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushes(Option<Duration>);

impl Flushes {
    /// How long the next one has to wait.
    pub(super) fn left(self, now: Duration) -> Duration {
        self.0.map_or(Duration::ZERO, |last| (last + APART).saturating_sub(now))
    }

    pub(super) fn flushed(&mut self, now: Duration) {
        self.0 = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_between_two_flushes() {
        let seconds = Duration::from_secs;
        let mut flushes = Flushes::default();
        assert_eq!(flushes.left(seconds(5)), Duration::ZERO);
        flushes.flushed(seconds(5));
        assert_eq!((flushes.left(seconds(5)), flushes.left(seconds(40))), (seconds(60), seconds(25)));
        assert_eq!((flushes.left(seconds(65)), flushes.left(seconds(70))), (Duration::ZERO, Duration::ZERO));
    }
}
