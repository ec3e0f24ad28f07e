//! Where replies are written.

/// Where replies go: a buffer of bytes, in which long values are inserted by reference.
pub trait Replies {
    /// A long value.
    type Pin;
    /// The bytes.
    fn buffer(&mut self) -> &mut ReplyBuffer;
    /// Inserts a long value after the bytes written so far.
    fn pin(&mut self, value: Self::Pin);
    /// Takes back all that was written since the buffer had `length` bytes, long values included. Something was written before each
    /// of them.
    fn take_back(&mut self, length: usize);
}

/// Bytes of replies, in memory that is used again and again. It grows when it must and is never cleared by writing zeroes.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl ReplyBuffer {
    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        ReplyBuffer { bytes: vec![0; capacity], length: 0 }
    }

    /// How many bytes were written.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many bytes fit without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// What was written.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Takes back everything after the first `length` bytes.
    #[inline(always)]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Room for up to `most` bytes, to be written through the [`Writer`] and kept by [`ReplyBuffer::keep`].
    #[inline(always)]
    pub fn writer(&mut self, most: usize) -> Writer<'_> {
        if self.bytes.len() - self.length < most {
            self.grow(most);
        }
        Writer { room: self.bytes.get_mut(self.length..).unwrap_or_default(), written: 0 }
    }

    /// Keeps `written` bytes of those just written.
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

    /// Appends a line and its end.
    pub fn line(&mut self, text: &str) {
        self.put(text.as_bytes());
        self.put(b"\r\n");
    }

    /// Appends a number in decimal.
    pub fn number(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Writes into the room that a [`ReplyBuffer`] has made. What does not fit is left out: the caller has asked for enough.
#[derive(Debug)]
pub struct Writer<'a> {
    room: &'a mut [u8],
    written: usize,
}

impl Writer<'_> {
    /// How much was written.
    #[inline(always)]
    pub fn written(&self) -> usize {
        self.written
    }

    /// Writes `bytes`.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        let room = self.room(bytes.len());
        if room.len() == bytes.len() {
            room.copy_from_slice(bytes);
        }
    }

    /// Writes a key: as [`Writer::put`], without a call for the usual lengths.
    #[inline(always)]
    pub fn key(&mut self, key: &[u8]) {
        let room = self.room(key.len());
        if !copied_by_ends::<8>(room, key) && !copied_by_ends::<16>(room, key) {
            let length = room.len().min(key.len());
            room[..length].copy_from_slice(&key[..length]);
        }
    }

    /// Writes a number in decimal.
    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        if number < 10 {
            self.put(&[b'0' + number as u8]);
        } else if number < 100 {
            self.put(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
        } else {
            // The buffer is out here, so that the writer itself stays in registers.
            let mut buffer = [0; DIGITS_MAX];
            let length = format(number, &mut buffer);
            self.put(&buffer[..length.min(DIGITS_MAX)]);
        }
    }

    /// Writes ` <flags> <length>` and a line end at one go, if the flags have one digit and the length at most three: most
    /// VALUE lines end like that. False if nothing was written.
    #[inline(always)]
    pub fn short_numbers(&mut self, flags: u32, length: usize) -> bool {
        let Some(room) = self.room.get_mut(self.written..).and_then(|rest| rest.first_chunk_mut::<8>())
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
        *room = (head | (digits | end << 24) >> (leading * 8) << 24).to_le_bytes();
        self.written += 8 - leading;
        true
    }

    /// `length` bytes to fill, or none if there are not so many left.
    #[inline(always)]
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        match self.room.get_mut(self.written..).and_then(|rest| rest.get_mut(..length)) {
            Some(room) => {
                self.written += length;
                room
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

/// Copies the first and the last `N` bytes, if these are all there are; they may overlap.
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
    fn what_is_written_is_kept_and_can_be_taken_back() {
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
            let mut writer = Writer { room: &mut other, written: 0 };
            assert!(writer.short_numbers(flags, length));
            assert_eq!(&writer.room[..writer.written], text.as_bytes());
        }
        for (flags, length, room) in [(10, 1, 9), (0, 1000, 9), (0, 1, 7)] {
            let mut other = [0; 9];
            let mut writer = Writer { room: &mut other[..room], written: 0 };
            assert!(!writer.short_numbers(flags, length) && writer.written == 0);
        }
        for length in [0, 1, 7, 8, 9, 16, 17, 32, 33] {
            let key = &b"0123456789abcdefghijklmnopqrstuvwxyz"[..length];
            let mut other = [0; 40];
            let mut writer = Writer { room: &mut other[..length], written: 0 };
            writer.key(key);
            assert_eq!((writer.written(), &other[..length]), (length, key));
        }
        writer.room(3).copy_from_slice(b"abc");
        let written = writer.written();
        buffer.keep(written);
        assert_eq!(buffer.as_slice(), b"STORED\r\nVALUE 74218446744073709551615abc");
        buffer.truncate(mark);
        assert_eq!(buffer.as_slice(), b"STORED\r\n");
    }
}
