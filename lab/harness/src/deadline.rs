//! Waiting with an end: a condition is polled until a deadline.

use std::time::Duration;

use guira_sync::clock::Stopwatch;

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// A moment after which waiting has failed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    start: Stopwatch,
    wait: Duration,
}

impl Deadline {
    /// The deadline `wait` from now.
    pub fn after(wait: Duration) -> Self {
        Self { start: Stopwatch::start(), wait }
    }

    /// Time left, or `None` when the deadline has passed.
    pub fn left(&self) -> Option<Duration> {
        self.wait.checked_sub(self.start.elapsed()).filter(|left| !left.is_zero())
    }

    /// Looks at `condition` until it gives a value or the deadline passes.
    pub fn poll<T>(&self, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = condition() {
                return Some(found);
            }
            self.left()?;
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_ends_at_the_first_value() {
        let mut looks = 0;
        let found = Deadline::after(Duration::from_secs(20)).poll(|| {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
    }

    #[test]
    fn polling_gives_up_at_the_deadline() {
        assert_eq!(Deadline::after(Duration::from_millis(1)).poll(|| None::<()>), None);
    }
}
