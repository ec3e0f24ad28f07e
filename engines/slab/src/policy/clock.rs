//! CLOCK (MemC3, section 4; Corbató 1968): a bit an item, set when it is read. A hand goes around; where it finds
//! the bit set it clears it and goes on, where it finds it clear the item is the victim.
//!
//! With two bits, which is the default, the second read since the hand came by sets the second bit, and the hand takes one bit back each
//! time it comes by (GCLOCK; Smith 1978): what was read more than once is spared for two rounds.
//!
//! The hand is written over [`Ring`], not over slab pages, so that the simulator turns the very same hand.

use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// How many recency bits of a chunk count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBits {
    One,
    /// Whether it was read more than once, too.
    #[default]
    Two,
}

impl PolicyOptions for ReadBits {
    type Order = Clock;
    const NAME: &'static str = "clock";
    const ABOUT: &'static str =
        "a hand clears recency bits and evicts items without any (MemC3); bits=1 or 2, 2";
    const KEYS: &'static [&'static str] = &["bits"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let is_one = spec.number("bits", 1..=2)? == Some(1);
        Ok(if is_one { ReadBits::One } else { ReadBits::Two })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        vec![("bits", if self == ReadBits::One { "1" } else { "2" }.to_owned())]
    }

    fn order(self, _seed: u64) -> Clock {
        Clock { counted: self }
    }

    fn tune(self, order: &mut Clock) -> bool {
        order.counted = self;
        true
    }
}

/// CLOCK. Its order is that in which chunks lie in pages, and its state are the hand of the class and the recency bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    counted: ReadBits,
}

impl Order for Clock {
    const READS: Reads = Reads::Bit;
    const GOES_BY_HAND: bool = true;
    const IS_SEQUENCE: bool = false;

    fn notes(&self) -> Notes {
        Notes::NONE
    }

    fn stored(&mut self, _chunks: &impl Chunks, _chunk: Chunk, _arrival: Arrival, _now: Moment) {}

    fn has(&self, _chunks: &impl Chunks, _chunk: Chunk) -> bool {
        true
    }

    fn removed(&mut self, _chunks: &impl Chunks, _chunk: Chunk) {}

    fn victims(&mut self, chunks: &impl Chunks, want: usize, _now: Moment, take: impl FnMut(Chunk)) {
        chunks.sweep(self.counted, want, take);
    }

    fn next(&self, _chunks: &impl Chunks) -> Option<Chunk> {
        None
    }

    fn since(&self, _chunks: &impl Chunks, _chunk: Chunk) -> u32 {
        0
    }

    fn newest(&self, _chunks: &impl Chunks, _among: &[Chunk], _lately: Lately) -> Vec<(u32, Chunk)> {
        Vec::new()
    }
}

/// What a hand goes around: chunks, 64 to a word.
pub trait Ring {
    /// How many words there are; 0 if there is nothing to go around.
    fn words(&self) -> usize;
    /// Which chunks of word `word` hold something.
    fn occupied(&self, word: usize) -> u64;
    /// Which chunks of word `word` were read since the hand came by.
    fn recent(&self, word: usize) -> u64;
    /// Takes a recency bit back from each of the chunks `bits` of word `word`, which have one.
    fn fade(&self, word: usize, bits: u64);
    /// The hand has left word `word` behind.
    fn passed(&mut self, word: usize);
}

/// A chunk of a [`Ring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    pub word: usize,
    pub bit: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Hand {
    word: usize,
    bit: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    pub victims: usize,
    pub steps: u64,
}

/// Two rounds clear every bit that was set when they began, and a third finds victims; whatever is set even then is taken all the same.
const ROUNDS: usize = 3;

impl Hand {
    /// The word the hand points into.
    pub fn word(&self) -> usize {
        self.word
    }

    /// The next word that it has not begun with.
    pub(crate) fn next_word(&self) -> usize {
        self.word + usize::from(self.bit > 0)
    }

    /// Where it points: word, and bit in the word.
    pub(crate) fn place(&self) -> (usize, u32) {
        (self.word, self.bit)
    }

    pub(crate) fn at(word: usize, bit: u32) -> Self {
        Hand { word, bit: bit % 64 }
    }

    /// The hand stays where it is when words are put into the ring just before it: it comes by them last.
    pub fn words_inserted(&mut self, inserted: usize) {
        self.word += inserted;
    }

    /// The hand stays where it is when words before it are taken out of the ring: `removed` of them, from `from` on.
    pub fn words_removed(&mut self, from: usize, removed: usize) {
        if self.word >= from + removed {
            self.word -= removed;
        } else if self.word >= from {
            *self = Hand { word: from, bit: 0 };
        }
    }

    /// Goes on until `want` victims are found, or until it has gone around so often that there are none, and shows
    /// each to `take`. A victim stays occupied until it is freed; the hand is past it.
    pub fn sweep(&mut self, ring: &mut impl Ring, want: usize, mut take: impl FnMut(RingPlace)) -> Sweep {
        let mut sweep = Sweep::default();
        let words = ring.words();
        if words == 0 {
            return sweep;
        }
        for turn in 0..=words * ROUNDS {
            if self.word >= words {
                *self = Hand::default();
            }
            let ahead = u64::MAX << self.bit;
            let occupied = ring.occupied(self.word) & ahead;
            let recent = if turn == words * ROUNDS { 0 } else { ring.recent(self.word) & occupied };
            let mut victims = occupied & !recent;
            while victims != 0 && sweep.victims < want {
                let bit = victims.trailing_zeros();
                take(RingPlace { word: self.word, bit });
                sweep.victims += 1;
                victims &= victims - 1;
                self.bit = bit + 1;
            }
            let behind = if victims == 0 { u64::MAX } else { (1u64 << self.bit) - 1 };
            let looked_at = occupied & behind;
            sweep.steps += u64::from(looked_at.count_ones());
            if recent & behind != 0 {
                ring.fade(self.word, recent & behind);
            }
            if victims != 0 {
                return sweep;
            }
            ring.passed(self.word);
            *self = Hand { word: self.word + 1, bit: 0 };
            if sweep.victims == want {
                return sweep;
            }
        }
        sweep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::miniature::{Bits, Counted};

    fn plain(occupied: &[u64], recent: &[u64]) -> Bits {
        Bits::of(occupied, recent)
    }

    fn victims(hand: &mut Hand, ring: &mut Bits, want: usize) -> Vec<u32> {
        let mut all = Vec::new();
        let mut ring = Counted { bits: ring, counted: ReadBits::Two };
        hand.sweep(&mut ring, want, |place| all.push(place.word as u32 * 64 + place.bit));
        all
    }

    fn recent(bits: &Bits, word: usize) -> u64 {
        Counted { bits, counted: ReadBits::Two }.recent(word)
    }

    #[test]
    fn the_hand_takes_what_was_not_read_and_clears_what_it_passes() {
        let mut ring = plain(&[0b1111, 0b11], &[0b0101, 0b01]);
        let mut hand = Hand::default();
        assert_eq!(victims(&mut hand, &mut ring, 1), [1]);
        assert_eq!(recent(&ring, 0), 0b0100, "only the bits passed are cleared");
        assert_eq!(victims(&mut hand, &mut ring, 2), [3, 65]);
        assert_eq!((recent(&ring, 0), recent(&ring, 1)), (0, 0));
        assert_eq!(victims(&mut hand, &mut ring, 3), [0, 1, 2], "it goes around");
    }

    #[test]
    fn when_everything_was_read_the_second_round_finds_victims() {
        let mut ring = plain(&[u64::MAX; 3], &[u64::MAX; 3]);
        assert_eq!(victims(&mut Hand::default(), &mut ring, 2), [0, 1]);
    }

    #[test]
    fn what_was_read_twice_is_spared_twice() {
        let mut ring = plain(&[0b111], &[0b110]);
        ring.read(2);
        let mut hand = Hand::default();
        assert_eq!(victims(&mut hand, &mut ring, 1), [0]);
        assert_eq!(victims(&mut hand, &mut ring, 2), [0, 1], "0 is still there for the ring");
        assert_eq!(recent(&ring, 0), 0, "the hand came by 2 twice");
    }

    #[test]
    fn an_empty_ring_has_no_victims_and_a_sweep_ends() {
        assert_eq!(victims(&mut Hand::default(), &mut plain(&[], &[]), 1), Vec::<u32>::new());
        assert_eq!(victims(&mut Hand::default(), &mut plain(&[0, 0], &[0, 0]), 1), Vec::<u32>::new());
    }

    #[test]
    fn every_chunk_is_taken_once_in_a_round_whatever_the_batch() {
        for want in [1, 3, 64, 100] {
            let mut ring = plain(&[u64::MAX, 0xffff, u64::MAX], &[0, 0, 0]);
            let mut hand = Hand::default();
            let mut all = Vec::new();
            while all.len() < 144 {
                all.extend(victims(&mut hand, &mut ring, want.min(144 - all.len())));
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 144, "want {want}");
        }
    }

    #[test]
    fn the_hand_keeps_its_place_when_words_are_removed() {
        let mut hand = Hand { word: 5, bit: 3 };
        hand.words_removed(1, 2);
        assert_eq!((hand.word, hand.bit), (3, 3));
        hand.words_removed(2, 4);
        assert_eq!((hand.word, hand.bit), (2, 0));
    }
}
