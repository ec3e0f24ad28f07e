//! Keys of bounded length in one piece of memory.

/// Keys, by number.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    most: usize,
    longest: usize,
}

/// There is room for this many keys at first, once there is one.
const FIRST: usize = 16;

impl Texts {
    /// At most `most` keys of at most `longest` bytes, and no more than 255. They take memory as they come.
    pub(super) const fn new(most: usize, longest: usize) -> Self {
        Texts { lengths: Vec::new(), bytes: Vec::new(), most, longest }
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

    /// Sets a key, of those that there are or the next one; one that is too long is cut.
    #[inline]
    pub(super) fn set(&mut self, number: usize, key: &[u8]) {
        let key = &key[..key.len().min(self.longest)];
        if number == self.lengths.len() {
            self.grow();
        }
        let begin = number * self.longest;
        self.bytes[begin..begin + key.len()].copy_from_slice(key);
        self.lengths[number] = key.len() as u8;
    }

    #[cold]
    fn grow(&mut self) {
        let keys = (2 * self.lengths.len()).max(FIRST).min(self.most);
        let (more, more_bytes) = (keys - self.lengths.len(), keys * self.longest - self.bytes.len());
        self.lengths.reserve_exact(more);
        self.lengths.resize(keys, 0);
        self.bytes.reserve_exact(more_bytes);
        self.bytes.resize(keys * self.longest, 0);
    }

    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let (length, begin) = (self.lengths[from], from * self.longest);
        self.bytes.copy_within(begin..begin + usize::from(length), to * self.longest);
        self.lengths[to] = length;
    }
}
