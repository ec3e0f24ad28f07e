//! Command lines: where they end, and how malformed ones are answered.

use memchr::memchr;

/// Words of eight bytes that are searched inline before `memchr` is called: most keys and most lines end within them,
/// and the call alone costs as much.
const NEAR_WORDS: usize = 6;

/// The index of the first `byte`, or the length of `bytes` if there is none.
#[inline(always)]
pub(crate) fn find(byte: u8, bytes: &[u8]) -> usize {
    let mut at = 0;
    for word in bytes.as_chunks::<8>().0.iter().take(NEAR_WORDS) {
        let difference = u64::from_le_bytes(*word) ^ (LOW * u64::from(byte));
        // Bits above the first match may be wrong; the first match never is.
        let matches = difference.wrapping_sub(LOW) & !difference & HIGH;
        if matches != 0 {
            return (at + matches.trailing_zeros() as usize / 8).min(bytes.len());
        }
        at += 8;
    }
    find_far(byte, bytes, at)
}

#[inline(never)]
fn find_far(byte: u8, bytes: &[u8], from: usize) -> usize {
    memchr(byte, &bytes[from..]).map_or(bytes.len(), |at| from + at)
}
/// A longer line that has not ended is an error …
const UNFINISHED_MAX: usize = 2048;
/// … unless it is a get of many keys, which may have this length. memcached has no limit here, and buffers all input.
const UNFINISHED_GET_MAX: usize = 1 << 20;
/// Blanks that may precede such a get.
const BLANKS_MAX: usize = 100;

/// A command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its end.
    pub text: &'a [u8],
    /// Length with its end (`\r\n`, or a bare `\n`), in bytes.
    pub length: usize,
}

/// The result of [`cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A complete line.
    Line(Line<'a>),
    /// The line has not ended yet.
    Unfinished,
    /// The line is too long: the connection has to be closed.
    TooLong,
}

/// Takes the first line off `input`.
#[inline]
pub fn cut(input: &[u8]) -> Cut<'_> {
    let end = find(b'\n', input);
    if end == input.len() {
        return if input.len() > UNFINISHED_MAX { long(input) } else { Cut::Unfinished };
    }
    let text = match input[..end] {
        [ref text @ .., b'\r'] => text,
        ref text => text,
    };
    Cut::Line(Line { text, length: end + 1 })
}

fn long(input: &[u8]) -> Cut<'_> {
    let blanks = input.iter().take_while(|byte| **byte == b' ').count();
    let rest = &input[blanks..];
    let is_get = rest.starts_with(b"get ") || rest.starts_with(b"gets ");
    if blanks <= BLANKS_MAX && is_get && input.len() <= UNFINISHED_GET_MAX {
        Cut::Unfinished
    } else {
        Cut::TooLong
    }
}

/// Whether the client wants no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noreply {
    /// The reply is sent.
    No,
    /// The reply is suppressed.
    Yes,
}

/// How to answer a malformed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answer with this line.
    Answer(&'static str),
    /// Answer with this line, unless the client wants no reply, and skip the data block.
    Swallow {
        /// The answer.
        answer: &'static str,
        /// Whether the client wants no reply.
        noreply: Noreply,
        /// Length of the data block with its line end, in bytes.
        bytes: u64,
    },
    /// Send no reply.
    Silent,
    /// Close the connection.
    Close,
}

/// The reply to a line that names no command.
pub const UNKNOWN: &str = "ERROR";
/// The reply to a malformed line of a known command.
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// The tokens of a line: runs of bytes other than blanks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    text: &'a [u8],
    from: usize,
    /// The blanks among the eight bytes at `at` that have not been passed: the top bit of each byte.
    blanks: u64,
    at: usize,
}

/// The top bit of every byte of `word` that is `byte`.
#[inline(always)]
fn matches(word: [u8; 8], byte: u8) -> u64 {
    let difference = u64::from_le_bytes(word) ^ (LOW * u64::from(byte));
    // Exact, unlike the shorter trick: no byte is reported because of its neighbour.
    !(((difference & !HIGH) + !HIGH) | difference) & HIGH
}

pub(crate) const LOW: u64 = 0x0101_0101_0101_0101;
pub(crate) const HIGH: u64 = 0x8080_8080_8080_8080;

impl<'a> Tokens<'a> {
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Tokens { text, from: 0, blanks: Self::blanks_at(text, 0), at: 0 }
    }

    /// The text after the last token taken.
    #[inline]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.text.get(self.from..).unwrap_or_default()
    }

    /// Length from the start of `last`, the token taken last, to the end of the text.
    #[inline]
    pub(crate) fn bytes_from(&self, last: &[u8]) -> usize {
        // The blank after the token, or the end, was passed too.
        self.text.len() + 1 + last.len() - self.from
    }

    /// The blanks among the eight bytes at `at`. The end of the text counts as one.
    #[inline(always)]
    fn blanks_at(text: &[u8], at: usize) -> u64 {
        match text.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) => matches(*word, b' '),
            None => Self::blanks_at_end(text, at),
        }
    }

    #[inline(never)]
    fn blanks_at_end(text: &[u8], at: usize) -> u64 {
        let mut word = [b' '; 8];
        for (padded, byte) in word.iter_mut().zip(text.get(at..).unwrap_or_default()) {
            *padded = *byte;
        }
        matches(word, b' ')
    }

    /// The index of the next blank.
    #[inline(always)]
    fn next_blank(&mut self) -> usize {
        while self.blanks == 0 {
            self.at += 8;
            self.blanks = Self::blanks_at(self.text, self.at);
        }
        let blank = self.at + self.blanks.trailing_zeros() as usize / 8;
        self.blanks &= self.blanks - 1;
        blank.min(self.text.len())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        while self.from < self.text.len() {
            let (start, end) = (self.from, self.next_blank());
            self.from = end + 1;
            if end > start {
                return self.text.get(start..end);
            }
        }
        None
    }
}

/// The last token of a line.
pub(crate) fn last_token(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    let start = memchr::memrchr(b' ', &text[..end]).map_or(0, |blank| blank + 1);
    &text[start..end]
}

/// Whether the last token of a line is `noreply`.
#[inline]
pub fn noreply(text: &[u8]) -> Noreply {
    if !text.is_empty() && last_token(text) == b"noreply" { Noreply::Yes } else { Noreply::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_or_without_a_carriage_return() {
        assert_eq!(cut(b"get a\r\nrest"), Cut::Line(Line { text: b"get a", length: 7 }));
        assert_eq!(cut(b"get a\nrest"), Cut::Line(Line { text: b"get a", length: 6 }));
        assert_eq!(cut(b"\r\n"), Cut::Line(Line { text: b"", length: 2 }));
        assert_eq!(cut(b"get a\r"), Cut::Unfinished);
        assert_eq!(cut(b""), Cut::Unfinished);
    }

    #[test]
    fn the_first_of_several_is_found_wherever_it_is() {
        for length in 0..80 {
            for at in 0..length {
                let mut bytes = vec![b'!'; length];
                bytes[at..].fill(b' ');
                assert_eq!(find(b' ', &bytes), at, "{length}");
                assert_eq!(find(b'x', &bytes), length);
            }
        }
    }

    #[test]
    fn only_a_get_may_be_long() {
        let long = |start: &[u8], length: usize| [start, &vec![b'x'; length]].concat();
        assert_eq!(cut(&long(b"set ", 2044)), Cut::Unfinished);
        assert_eq!(cut(&long(b"set ", 2045)), Cut::TooLong);
        assert_eq!(cut(&long(b"get ", 200_000)), Cut::Unfinished);
        assert_eq!(cut(&long(&[b' '; 101], 3000)), Cut::TooLong);
        assert_eq!(cut(&long(b"gets ", 5 << 20)), Cut::TooLong);
    }

    #[test]
    fn tokens_are_separated_by_any_number_of_blanks() {
        assert_eq!(Tokens::of(b"  a  bc d ").collect::<Vec<_>>(), [b"a".as_slice(), b"bc", b"d"]);
        assert_eq!(last_token(b"a bc  "), b"bc");
        assert_eq!(last_token(b""), b"");
        assert_eq!(noreply(b"set a noreply"), Noreply::Yes);
        for text in [
            "",
            " ",
            "a",
            "12345678",
            "1234567 ",
            "12345678 ",
            " 2345678",
            "1234567 9",
            "a  b        c   d",
            "        x",
        ] {
            let expected: Vec<_> = text.split(' ').filter(|token| !token.is_empty()).collect();
            let tokens: Vec<_> = Tokens::of(text.as_bytes()).collect();
            assert!(tokens.iter().copied().eq(expected.iter().map(|token| token.as_bytes())), "{text:?}");
            let mut rest = Tokens::of(text.as_bytes());
            rest.next();
            assert!(rest.eq(expected.iter().skip(1).map(|token| token.as_bytes())), "{text:?}");
        }
    }
}
