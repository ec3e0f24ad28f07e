//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024, section 3.1): the order of FIFO, and a hand in it that goes from the oldest
//! to the newest. Where it finds the recency bit set it clears it and goes on, where it finds it clear the item is the victim. What was
//! read stays where it is, instead of being put in front as CLOCK does, so that new items are sifted sooner than those that have proved
//! their worth.
//!
//! The paper's hand goes on for as long as it finds bits set. Here it takes what it points at after [`PATIENCE`] chunks, since others
//! wait for the lock meanwhile.
//!
//! Notes: the links of a list.

use super::list::{self, List, PATIENCE};
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};

#[derive(Clone, Debug, Default)]
pub struct Sieve {
    list: List,
    /// Where it goes on; at the oldest if nowhere.
    hand: Option<Chunk>,
    /// When the hand came the last time to the part of the list that it is in, or when that was stored. `None` before it has moved.
    left_alone: Option<u32>,
    /// When it moved the last time.
    moved: u32,
}

impl Sieve {
    fn at_hand(&self) -> Option<Chunk> {
        self.hand.or(self.list.oldest())
    }

    /// The hand goes on from `chunk` to the next one.
    fn pass(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        self.hand = self.list.newer(chunks, chunk);
        if let Some(next) = self.at_hand() {
            self.left_alone = self.list.pass(next, self.moved).or(self.left_alone);
        }
    }

    fn victim(&mut self, chunks: &impl Chunks, now: Moment) -> Option<Chunk> {
        let mut chunk = self.at_hand()?;
        self.moved = now.tick;
        for _ in 0..PATIENCE {
            if !chunks.is_recent(chunk) {
                break;
            }
            chunks.forget(chunk);
            self.pass(chunks, chunk);
            chunk = self.at_hand()?;
        }
        self.pass(chunks, chunk);
        self.list.remove(chunks, chunk);
        Some(chunk)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SieveOptions;

impl PolicyOptions for SieveOptions {
    type Order = Sieve;
    const NAME: &'static str = "sieve";
    const ABOUT: &'static str = "a hand sifts a FIFO queue (Zhang and others 2024)";

    fn order(self, _seed: u64) -> Sieve {
        Sieve::default()
    }
}

impl Order for Sieve {
    const READS: Reads = Reads::Bit;
    const CLEARS_BITS: bool = true;

    fn notes(&self) -> Notes {
        Notes::LIST
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.removed(chunks, chunk);
        chunks.forget(chunk);
        self.list.push(chunks, chunk, now.tick);
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        list::is_linked(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        if list::is_linked(chunks, chunk) {
            if self.hand == Some(chunk) {
                self.pass(chunks, chunk);
            }
            self.list.remove(chunks, chunk);
            if self.list.len() == 0 {
                self.left_alone = None;
            }
        }
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, mut take: impl FnMut(Chunk)) {
        for _ in 0..want {
            let Some(chunk) = self.victim(chunks, now) else {
                return;
            };
            take(chunk);
        }
    }

    fn next(&self, _chunks: &impl Chunks) -> Option<Chunk> {
        self.at_hand()
    }

    fn since(&self, _chunks: &impl Chunks, _chunk: Chunk) -> u32 {
        self.left_alone.or(self.list.since()).unwrap_or_default()
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        list::newest([&self.list], chunks, among, lately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    fn filled(count: usize) -> (Plain, Sieve) {
        let (chunks, mut sieve) = (Plain::new(count, Notes::LIST), Sieve::default());
        (0..count as Chunk).for_each(|chunk| plain::store(&mut sieve, &chunks, chunk, chunk));
        (chunks, sieve)
    }

    fn read(chunks: &Plain, read: &[usize]) {
        read.iter().for_each(|chunk| chunks.recent[*chunk].set(true));
    }

    #[test]
    fn the_hand_takes_what_was_not_read_and_leaves_the_rest_where_it_is() {
        // From the oldest: 0 1 2 3 4, and 0, 1 and 3 were read. The hand clears 0 and 1 and takes 2, and goes on at 3.
        let (chunks, mut sieve) = filled(5);
        read(&chunks, &[0, 1, 3]);
        assert_eq!(plain::victims(&mut sieve, &chunks, 1), [2]);
        assert_eq!(plain::next_since(&sieve, &chunks), Some(3));
        // 2 is stored anew, in front, and 0 is read: 3 is cleared, 4 and then 2 are taken, since the hand has not gone around.
        plain::store(&mut sieve, &chunks, 2, 9);
        read(&chunks, &[0]);
        assert_eq!(plain::victims(&mut sieve, &chunks, 2), [4, 2]);
        // It goes around: 0 is cleared, 1 taken, then 3, and 0 last.
        assert_eq!(plain::victims(&mut sieve, &chunks, 9), [1, 3, 0]);
        assert_eq!(plain::next_since(&sieve, &chunks), None);
    }

    #[test]
    fn the_hand_goes_on_when_what_it_points_at_is_removed() {
        let (chunks, mut sieve) = filled(5);
        assert_eq!(plain::victims(&mut sieve, &chunks, 2), [0, 1]);
        sieve.removed(&chunks, 2);
        plain::store(&mut sieve, &chunks, 3, 9);
        assert_eq!(plain::victims(&mut sieve, &chunks, 9), [4, 3]);
    }

    #[test]
    fn when_everything_was_read_it_ends() {
        let count = PATIENCE as usize * 3;
        let (chunks, mut sieve) = filled(count);
        read(&chunks, &(0..count).collect::<Vec<_>>());
        assert_eq!(plain::victims(&mut sieve, &chunks, 1), [PATIENCE]);
        assert_eq!(
            plain::victims(&mut sieve, &chunks, 1),
            [PATIENCE * 2 + 1],
            "it goes on behind the victim"
        );
        let (chunks, mut sieve) = filled(3);
        read(&chunks, &[0, 1, 2]);
        assert_eq!(plain::victims(&mut sieve, &chunks, 1), [0], "the second time around");
    }
}
