//! When the server learns from its requests: once a second, and more often while stores fill the cache faster than that.

use guira_sync::clock::{Millis, Seconds};
use std::time::Duration;

/// The controller learns again within a second when one part of the cache, of this number of parts, was stored.
pub(super) const PART: f64 = 32.0;
/// How often it checks that. To learn takes a fraction of a millisecond.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(PAUSE);
const PAUSE: u64 = 50;

/// When the controller learns next.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    second: Seconds,
    /// When it checks next how much was stored, …
    look: Millis,
    /// … and how much that has to be, in bytes since the start.
    stored: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Second,
    Fill,
}

impl Rhythm {
    /// The work that is due at this time; `stored` returns the bytes stored since the start.
    pub(super) fn due(&mut self, now: Seconds, fine: Millis, stored: impl FnOnce() -> u64) -> Due {
        if now != self.second {
            self.second = now;
            self.look = Millis(fine.0 + PAUSE);
            return Due::Second;
        }
        // Tests may move the clock back: no pause is longer than `PAUSE`.
        let left = self.look.0.wrapping_sub(fine.0);
        if left > 0 && left <= PAUSE {
            return Due::Nothing;
        }
        self.look = Millis(fine.0 + PAUSE);
        if stored() >= self.stored { Due::Fill } else { Due::Nothing }
    }

    /// The controller has learnt, and learns again at `stored` bytes.
    pub(super) fn learnt(&mut self, stored: u64) {
        self.stored = stored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_each_second_and_when_much_was_stored_but_not_all_the_time() {
        let mut rhythm = Rhythm::default();
        let mut due = |second, fine, stored| {
            let due = rhythm.due(Seconds(second), Millis(fine), || stored);
            if due != Due::Nothing {
                rhythm.learnt(stored + 100);
            }
            due
        };
        assert_eq!(due(1, 1_000, 0), Due::Second);
        assert_eq!(due(1, 1_020, 500), Due::Nothing, "soon");
        assert_eq!(due(1, 1_050, 99), Due::Nothing, "little");
        assert_eq!(due(1, 1_099, 200), Due::Nothing, "it has just looked");
        assert_eq!(due(1, 1_100, 200), Due::Fill);
        assert_eq!(due(1, 1_150, 299), Due::Nothing);
        assert_eq!(due(2, 2_000, 299), Due::Second);
        assert_eq!(due(2, 500, 1_000), Due::Fill, "a clock that went back");
    }
}
