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

    /// Appends a few bytes whose number is known.
    #[inline(always)]
    pub fn put_short<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.bytes.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut::<N>) {
            Some(space) => {
                *space = bytes;
                self.length += N;
            }
            None => self.put_after_growing(&bytes),
        }
    }

    #[cold]
    #[inline(never)]
    fn put_after_growing(&mut self, bytes: &[u8]) {
        self.put(bytes);
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

    /// Writes `VALUE <key> <flags> <length>` and a line end at once if the key has 8 to 32 bytes, the flags have one digit and the length has at
    /// most three: most VALUE lines are like that. Returns false if it wrote nothing.
    #[inline(always)]
    pub fn short_value_line(&mut self, key: &[u8], flags: u32, length: usize) -> bool {
        let Some(space) = self.space.get_mut(self.written..).and_then(<[u8]>::first_chunk_mut::<VALUE_LINE>)
        else {
            return false;
        };
        let Some(number) = SHORT_NUMBERS.get(length).copied() else {
            return false;
        };
        if flags > 9 {
            return false;
        }
        let (word, rest) = space.split_at_mut(6);
        let Some(rest) = after_key(rest, key) else {
            return false;
        };
        word.copy_from_slice(b"VALUE ");
        let count = number >> 24;
        let head = u64::from_le_bytes(*b" 0 \0\0\0\0\0") | u64::from(flags) << 8;
        let digits = u64::from(number & 0xff_ffff) << 24;
        let end = u64::from(u16::from_le_bytes(*b"\r\n")) << (24 + count * 8);
        *rest = (head | digits | end).to_le_bytes();
        self.written += 6 + key.len() + count as usize + 5;
        true
    }

    /// Has `fill` write `length` bytes, and writes a line end after them, if there is room for both.
    #[inline(always)]
    pub fn block(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) {
        let space = self.space(length + 2);
        if let Some((value, end)) = space.split_at_mut_checked(length)
            && let Ok(end) = <&mut [u8; 2]>::try_from(end)
        {
            fill(value);
            *end = *b"\r\n";
        }
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

/// The numbers of up to three digits: those, and in the highest byte how many they are. A value line has one, and to compute it takes 30
/// instructions more; four bytes each, so that what is used of the table stays in the nearest cache.
static SHORT_NUMBERS: [u32; 1000] = {
    let mut all = [0; 1000];
    let mut number = 0;
    while number < all.len() {
        let count = 1 + (number > 9) as usize + (number > 99) as usize;
        let mut rest = number;
        let mut text = [0, 0, 0, count as u8];
        let mut at = count;
        while at > 0 {
            at -= 1;
            text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        all[number] = u32::from_le_bytes(text);
        number += 1;
    }
    all
};

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

#[inline(never)]
fn format(number: u64, buffer: &mut [u8; DIGITS_MAX]) -> usize {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    buffer[..digits.len()].copy_from_slice(digits);
    digits.len()
}

/// The longest line that [`Writer::short_value_line`] writes, and what it stores behind it.
const VALUE_LINE: usize = 6 + 32 + 8;

/// Copies a key of 8 to 32 bytes, and returns the eight bytes after it.
#[inline(always)]
fn after_key<'s>(space: &'s mut [u8], key: &[u8]) -> Option<&'s mut [u8; 8]> {
    let (space, rest) = space.split_at_mut_checked(key.len())?;
    if copied_by_ends::<8>(space, key) || copied_by_ends::<16>(space, key) {
        rest.first_chunk_mut()
    } else {
        None
    }
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
    fn short_value_lines_are_as_long_ones() {
        let name = b"0123456789abcdefghijklmnopqrstuvwxyz";
        for length in 0..1002 {
            for (key, flags) in [(8, 0), (9, 9), (16, 1), (17, 2), (32, 3), (7, 0), (33, 0), (8, 10)] {
                let key = &name[..key];
                let mut space = [b'?'; 60];
                let mut writer = Writer { space: &mut space, written: 0 };
                let is_short = (8..=32).contains(&key.len()) && flags < 10 && length < 1000;
                assert_eq!(writer.short_value_line(key, flags, length), is_short, "{length}");
                let written = writer.written();
                let text = format!("VALUE {} {flags} {length}\r\n", String::from_utf8_lossy(key));
                assert_eq!(&space[..written], if is_short { text.as_bytes() } else { b"" });
            }
        }
        let mut space = [0; VALUE_LINE - 1];
        let mut writer = Writer { space: &mut space, written: 0 };
        assert!(!writer.short_value_line(&name[..8], 0, 1) && writer.written() == 0, "no room");
    }

    #[test]
    fn a_block_is_written_with_its_line_end_or_not_at_all() {
        for (room, expected) in [(5, b"abc\r\n".as_slice()), (4, b"")] {
            let mut space = [0; 5];
            let mut writer = Writer { space: &mut space[..room], written: 0 };
            writer.block(3, |value| value.copy_from_slice(b"abc"));
            let written = writer.written();
            assert_eq!(&space[..written], expected);
        }
    }

    #[test]
    fn written_bytes_are_kept_and_can_be_truncated() {
        let mut buffer = ReplyBuffer::with_capacity(4);
        buffer.put_short(*b"STORED\r\n");
        assert_eq!((buffer.as_slice(), buffer.capacity()), (b"STORED\r\n".as_slice(), 256));
        buffer.put_short(*b"END\r\n");
        assert_eq!(buffer.as_slice(), b"STORED\r\nEND\r\n");
        buffer.clear();
        buffer.line("STORED");
        let mark = buffer.len();
        let mut writer = buffer.writer(100);
        writer.put(b"VALUE ");
        writer.number(7);
        writer.number(42);
        writer.number(u64::MAX);
        writer.space(3).copy_from_slice(b"abc");
        let written = writer.written();
        buffer.keep(written);
        assert_eq!(buffer.as_slice(), b"STORED\r\nVALUE 74218446744073709551615abc");
        buffer.truncate(mark);
        assert_eq!(buffer.as_slice(), b"STORED\r\n");
    }
}
