//! Sleeping without lost wake-ups, and waking only a thread that sleeps.
//!
//! ```text
//! sleeper:  fall_asleep, check once more, sleep … wake_up        others:  publish, must_wake → wake
//! ```
//!
//! The flag may lie in this process, or in memory that two processes share.

use crate::atomic::{AtomicU64, Ordering, fence};

/// Announces that the flag's owner is about to sleep. The owner must check for work once more after this call: it
/// sees everything published before a [`must_wake`] that returned false.
#[inline(always)]
pub fn fall_asleep(flag: &AtomicU64) {
    flag.store(1, Ordering::Relaxed);
    // SeqCst: pairs with the fence in `must_wake`: either the publisher sees the flag, or the owner what was
    // published.
    fence(Ordering::SeqCst);
}

/// Announces that the flag's owner is awake.
#[inline(always)]
pub fn wake_up(flag: &AtomicU64) {
    flag.store(0, Ordering::Relaxed);
}

/// Whether the flag's owner has to be woken, after something was published. True once for each time that it falls
/// asleep.
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
    fn only_a_sleeping_owner_is_woken_and_once() {
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
        /// The number of wake-ups.
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

    /// Two threads publish while the owner goes to sleep: neither wake-up is lost.
    #[test]
    fn loom_no_wakeup_is_lost() {
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
            // Whatever the owner has not seen caused a wake-up after it fell asleep: one is enough for both.
            assert!(seen == 2 || rung == 1, "{seen} seen, and no wake-up");
        });
    }
}
