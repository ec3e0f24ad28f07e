//! Reply buffers.

/// A reply buffer, into which long values are inserted by reference.
pub trait Replies {
    /// A pinned long value.
    type Pin;
    /// The buffer.
    fn buffer(&mut self) -> &mut ReplyBuffer;
    /// Inserts a long value after the bytes written so far.
    fn pin(&mut self, value: Self::Pin);
    /// Removes everything written since the buffer had `length` bytes, including long values. Each of those follows
    /// at least one byte of the buffer.
    fn take_back(&mut self, length: usize);
}

/// Encoded replies, in memory that is reused. The buffer grows on demand, and its memory is never zeroed.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl ReplyBuffer {
    /// An empty buffer with space for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        ReplyBuffer { bytes: vec![0; capacity], length: 0 }
    }

    /// The number of bytes written.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no bytes were written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes written.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Removes all bytes after the first `length`.
    #[inline(always)]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Makes space for up to `most` bytes, to be written through the [`Writer`] and kept by [`ReplyBuffer::keep`].
    #[inline(always)]
    pub fn writer(&mut self, most: usize) -> Writer<'_> {
        if self.bytes.len() - self.length < most {
            self.grow(most);
        }
        Writer { space: self.bytes.get_mut(self.length..).unwrap_or_default(), written: 0 }
    }

    /// Appends the first `written` bytes written through the last [`Writer`].
    #[inline(always)]
    pub fn keep(&mut self, written: usize) {
        self.length = (self.length + written).min(self.bytes.len());
    }

    #[cold]
    fn grow(&mut self, most: usize) {
        let wanted = (self.length + most).max(self.bytes.len() * 2).max(256);
        self.bytes.resize(wanted, 0);
    }

    /// Appends `bytes`.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        let mut writer = self.writer(bytes.len());
        writer.put(bytes);
        let written = writer.written();
        self.keep(written);
    }

    /// Exchanges its bytes for `other`, without copying them.
    pub fn swap(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, other);
        other.truncate(std::mem::replace(&mut self.length, self.bytes.len()));
    }

    /// Appends a line and `\r\n`.
    pub fn line(&mut self, text: &str) {
        self.put(text.as_bytes());
        self.put(b"\r\n");
    }

    /// Appends a number in decimal.
    pub fn number(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Writes into the space that a [`ReplyBuffer`] has made. Bytes that do not fit are dropped: the caller has to
/// reserve enough.
#[derive(Debug)]
pub struct Writer<'a> {
    space: &'a mut [u8],
    written: usize,
}

impl Writer<'_> {
    /// The number of bytes written.
    #[inline(always)]
    pub fn written(&self) -> usize {
        self.written
    }

    /// Writes `bytes`, if they fit.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        let space = self.space(bytes.len());
        if space.len() == bytes.len() {
            space.copy_from_slice(bytes);
        }
    }

    /// Writes a key: as [`Writer::put`], but without a call for the usual lengths.
    #[inline(always)]
    pub fn key(&mut self, key: &[u8]) {
        let space = self.space(key.len());
        if !copied_by_ends::<8>(space, key) && !copied_by_ends::<16>(space, key) {
            let length = space.len().min(key.len());
            space[..length].copy_from_slice(&key[..length]);
        }
    }

    /// Writes a number in decimal, if it fits.
    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        if number < 10 {
            self.put(&[b'0' + number as u8]);
        } else if number < 100 {
            self.put(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
        } else {
            // The buffer is passed out of line, so that the writer stays in registers.
            let mut buffer = [0; DIGITS_MAX];
            let length = format(number, &mut buffer);
            self.put(&buffer[..length.min(DIGITS_MAX)]);
        }
    }

    /// Writes ` <flags> <length>` and a line end at once if the flags have one digit and the length at most three:
    /// most VALUE lines end like that. Returns false if it wrote nothing.
    #[inline(always)]
    pub fn short_numbers(&mut self, flags: u32, length: usize) -> bool {
        let Some(space) = self.space.get_mut(self.written..).and_then(|rest| rest.first_chunk_mut::<8>())
        else {
            return false;
        };
        if flags > 9 || length > 999 {
            return false;
        }
        let (number, end) = (length as u64, u64::from_le_bytes(*b"\r\n\0\0\0\0\0\0"));
        let (hundreds, tens, ones) = (number / 100, number / 10 % 10, number % 10);
        let digits = u64::from_le_bytes(*b"000\0\0\0\0\0") | hundreds | tens << 8 | ones << 16;
        let leading = usize::from(length < 100) + usize::from(length < 10);
        let head = u64::from_le_bytes(*b" 0 \0\0\0\0\0") + (u64::from(flags) << 8);
        *space = (head | (digits | end << 24) >> (leading * 8) << 24).to_le_bytes();
        self.written += 8 - leading;
        true
    }

    /// The next `length` bytes, or none if fewer are left.
    #[inline(always)]
    pub fn space(&mut self, length: usize) -> &mut [u8] {
        match self.space.get_mut(self.written..).and_then(|rest| rest.get_mut(..length)) {
            Some(space) => {
                self.written += length;
                space
            }
            None => &mut [],
        }
    }
}

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

#[inline(never)]
fn format(number: u64, buffer: &mut [u8; DIGITS_MAX]) -> usize {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    buffer[..digits.len()].copy_from_slice(digits);
    digits.len()
}

/// Copies the first and the last `N` bytes, which may overlap, and thereby all of them.
#[inline(always)]
fn copied_by_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else {
        return false;
    };
    if from.len() > 2 * N || to.len() != from.len() {
        return false;
    }
    let last_at = from.len() - N;
    to[..N].copy_from_slice(first);
    to[last_at..].copy_from_slice(last);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_kept_and_can_be_truncated() {
        let mut buffer = ReplyBuffer::with_capacity(4);
        buffer.line("STORED");
        let mark = buffer.len();
        let mut writer = buffer.writer(100);
        writer.put(b"VALUE ");
        writer.number(7);
        writer.number(42);
        writer.number(u64::MAX);
        for (flags, length, text) in [(0, 7, " 0 7\r\n"), (9, 10, " 9 10\r\n"), (1, 999, " 1 999\r\n")] {
            let mut other = [0; 9];
            let mut writer = Writer { space: &mut other, written: 0 };
            assert!(writer.short_numbers(flags, length));
            assert_eq!(&writer.space[..writer.written], text.as_bytes());
        }
        for (flags, length, size) in [(10, 1, 9), (0, 1000, 9), (0, 1, 7)] {
            let mut other = [0; 9];
            let mut writer = Writer { space: &mut other[..size], written: 0 };
            assert!(!writer.short_numbers(flags, length) && writer.written == 0);
        }
        for length in [0, 1, 7, 8, 9, 16, 17, 32, 33] {
            let key = &b"0123456789abcdefghijklmnopqrstuvwxyz"[..length];
            let mut other = [0; 40];
            let mut writer = Writer { space: &mut other[..length], written: 0 };
            writer.key(key);
            assert_eq!((writer.written(), &other[..length]), (length, key));
        }
        writer.space(3).copy_from_slice(b"abc");
        let written = writer.written();
        buffer.keep(written);
        assert_eq!(buffer.as_slice(), b"STORED\r\nVALUE 74218446744073709551615abc");
        buffer.truncate(mark);
        assert_eq!(buffer.as_slice(), b"STORED\r\n");
    }
}
