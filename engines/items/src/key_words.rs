//! Keys in their items, read without a lock.

use guira_sync::atomic::AtomicU64;
use guira_sync::words;

/// A key where it lies in its item, which may be changing.
#[derive(Clone, Copy, Debug)]
pub struct KeyWords<'a> {
    words: &'a [AtomicU64],
    at: usize,
    len: usize,
}

impl<'a> KeyWords<'a> {
    /// The key of `len` bytes that begins at byte `at` of `words`.
    #[inline(always)]
    pub fn new(words: &'a [AtomicU64], at: usize, len: usize) -> Self {
        KeyWords { words, at, len }
    }

    /// Copies the key and returns it.
    pub fn copied(self, buffer: &mut [u8; 256]) -> &[u8] {
        let key = &mut buffer[..self.len];
        words::copy_out(self.words, self.at, key);
        key
    }

    /// Whether it begins with the first `length` bytes of `prefix`. No byte is copied: every read of an item that was stored before a flush asks.
    #[inline(always)]
    pub fn begins_with(self, prefix: &[AtomicU64], length: usize) -> bool {
        length <= self.len && words::equal_racy(self.words, self.at, prefix, length)
    }
}
