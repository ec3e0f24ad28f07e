//! How large the window is best: as large as the hit ratio tells. The size goes in one direction as long as that is rewarded,
//! in steps that become smaller, until the hit ratio leaps ("Adaptive software cache management", section 3.1; the numbers are
//! those of Caffeine, its authors' implementation).

/// Requests for each entry of the cache until the next step.
const PERIOD: usize = 10;
/// The first step, as a part of the room.
const STEP: f64 = 0.0625;
/// What is left of a step at the next.
const DECAY: f64 = 0.98;
/// A change of the hit ratio of which the steps become as long again as at first.
const LEAP: f64 = 0.05;
/// The least and the most that the window can be, as parts of the room.
const RANGE: (f64, f64) = (0.01, 0.99);

/// Where the window's size is on its way to.
#[derive(Debug)]
pub(super) struct Climber {
    limit: f64,
    period: usize,
    requests: usize,
    hits: usize,
    before: Option<f64>,
    step: f64,
}

impl Climber {
    pub(super) fn new(limit: u64, entries: usize) -> Self {
        Self {
            limit: limit as f64,
            period: entries.max(16) * PERIOD,
            requests: 0,
            hits: 0,
            before: None,
            step: STEP,
        }
    }

    /// Notes a request. Tells what the size is from now on, if it changes.
    #[inline]
    pub(super) fn note(&mut self, hit: bool, size: u64) -> Option<u64> {
        self.requests += 1;
        self.hits += usize::from(hit);
        if self.requests < self.period { None } else { Some(self.next(size)) }
    }

    fn next(&mut self, size: u64) -> u64 {
        let ratio = self.hits as f64 / self.requests as f64;
        (self.requests, self.hits) = (0, 0);
        if let Some(before) = self.before.replace(ratio) {
            let change = ratio - before;
            let direction = if change < 0.0 { -self.step.signum() } else { self.step.signum() };
            let length = if change.abs() >= LEAP { STEP } else { self.step.abs() * DECAY };
            self.step = direction * length;
        }
        let part = (size as f64 / self.limit + self.step).clamp(RANGE.0, RANGE.1);
        ((part * self.limit) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Climber;

    /// Takes steps with the hit ratio that `ratio` tells of a size.
    fn climbed(steps: usize, ratio: impl Fn(f64) -> f64) -> f64 {
        let mut climber = Climber::new(1_000_000, 1_000);
        let mut size = 10_000;
        for _ in 0..steps {
            let hits = (ratio(size as f64 / 1e6) * 10_000.0) as usize;
            for request in 0..10_000 {
                size = climber.note(request < hits, size).unwrap_or(size);
            }
        }
        size as f64 / 1e6
    }

    #[test]
    fn the_size_of_the_most_hits_is_found() {
        for best in [0.1, 0.4, 0.8] {
            let found = climbed(100, |part| 0.5 - (part - best).abs() / 10.0);
            assert!((found - best).abs() < 0.07, "{found}, and the best is {best}");
        }
    }

    #[test]
    fn the_size_stays_within_bounds() {
        assert!(climbed(60, |part| 0.3 + part / 100.0) <= 0.99);
        assert!(climbed(60, |part| 0.3 - part / 100.0) >= 0.01);
    }
}
