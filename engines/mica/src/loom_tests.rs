//! Who holds a partition, and what readers believe of its log, in every order in which two threads can come to it.

use crate::hold::{PartitionLock, Waiting};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::Arc;

/// A partition that two sessions want.
struct World {
    hold: PartitionLock,
    waiting: Waiting,
    /// Its holder stores into it, without any ordering.
    contents: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            hold: PartitionLock::default(),
            waiting: Waiting::default(),
            contents: AtomicU64::new(0),
        })
    }

    fn take(&self) {
        if !self.hold.try_take() {
            self.hold.take(&self.waiting, || ());
        }
    }

    fn work(&self) {
        let before = self.contents.load(Ordering::Relaxed);
        self.contents.store(before + 1, Ordering::Relaxed);
    }
}

#[test]
fn loom_whoever_holds_a_partition_sees_what_others_did_there() {
    loom::model(|| {
        let world = World::new();
        let theirs = world.clone();
        let thread = loom::thread::spawn(move || {
            let has_taken = theirs.hold.try_take();
            if has_taken {
                theirs.work();
                theirs.hold.give(&theirs.waiting);
            }
            has_taken
        });
        let has_taken = world.hold.try_take();
        if has_taken {
            world.work();
            world.hold.give(&world.waiting);
        }
        let works = u64::from(has_taken) + u64::from(thread.join().unwrap());
        assert!(works > 0);
        world.take();
        assert_eq!(world.contents.load(Ordering::Relaxed), works);
    });
}

/// The holder looks at the end of each batch whether there was a recall, and only then which partition is wanted. The session that waits gets it, though the holder never
/// goes away.
#[test]
fn loom_a_recall_is_heeded_by_one_who_looks_once() {
    loom::model(|| {
        let world = World::new();
        world.take();
        let theirs = world.clone();
        let thread = loom::thread::spawn(move || {
            theirs.take();
            theirs.work();
            theirs.hold.give(&theirs.waiting);
        });
        // Acquire: as in `Holdings::heed`.
        while world.waiting.heeded() == 0 {
            loom::thread::yield_now();
        }
        assert!(world.hold.is_wanted(), "it would never look again");
        world.work();
        world.hold.hand_over(&world.waiting);
        thread.join().unwrap();
        world.take();
        assert_eq!(world.contents.load(Ordering::Relaxed), 2);
    });
}

/// The order in which a log is published and its room used again, and in which a reader copies and looks. Both words of an entry are the offset at which it was
/// stored.
#[test]
fn loom_no_reader_believes_what_took_the_room_of_an_item() {
    struct Room {
        live_from: AtomicU64,
        words: [AtomicU64; 2],
    }
    loom::model(|| {
        let zero = || AtomicU64::new(0);
        let room = Arc::new(Room { live_from: zero(), words: [zero(), zero()] });
        let theirs = room.clone();
        let thread = loom::thread::spawn(move || {
            // As `Log::publish`, then `ItemHeaderSpec::write`.
            theirs.live_from.store(8, Ordering::Relaxed);
            fence(Ordering::Release);
            theirs.words.iter().for_each(|word| word.store(8, Ordering::Relaxed));
        });
        // As `Reader::see`, then `Log::is_still_live`.
        let read = [0, 1].map(|word| room.words[word].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if room.live_from.load(Ordering::Relaxed) == 0 {
            assert_eq!(read, [0, 0]);
        }
        thread.join().unwrap();
    });
}
