//! When the server learns from its requests: once a second, and more often while so much is stored that the cache would be another one by then.

use guira_sync::clock::{Millis, Seconds};

/// A part of the cache, of this many, is stored before it learns again within a second.
pub(crate) const PART: f64 = 32.0;
/// It looks no more often than this, in milliseconds: to learn takes a fraction of one.
const PAUSE: u64 = 50;

/// When it learns next.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    second: Seconds,
    /// When it looks next whether so much was stored, …
    look: Millis,
    /// … and how much that is, in bytes since the start.
    stored: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Second,
    Fill,
}

impl Learning {
    /// What is due at this time; `stored` tells what was stored since the start.
    #[inline(always)]
    pub(crate) fn due(&mut self, now: Seconds, fine: Millis, stored: impl FnOnce() -> u64) -> Due {
        if now != self.second {
            self.second = now;
            self.look = Millis(fine.0 + PAUSE);
            return Due::Second;
        }
        // Clocks that tests move may go back: it never waits for that long.
        let left = self.look.0.wrapping_sub(fine.0);
        if left > 0 && left <= PAUSE {
            return Due::Nothing;
        }
        self.look = Millis(fine.0 + PAUSE);
        if stored() >= self.stored { Due::Fill } else { Due::Nothing }
    }

    /// It has learnt, and learns again when so much is stored.
    pub(crate) fn learnt(&mut self, stored: u64) {
        self.stored = stored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_each_second_and_when_much_was_stored_but_not_all_the_time() {
        let mut learning = Learning::default();
        let mut due = |second, fine, stored| {
            let due = learning.due(Seconds(second), Millis(fine), || stored);
            if due != Due::Nothing {
                learning.learnt(stored + 100);
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
