//! Splits the bytes of a sender into lines.

use std::io::{self, Read};

/// The longest line, in bytes.
pub(super) const LINE_MAX: usize = 64 << 20;
/// The buffer of a longer line is freed after its use.
const CAPACITY_MAX: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

/// The buffer of a connection, and the lines in it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// The bytes that were taken as lines, and the end of those that were searched for a line end.
    start: usize,
    searched: usize,
    /// Whether the incoming line is too long, so that its beginning was dropped.
    is_cut: bool,
}

/// A complete line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// A line of over 64 MiB, which was dropped.
    Long,
}

impl Lines {
    /// Whether [`Lines::next`] has a line.
    pub(super) fn has_one(&mut self) -> bool {
        self.end().is_some()
    }

    /// Takes the next line, if it is complete.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        let end = self.end()?;
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = end + 1;
        let is_cut = std::mem::take(&mut self.is_cut);
        Some(if is_cut { Line::Long } else { Line::Whole(&self.buffer[start..end]) })
    }

    fn end(&mut self) -> Option<usize> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map(|at| self.searched + at);
        self.searched = end.unwrap_or(self.buffer.len());
        end
    }

    /// Reads once; returns the number of bytes.
    pub(super) fn fill(&mut self, mut from: impl Read) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.len() > LINE_MAX {
            self.buffer.clear();
            (self.searched, self.is_cut) = (0, true);
        }
        // An incomplete line is not moved: each move would copy all of it.
        if self.buffer.is_empty() {
            self.buffer.shrink_to(CAPACITY_MAX);
        }
        let length = self.buffer.len();
        self.buffer.resize(length + BUFFER, 0);
        let read = from.read(&mut self.buffer[length..]);
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_come() {
        let mut lines = Lines::default();
        assert_eq!(lines.next(), None);
        assert_eq!(lines.fill(&b"a\n\nb"[..]).unwrap(), 4);
        assert_eq!(lines.next(), Some(Line::Whole(b"a")));
        assert!(lines.has_one());
        assert_eq!((lines.next() == Some(Line::Whole(b"")), lines.next()), (true, None));
        lines.fill(&b"c\n"[..]).unwrap();
        assert_eq!((lines.next() == Some(Line::Whole(b"bc")), lines.has_one()), (true, false));
        assert_eq!(lines.fill(&b""[..]).unwrap(), 0);
    }

    #[test]
    fn a_long_line_is_not_moved_at_each_read() {
        let mut lines = Lines::default();
        let (mut moves, mut capacity) = (0, 0);
        for _ in 0..1024 {
            // As much as a socket returns at once.
            lines.fill(&[b'x'; 16 << 10][..]).unwrap();
            assert_eq!(lines.next(), None);
            moves += usize::from(lines.buffer.capacity() != capacity);
            capacity = lines.buffer.capacity();
        }
        lines.fill(&b"\n"[..]).unwrap();
        assert_eq!(lines.next(), Some(Line::Whole(&vec![b'x'; 16 << 20])));
        assert!(moves < 12, "{moves} moves for a line of 16 MiB");
        lines.fill(&b"a\n"[..]).unwrap();
        assert!(lines.buffer.capacity() <= CAPACITY_MAX, "its memory is given back");
    }

    #[test]
    fn of_a_line_that_is_too_long_nothing_is_kept_and_the_next_one_is_read() {
        let mut lines = Lines::default();
        let piece = [b'x'; BUFFER];
        for _ in 0..LINE_MAX / BUFFER + 3 {
            lines.fill(&piece[..]).unwrap();
            assert_eq!(lines.next(), None);
        }
        assert!(lines.buffer.len() < 1 << 20);
        lines.fill(&b"y\nz\n"[..]).unwrap();
        assert_eq!((lines.next() == Some(Line::Long), lines.next()), (true, Some(Line::Whole(b"z"))));
    }
}
