//! Text replies: lines, and data blocks behind some of them.

use super::equal::are_equal;
use crate::line::find;
use crate::word::reply;
use memchr::memchr;

/// A text reply, or a part of one: a get is answered by several of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `VALUE`: a hit of a classic get.
    Value(Value<'a>),
    /// `LVALUE`: the reply of lease-get about a missing key, with a token and the stale value if there is one.
    Lease(Value<'a>),
    /// `END`: the end of the reply to a get, or of a list.
    End,
    /// `VA`: the line of a meta reply, and its value.
    MetaValue {
        /// The line without its end.
        line: &'a [u8],
        /// The data block without its line end.
        value: &'a [u8],
    },
    /// Any other line, without its end.
    Line(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// The first line, without its end: for messages.
    pub fn line(&self) -> &'a [u8] {
        match *self {
            Reply::Value(value) | Reply::Lease(value) => {
                let end = find(b'\n', value.block);
                value.block[..end].strip_suffix(b"\r").unwrap_or(value.block)
            }
            Reply::End => reply::END,
            Reply::MetaValue { line, .. } | Reply::Line(line) => line,
        }
    }
}

/// An item in a classic reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The client's flags, which have 64 bits in some servers.
    pub flags: u64,
    /// The cas unique if the reply has one, or the token of a lease.
    pub number: Option<u64>,
    /// The data block without its line end.
    pub value: &'a [u8],
    /// All bytes of the reply.
    pub block: &'a [u8],
}

/// The result of [`read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The first reply, and its length in bytes.
    Reply(Reply<'a>, usize),
    /// The reply has not arrived altogether. It has this many bytes; 0 if its line has not ended.
    Unfinished(usize),
    /// A value that is longer than the caller takes, of which the line has arrived.
    TooLong {
        /// The line without its end.
        line: &'a [u8],
        /// Length of the line with its end, in bytes.
        taken: usize,
        /// Length of the data block with its line end, in bytes.
        block: u64,
    },
    /// No server sends this: requests and replies do not match any more, and the connection has to be closed.
    Broken,
}

/// The longest line of a reply, in bytes.
const LINE_MAX: usize = 4 << 10;
/// No server has a longer value, in bytes.
const LENGTH_MAX: u64 = 1 << 40;

/// The end of each line and of each data block of a reply.
const LINE_END: &[u8] = b"\r\n";

/// Reads the first reply. Values longer than `value_max` bytes are [`Read::TooLong`].
///
/// A line may end with a bare line feed. A line of a value with anything behind its numbers is broken, and so is a data
/// block without a line end: its length was not the one of the data.
#[inline]
pub fn read(input: &[u8], value_max: u32) -> Read<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > LINE_MAX { Read::Broken } else { Read::Unfinished(0) };
    };
    let line = match input[..end] {
        [ref line @ .., b'\r'] => line,
        ref line => line,
    };
    let block = Block { input, line, at: end + 1, value_max };
    if line == reply::END {
        return Read::Reply(Reply::End, end + 1);
    }
    // Most other lines differ in the first byte.
    match line.split_first() {
        Some((b'V', _)) => {
            if let Some(rest) = line.strip_prefix(reply::spaced::VALUE) {
                return block.value(rest);
            }
            if let Some(rest) = line.strip_prefix(reply::spaced::META_VALUE) {
                return block.meta_value(rest);
            }
        }
        Some((b'L', _)) => {
            if let Some(rest) = line.strip_prefix(reply::spaced::LVALUE) {
                return block.lease(rest);
            }
        }
        _ => {}
    }
    Read::Reply(Reply::Line(line), end + 1)
}

/// A reply with a data block, which begins at `at`.
#[derive(Clone, Copy)]
struct Block<'a> {
    input: &'a [u8],
    /// The line in front of it, without its end.
    line: &'a [u8],
    at: usize,
    value_max: u32,
}

impl<'a> Block<'a> {
    /// `<key> <flags> <bytes> [<cas unique>]`
    #[inline(never)]
    fn value(self, rest: &'a [u8]) -> Read<'a> {
        let Some((key, mut numbers)) = key(rest) else { return Read::Broken };
        let (Some(flags), Some(length)) = (number(&mut numbers), number(&mut numbers)) else {
            return Read::Broken;
        };
        let unique = number(&mut numbers);
        if !numbers.is_empty() {
            return Read::Broken;
        }
        self.reply(length, |value, block| Reply::Value(Value { key, flags, number: unique, value, block }))
    }

    /// `<key> <token> <flags> <bytes>`
    #[inline(never)]
    fn lease(self, rest: &'a [u8]) -> Read<'a> {
        let Some((key, mut numbers)) = key(rest) else { return Read::Broken };
        let (Some(token), Some(flags), Some(length)) =
            (number(&mut numbers), number(&mut numbers), number(&mut numbers))
        else {
            return Read::Broken;
        };
        if !numbers.is_empty() {
            return Read::Broken;
        }
        self.reply(length, |value, block| {
            Reply::Lease(Value { key, flags, number: Some(token), value, block })
        })
    }

    /// `<bytes> <flag>*`
    #[inline(never)]
    fn meta_value(self, rest: &'a [u8]) -> Read<'a> {
        match digits(rest) {
            Some((length, b"" | [b' ', ..])) => {
                self.reply(length, |value, _| Reply::MetaValue { line: self.line, value })
            }
            _ => Read::Broken,
        }
    }

    /// The reply once its data block has arrived.
    #[inline(always)]
    fn reply(self, length: u64, of: impl FnOnce(&'a [u8], &'a [u8]) -> Reply<'a>) -> Read<'a> {
        let Some((value, end)) =
            block(&self.input[self.at..], length).filter(|(_, end)| end.len() >= LINE_END.len())
        else {
            return self.unfinished(length);
        };
        let Some(rest) = end.strip_prefix(LINE_END) else { return Read::Broken };
        let taken = self.input.len() - rest.len();
        Read::Reply(of(value, &self.input[..taken]), taken)
    }

    /// The rest of the data block has to arrive, unless no server has so long a value.
    #[cold]
    fn unfinished(self, length: u64) -> Read<'a> {
        let block = length.saturating_add(LINE_END.len() as u64);
        if length <= u64::from(self.value_max) {
            Read::Unfinished(self.at + block as usize)
        } else if length <= LENGTH_MAX {
            Read::TooLong { line: self.line, taken: self.at, block }
        } else {
            Read::Broken
        }
    }
}

/// The key that a text begins with, and what follows it.
#[inline(always)]
fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = find(b' ', text);
    (blank < text.len()).then(|| text.split_at(blank))
}

/// The first reply, if it is a `VALUE` of this key that has arrived altogether: a faster way to read what most replies
/// are. Everything else is left to [`read`], which says the same of such a reply.
#[inline(always)]
pub fn value_of<'a>(input: &'a [u8], key: &[u8]) -> Option<(Value<'a>, usize)> {
    let named = input.strip_prefix(reply::spaced::VALUE)?;
    let (name, mut rest) = named.split_at_checked(key.len())?;
    if !are_equal(name, key) {
        return None;
    }
    let (flags, length) = (number(&mut rest)?, number(&mut rest)?);
    let unique = number(&mut rest);
    let (value, end) = block(rest.strip_prefix(LINE_END)?, length)?;
    let taken = input.len() - end.strip_prefix(LINE_END)?.len();
    let block = &input[..taken];
    Some((Value { key: name, flags, number: unique, value, block }, taken))
}

/// A hit of `mg` whose flags were `f`, perhaps `c`, and `O`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaHit<'a> {
    /// The client's flags.
    pub flags: u64,
    /// The cas unique, if the reply has one.
    pub unique: Option<u64>,
    /// The number in the opaque.
    pub opaque: u32,
    /// The data block without its line end.
    pub value: &'a [u8],
}

/// The first reply and its length in bytes, if it is `VA <bytes> f<flags> [c<cas unique>] O<opaque>` with a number as its
/// opaque, and has arrived altogether: a faster way to read what most replies of `mg` are. Everything else is left to
/// [`read`].
#[inline]
pub fn meta_hit(input: &[u8]) -> Option<(MetaHit<'_>, usize)> {
    let (length, rest) = digits(input.strip_prefix(reply::spaced::META_VALUE)?)?;
    let (flags, rest) = digits(rest.strip_prefix(b" f")?)?;
    let (unique, rest) = match rest.strip_prefix(b" c") {
        Some(rest) => digits(rest).map(|(unique, rest)| (Some(unique), rest))?,
        None => (None, rest),
    };
    let (opaque, rest) = digits(rest.strip_prefix(b" O")?)?;
    let (value, rest) = block(rest.strip_prefix(LINE_END)?, length)?;
    let taken = input.len() - rest.strip_prefix(LINE_END)?.len();
    let hit = MetaHit { flags, unique, opaque: u32::try_from(opaque).ok()?, value };
    Some((hit, taken))
}

/// The data block that a text begins with, and what follows it.
#[inline(always)]
fn block(text: &[u8], length: u64) -> Option<(&[u8], &[u8])> {
    text.split_at_checked(usize::try_from(length).ok()?)
}

/// A number with no more digits than this fits.
const SAFE_DIGITS: usize = 19;

/// Takes a blank and a number off the text.
#[inline(always)]
fn number(text: &mut &[u8]) -> Option<u64> {
    let [b' ', rest @ ..] = *text else {
        return None;
    };
    let (number, behind) = digits(rest)?;
    *text = behind;
    Some(number)
}

/// The number of 64 bits that a text begins with, and what follows it.
#[inline(always)]
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut count) = (0_u64, 0);
    while let Some(digit) = text.get(count).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    let (digits, behind) = text.split_at(count);
    if count > SAFE_DIGITS {
        number = crate::number::digits(digits)?;
    }
    (count > 0).then_some((number, behind))
}

/// A line has more bytes than its reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

/// Takes the first line of at most `most` bytes off a reply to a command about the server, such as a list of keys or a
/// log: some of their lines end with a bare line feed. Returns the line without its end, and its length with it; `None`
/// if the line has not ended.
///
/// # Errors
/// If the line is longer.
pub fn line(input: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, LineTooLong> {
    match memchr(b'\n', input) {
        Some(end) if end < most => {
            Ok(Some((input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]), end + 1)))
        }
        None if input.len() < most => Ok(None),
        _ => Err(LineTooLong),
    }
}

#[cfg(test)]
mod tests;
