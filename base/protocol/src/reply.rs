//! Where replies are written.

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
        Writer { room: &mut self.bytes[self.length..], written: 0 }
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
        if let Some(room) = self.room.get_mut(self.written..self.written + bytes.len()) {
            room.copy_from_slice(bytes);
            self.written += bytes.len();
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
            self.put(itoa::Buffer::new().format(number).as_bytes());
        }
    }

    /// `length` bytes to fill.
    #[inline(always)]
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        let from = self.written.min(self.room.len());
        let to = (from + length).min(self.room.len());
        self.written = to;
        &mut self.room[from..to]
    }
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
        writer.room(3).copy_from_slice(b"abc");
        let written = writer.written();
        buffer.keep(written);
        assert_eq!(buffer.as_slice(), b"STORED\r\nVALUE 74218446744073709551615abc");
        buffer.truncate(mark);
        assert_eq!(buffer.as_slice(), b"STORED\r\n");
    }
}
