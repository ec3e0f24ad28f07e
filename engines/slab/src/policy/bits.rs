//! One bit a chunk, kept in the order itself: what must not be lost when a reader writes its note at the same time.

use super::Chunk;

/// Bits of a word.
const WIDTH: usize = u64::BITS as usize;

/// A set of chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    ones: u32,
}

fn place(chunk: Chunk) -> (usize, u64) {
    (chunk as usize / WIDTH, 1 << (chunk as usize % WIDTH))
}

impl Bits {
    pub(super) fn contains(&self, chunk: Chunk) -> bool {
        let (word, bit) = place(chunk);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn insert(&mut self, chunk: Chunk) {
        let (word, bit) = place(chunk);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.ones += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, chunk: Chunk) -> bool {
        let was_there = self.contains(chunk);
        if was_there {
            let (word, bit) = place(chunk);
            self.words[word] &= !bit;
            self.ones -= 1;
        }
        was_there
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ones == 0
    }

    /// One of them, as `random` has it: the first in a word chosen by it, or in a later one.
    pub(super) fn some(&self, random: u64) -> Option<Chunk> {
        if self.is_empty() {
            return None;
        }
        let start = (random % self.words.len() as u64) as usize;
        let words = (start..self.words.len()).chain(0..start);
        let word = words.into_iter().find(|word| self.words[*word] != 0)?;
        Some((word * WIDTH) as Chunk + self.words[word].trailing_zeros())
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
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
        let some = |bits: &Bits| (0..11).map(|random| bits.some(random).unwrap()).collect::<Vec<_>>();
        assert_eq!(some(&bits), [3, 64, 700, 700, 700, 700, 700, 700, 700, 700, 700]);
        assert!(bits.remove(700) && !bits.remove(700));
        assert_eq!(some(&bits)[2..], [3; 9], "it goes around");
        assert!(bits.remove(3) && bits.remove(64) && bits.is_empty());
    }
}
