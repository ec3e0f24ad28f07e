//! Keys of bounded length in one piece of memory.

/// Keys, by number.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    longest: usize,
}

impl Texts {
    /// Room for `most` keys of at most `longest` bytes, and no more than 255.
    pub(super) fn new(most: usize, longest: usize) -> Self {
        Texts { lengths: vec![0; most], bytes: vec![0; most * longest], longest }
    }

    /// Bytes that a key takes.
    pub(super) const fn bytes_each(longest: usize) -> usize {
        longest + 1
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> &[u8] {
        let begin = number * self.longest;
        &self.bytes[begin..begin + usize::from(self.lengths[number])]
    }

    /// Sets a key; one that is too long is cut.
    #[inline]
    pub(super) fn set(&mut self, number: usize, key: &[u8]) {
        let key = &key[..key.len().min(self.longest)];
        let begin = number * self.longest;
        self.bytes[begin..begin + key.len()].copy_from_slice(key);
        self.lengths[number] = key.len() as u8;
    }

    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let (length, begin) = (self.lengths[from], from * self.longest);
        self.bytes.copy_within(begin..begin + usize::from(length), to * self.longest);
        self.lengths[to] = length;
    }
}
