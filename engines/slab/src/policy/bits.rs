//! One bit a chunk, kept in the order itself: what must not be lost when a reader writes its note at the same time.

use super::Chunk;

const WIDTH: usize = u64::BITS as usize;
const WORDS: usize = 64;

/// Bits of chunks that follow each other: about a page of them, since a class has some pages here and some there.
#[derive(Clone, Debug)]
struct Block {
    words: [u64; WORDS],
    ones: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    blocks: Vec<Option<Box<Block>>>,
    held: usize,
    ones: u32,
}

/// Block, word in the block, and bit in the word.
fn place(chunk: Chunk) -> (usize, usize, u64) {
    let word = chunk as usize / WIDTH;
    (word / WORDS, word % WORDS, 1 << (chunk as usize % WIDTH))
}

impl Bits {
    pub(super) fn contains(&self, chunk: Chunk) -> bool {
        let (block, word, bit) = place(chunk);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.is_some_and(|block| block.words[word] & bit != 0)
    }

    pub(super) fn insert(&mut self, chunk: Chunk) {
        let (index, word, bit) = place(chunk);
        if index >= self.blocks.len() {
            self.blocks.resize(index + 1, None);
        }
        let held = &mut self.held;
        let block = self.blocks[index].get_or_insert_with(|| {
            *held += 1;
            Box::new(Block { words: [0; WORDS], ones: 0 })
        });
        let more = u32::from(block.words[word] & bit == 0);
        block.words[word] |= bit;
        block.ones += more;
        self.ones += more;
    }

    pub(super) fn remove(&mut self, chunk: Chunk) -> bool {
        let (index, word, bit) = place(chunk);
        let Some(slot) = self.blocks.get_mut(index) else {
            return false;
        };
        let Some(block) = slot.as_mut().filter(|block| block.words[word] & bit != 0) else {
            return false;
        };
        block.words[word] &= !bit;
        block.ones -= 1;
        if block.ones == 0 {
            *slot = None;
            self.held -= 1;
        }
        self.ones -= 1;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.ones as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ones == 0
    }

    /// One of them, as `random` has it: the first from a bit on in a word that are both chosen by it, or in a later word.
    /// In a class of few chunks all of them may be in one word.
    pub(super) fn some(&self, random: u64) -> Option<Chunk> {
        if self.is_empty() {
            return None;
        }
        let start = (random % self.blocks.len() as u64) as usize;
        let blocks = (start..self.blocks.len()).chain(0..start);
        let mut held = blocks.filter_map(|index| Some((index, self.blocks[index].as_ref()?)));
        let (index, block) = held.next()?;
        let start = (random >> 32) as usize % WORDS;
        let word = (start..WORDS).chain(0..start).find(|word| block.words[*word] != 0)?;
        let first = (random >> 40) as u32 % u64::BITS;
        let bit = (block.words[word].rotate_right(first).trailing_zeros() + first) % u64::BITS;
        Some(((index * WORDS + word) * WIDTH) as Chunk + bit)
    }

    pub(super) fn bytes(&self) -> usize {
        self.held * size_of::<Block>() + self.blocks.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_there_until_it_is_removed() {
        let mut bits = Bits::default();
        assert!(bits.some(7).is_none() && bits.bytes() == 0 && !bits.remove(900));
        [3, 3, 64, 700].into_iter().for_each(|chunk| bits.insert(chunk));
        assert!(bits.contains(3) && bits.contains(64) && !bits.contains(65) && !bits.contains(9000));
        let some = |bits: &Bits, word: u64| bits.some(word << 32).unwrap();
        assert_eq!([0, 1, 2, 10, 11].map(|word| some(&bits, word)), [3, 64, 700, 700, 3], "it goes around");
        let bit = |bits: &Bits, bit: u64| bits.some(bit << 40).unwrap();
        assert_eq!([1, 3].map(|first| bit(&bits, first)), [3, 3], "from a bit of the word on");
        bits.insert(9);
        assert_eq!([3, 4, 10].map(|first| bit(&bits, first)), [3, 9, 3]);
        bits.remove(9);
        assert!(bits.remove(700) && !bits.remove(700));
        assert!([2, 9].map(|word| some(&bits, word)) == [3; 2]);
        bits.insert(100_000);
        let before = bits.bytes();
        assert!(bits.remove(100_000) && bits.bytes() < before, "a block that is empty is given back");
        assert!(bits.remove(3) && bits.remove(64) && bits.is_empty());
    }
}
