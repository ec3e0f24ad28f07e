//! Bytes of a server that were received and not taken yet.

use std::ops::Range;

/// The buffer shrinks to this size after a long value.
const KEPT_MAX: usize = 1 << 20;

/// A buffer that is written with zeros only when it grows.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// The bytes that were received and not taken.
    rest: Range<usize>,
}

impl Input {
    /// The bytes that were received and not taken.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.rest.clone()]
    }

    /// Takes the first `count` bytes of the rest.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let begin = self.rest.start;
        self.rest.start += count;
        &self.bytes[begin..begin + count]
    }

    /// Space for `most` bytes behind the rest, for [`Input::add`].
    pub(super) fn space(&mut self, most: usize) -> &mut [u8] {
        self.bytes.copy_within(self.rest.clone(), 0);
        self.rest = 0..self.rest.len();
        let end = self.rest.end + most;
        if self.bytes.len() > KEPT_MAX && end <= KEPT_MAX {
            self.bytes.truncate(KEPT_MAX);
            self.bytes.shrink_to_fit();
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.rest.end..end]
    }

    /// The first `count` bytes of the space were received.
    pub(super) fn add(&mut self, count: usize) {
        self.rest.end += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_order_and_the_buffer_shrinks_after_a_long_value() {
        let mut input = Input::default();
        input.space(8)[..5].copy_from_slice(b"hello");
        input.add(5);
        assert_eq!(input.take(2), b"he");
        input.space(4)[..2].copy_from_slice(b"!?");
        input.add(2);
        assert_eq!(input.rest(), b"llo!?");
        assert_eq!(input.take(5), b"llo!?");
        assert_eq!(input.rest(), b"");
        let length = input.space(3 * KEPT_MAX).len();
        input.add(length);
        assert_eq!(input.take(length - 1).len(), 3 * KEPT_MAX - 1);
        assert_eq!((input.space(10).len(), input.bytes.capacity()), (10, KEPT_MAX));
        assert_eq!(input.rest(), [0]);
    }
}
