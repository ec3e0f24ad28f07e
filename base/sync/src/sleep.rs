//! Going to sleep without missing what has just come, and waking only who sleeps.
//!
//! ```text
//! sleeper:  fall_asleep, look once more, sleep … wake_up        others:  put something there, must_wake → ring
//! ```
//!
//! The flag is a word of anybody's: of this process, or of memory that two processes share.

use crate::atomic::{AtomicU64, Ordering, fence};

/// Says that the flag's owner is about to sleep. Whatever was put there before a [`must_wake`] that does not see this is seen by what looks
/// for it after this.
#[inline(always)]
pub fn fall_asleep(flag: &AtomicU64) {
    flag.store(1, Ordering::Relaxed);
    // SeqCst: pairs with the fence in `must_wake`: either whoever puts something there sees the flag, or the owner what was put there.
    fence(Ordering::SeqCst);
}

/// Says that the flag's owner is awake.
#[inline(always)]
pub fn wake_up(flag: &AtomicU64) {
    flag.store(0, Ordering::Relaxed);
}

/// After something was put where the flag's owner looks: whether he has to be woken. That is told once for each time that he falls asleep.
#[inline(always)]
pub fn must_wake(flag: &AtomicU64) -> bool {
    // SeqCst: pairs with the fence in `fall_asleep`.
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_who_sleeps_is_woken_and_once() {
        let flag = AtomicU64::new(0);
        assert!(!must_wake(&flag));
        fall_asleep(&flag);
        assert_eq!((must_wake(&flag), must_wake(&flag)), (true, false));
        fall_asleep(&flag);
        wake_up(&flag);
        assert!(!must_wake(&flag));
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[derive(Default)]
    struct Room {
        flag: AtomicU64,
        things: [AtomicU64; 2],
        /// How often it has rung.
        rung: AtomicU64,
    }

    impl Room {
        fn put(&self, place: usize) {
            self.things[place].store(1, Ordering::Release);
            if must_wake(&self.flag) {
                self.rung.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn seen(&self) -> u64 {
            self.things.iter().map(|thing| thing.load(Ordering::Acquire)).sum()
        }
    }

    /// Two put something there while the owner goes to sleep: he does not sleep for ever over either.
    #[test]
    fn loom_nobody_sleeps_over_what_has_come() {
        loom::model(|| {
            let room = Arc::new(Room::default());
            let putters = [0, 1].map(|place| {
                let room = room.clone();
                loom::thread::spawn(move || room.put(place))
            });
            fall_asleep(&room.flag);
            let seen = room.seen();
            putters.into_iter().for_each(|putter| putter.join().unwrap());
            let rung = room.rung.load(Ordering::Relaxed);
            assert!(rung <= 1, "woken twice");
            // What he has not seen has rung, after he fell asleep: one ring is enough for both.
            assert!(seen == 2 || rung == 1, "{seen} seen, and nobody rang");
        });
    }
}
