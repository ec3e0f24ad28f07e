//! Waiting with an end: every wait of the harness polls a condition until a deadline.

use std::time::{Duration, Instant};

/// How long a test waits for something that should happen at once. Far longer than a machine with other work takes, and less than the 30 s
/// after which a server gives up a client that takes no list: what ends only by that is found.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// A point in time after which waiting has failed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    /// The deadline `wait` from now.
    pub fn after(wait: Duration) -> Self {
        Self { end: now() + wait }
    }

    /// Time left, or `None` when the deadline has passed.
    pub fn left(&self) -> Option<Duration> {
        self.end.checked_duration_since(now()).filter(|left| !left.is_zero())
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

/// The only reading of a clock in the harness.
#[expect(clippy::disallowed_methods, reason = "a test waits for another process in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970 as the server sees them, for absolute expiration times.
#[expect(clippy::disallowed_methods, reason = "absolute exptimes are compared with the server's real clock")]
pub fn unix_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_ends_at_the_first_value() {
        let mut looks = 0;
        let found = Deadline::after(PATIENCE).poll(|| {
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
