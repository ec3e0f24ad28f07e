//! Command lines: where they end, and what is wrong with them.

use memchr::memchr;

/// A line longer than this that has not ended is not waited for …
const UNFINISHED_MAX: usize = 2048;
/// … unless it asks for many keys; and that one only up to here. memcached has no limit, and buffers what comes.
const UNFINISHED_GET_MAX: usize = 1 << 20;
/// Blanks that may come before such a get.
const BLANKS_MAX: usize = 100;

/// A command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Without its end.
    pub text: &'a [u8],
    /// Bytes with its end: `\r\n`, or a bare `\n`.
    pub length: usize,
}

/// What [`cut`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A line.
    Line(Line<'a>),
    /// It has not ended yet.
    Unfinished,
    /// It is not going to end: the connection is to be closed.
    TooLong,
}

/// Cuts the first line off `input`.
#[inline]
pub fn cut(input: &[u8]) -> Cut<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > UNFINISHED_MAX { long(input) } else { Cut::Unfinished };
    };
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

/// Whether a reply is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noreply {
    /// It is.
    No,
    /// It is not.
    Yes,
}

/// What is wrong with a line, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answer with this line.
    Answer(&'static str),
    /// Answer with this line, unless no reply is wanted, and pass over so many bytes of data.
    Swallow {
        /// The answer.
        answer: &'static str,
        /// Whether it is wanted.
        noreply: Noreply,
        /// The bytes, with their line end.
        bytes: u64,
    },
    /// Say nothing.
    Silent,
    /// Close the connection.
    Close,
}

/// The answer to a line that names no command.
pub(crate) const UNKNOWN: &str = "ERROR";
/// The answer to a line that names a command and is otherwise wrong.
pub(crate) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// The tokens of a line: runs of bytes other than blanks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Tokens { rest: text }
    }

    /// What has not been taken yet.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

/// The last token of a line.
pub(crate) fn last_token(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    let start = memchr::memrchr(b' ', &text[..end]).map_or(0, |blank| blank + 1);
    &text[start..end]
}

/// Whether the last token of a line is `noreply`.
pub(crate) fn noreply(text: &[u8]) -> Noreply {
    if last_token(text) == b"noreply" { Noreply::Yes } else { Noreply::No }
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
    }
}
