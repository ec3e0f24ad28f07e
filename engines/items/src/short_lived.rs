//! Items that expire soon, by the second in which they do (Scaling Memcache at Facebook, section 6.3).
//!
//! A cache finds out that an item has expired when it is asked for it, when its memory is wanted, or when the crawler comes by. Until then it occupies memory that
//! others could use. The paper keeps short-lived items in a circular buffer of lists, one for each second, and evicts the list at its head each second. Here the
//! lists hold places, five bytes each, and whether there is an item and has expired is looked up when its second has come: a store over an item or a delete leaves its
//! note where it is.
//!
//! Memory for notes is set aside, a 200th of all. What finds none is left to the crawler.

use guira_contract::Expiry;
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;

/// The largest number of seconds that can be set.
pub const SHORT_LIVED_MAX: u32 = 600;

/// One part in this many of memory is for notes.
const PART: usize = 200;

/// Sessions share these, so that two seldom use one at the same time.
const LANES: usize = 8;

/// Notes that lie together, and are taken together.
const BLOCK: usize = 64;

/// Bytes of a block, with what the allocator adds.
const BLOCK_BYTES: usize = BLOCK * 5 + 64;

/// A place of 40 bits, in words.
type Note = [u8; 5];

/// Notes of one second. If those of an earlier one were not swept in time, they wait for it too.
#[derive(Debug, Default)]
struct Slot {
    second: u32,
    blocks: Vec<Vec<Note>>,
}

#[derive(Debug)]
struct Lane {
    /// One for each second, and one for the second that is swept.
    slots: Box<[Slot]>,
    /// The first second that may have notes.
    from: u32,
}

/// The items of an engine that expire soon.
#[derive(Debug)]
pub struct ShortLived {
    /// Items that live no longer are noted, in seconds; 0 if none are.
    seconds: u32,
    /// LOCK: short-lived. One at a time, leaf, held for a few instructions, and never waited for: who finds it taken leaves the item to the crawler.
    lanes: Box<[Mutex<Lane>]>,
    /// Blocks that may still be made.
    blocks_left: AtomicUsize,
    /// Memory set aside, in bytes.
    bytes: usize,
    /// The last second that was swept to its end. Relaxed, as all here: a hint.
    swept: AtomicU32,
    next_lane: AtomicUsize,
    untracked: AtomicU64,
    busy: AtomicU64,
}

impl ShortLived {
    /// For items that live up to `seconds`, in an engine with `memory` bytes.
    pub fn new(seconds: u32, memory: usize) -> Self {
        let seconds = seconds.min(SHORT_LIVED_MAX);
        let slots = if seconds == 0 { 0 } else { seconds as usize + 1 };
        let lane = || Mutex::new(Lane { slots: (0..slots).map(|_| Slot::default()).collect(), from: 0 });
        let tables = LANES * slots * size_of::<Slot>();
        let bytes = if seconds == 0 { 0 } else { (memory / PART).max(2 * tables) };
        ShortLived {
            seconds,
            lanes: (0..LANES).map(|_| lane()).collect(),
            blocks_left: AtomicUsize::new(bytes.saturating_sub(tables) / BLOCK_BYTES),
            bytes,
            swept: AtomicU32::new(0),
            next_lane: AtomicUsize::new(0),
            untracked: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        }
    }

    /// Memory that is set aside for notes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Short-lived items for whose notes there was no memory.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    /// Short-lived items that were not noted since another thread was at the list.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    pub fn lane(&self) -> usize {
        self.next_lane.fetch_add(1, Ordering::Relaxed) % LANES
    }

    /// Notes that the item at `at` expires then, if that is soon.
    #[inline(always)]
    pub fn note(&self, lane: usize, at: Offset, expiry: Expiry, now: Seconds) {
        if let Expiry::At(second) = expiry
            && second.0.wrapping_sub(now.0) <= self.seconds
        {
            self.push(lane, at, second);
        }
    }

    #[inline(never)]
    fn push(&self, lane: usize, at: Offset, second: Seconds) {
        if self.seconds == 0 {
            return;
        }
        let Some(mut lane) = self.lanes[lane].try_lock() else {
            self.busy.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let slots = lane.slots.len();
        let slot = &mut lane.slots[second.0 as usize % slots];
        if slot.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            if !self.take_block() {
                self.untracked.fetch_add(1, Ordering::Relaxed);
                return;
            }
            slot.blocks.push(Vec::with_capacity(BLOCK));
        }
        slot.second = slot.second.max(second.0);
        let [b0, b1, b2, b3, b4, ..] = ((at.bytes() / 8) as u64).to_le_bytes();
        if let Some(block) = slot.blocks.last_mut() {
            block.push([b0, b1, b2, b3, b4]);
        }
    }

    fn take_block(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.blocks_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Up to 64 places at which an item was stored that has expired by `now`, unless something has happened to it since. None if there are no more.
    #[inline]
    pub fn take_due(&self, now: Seconds) -> Option<Vec<Offset>> {
        if self.seconds == 0 || self.swept.load(Ordering::Relaxed) == now.0 {
            return None;
        }
        self.find_due(now)
    }

    #[cold]
    fn find_due(&self, now: Seconds) -> Option<Vec<Offset>> {
        let mut is_swept = true;
        for lane in &self.lanes {
            let Some(mut lane) = lane.try_lock() else {
                is_swept = false;
                continue;
            };
            if let Some(block) = lane.take_due(now.0) {
                self.blocks_left.fetch_add(1, Ordering::Relaxed);
                return Some(block.into_iter().map(place_of).collect());
            }
        }
        if is_swept {
            self.swept.store(now.0, Ordering::Relaxed);
        }
        None
    }
}

impl Lane {
    fn take_due(&mut self, now: u32) -> Option<Vec<Note>> {
        let slots = self.slots.len() as u32;
        self.from = self.from.max(now.saturating_sub(slots - 1));
        while self.from <= now {
            let slot = &mut self.slots[(self.from % slots) as usize];
            if slot.second <= now {
                if let Some(block) = slot.blocks.pop() {
                    return Some(block);
                }
                slot.blocks = Vec::new();
            }
            self.from += 1;
        }
        // A session whose clock is behind may still note something for this second.
        self.from = now;
        None
    }
}

fn place_of(note: Note) -> Offset {
    let [b0, b1, b2, b3, b4] = note;
    Offset::from_bytes(u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64) -> Offset {
        Offset::from_bytes(place * 8)
    }

    fn due(short: &ShortLived, now: u32) -> Vec<u64> {
        let all = std::iter::from_fn(|| short.take_due(Seconds(now))).flatten();
        let mut places: Vec<u64> = all.map(|at| at.bytes() as u64 / 8).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn what_is_noted_is_due_in_its_second() {
        let short = ShortLived::new(10, 16 << 20);
        for place in 0..1000u64 {
            short.note(
                place as usize % LANES,
                at(place),
                Expiry::At(Seconds(101 + place as u32 % 10)),
                Seconds(100),
            );
        }
        assert!(due(&short, 100).is_empty());
        for second in 101..=110 {
            let expected: Vec<u64> =
                (0..1000).filter(|place| place % 10 == u64::from(second) - 101).collect();
            assert_eq!(due(&short, second), expected, "{second}");
        }
        assert!(due(&short, 111).is_empty());
        assert_eq!(short.untracked(), 0);
    }

    #[test]
    fn what_finds_a_list_in_use_is_counted_apart_from_what_finds_no_memory() {
        let short = ShortLived::new(10, 16 << 20);
        let lane = short.lanes[0].lock();
        short.note(0, at(1), Expiry::At(Seconds(101)), Seconds(100));
        short.note(1, at(2), Expiry::At(Seconds(101)), Seconds(100));
        drop(lane);
        assert_eq!((short.busy(), short.untracked(), due(&short, 101)), (1, 0, vec![2]));
    }

    #[test]
    fn what_lives_longer_or_for_ever_is_not_noted() {
        let short = ShortLived::new(10, 16 << 20);
        for expiry in [Expiry::Never, Expiry::At(Seconds(111)), Expiry::At(Seconds(99))] {
            short.note(0, at(7), expiry, Seconds(100));
        }
        let off = ShortLived::new(0, 16 << 20);
        off.note(0, at(7), Expiry::At(Seconds(100)), Seconds(100));
        assert_eq!(off.bytes(), 0);
        assert!((100..130).all(|second| due(&short, second).is_empty() && due(&off, second).is_empty()));
    }

    #[test]
    fn nothing_is_forgotten_over_a_long_pause_or_by_a_clock_that_is_behind() {
        let short = ShortLived::new(10, 16 << 20);
        short.note(0, at(1), Expiry::At(Seconds(105)), Seconds(100));
        assert_eq!(due(&short, 5000), [1]);
        short.note(1, at(2), Expiry::At(Seconds(5000)), Seconds(4999));
        assert_eq!(due(&short, 5001), [2]);
        // The largest place there is.
        let last = (1 << 40) - 1;
        short.note(2, at(last), Expiry::At(Seconds(5005)), Seconds(5001));
        assert_eq!(due(&short, 5005), [last]);
    }

    #[test]
    fn the_memory_for_notes_is_limited_and_comes_back() {
        let memory = 2 << 20;
        let short = ShortLived::new(10, memory);
        let fill = |second: u32| {
            let before = short.untracked();
            (0..10_000)
                .for_each(|place| short.note(0, at(place), Expiry::At(Seconds(second + 1)), Seconds(second)));
            10_000 - (short.untracked() - before)
        };
        let noted = fill(100);
        assert!(noted < 10_000 && noted as usize * 5 < short.bytes(), "{noted}");
        assert_eq!(due(&short, 101).len() as u64, noted);
        assert_eq!(fill(101), noted);
    }
}
