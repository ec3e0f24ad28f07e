//! What servers say: lines, and blocks of data behind some of them.

use crate::equal::are_equal;
use memchr::memchr;

/// A reply, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A hit of a classic get.
    Value(Value<'a>),
    /// What a lease-get says of a key that is missing: a token, and the stale value if there is one.
    Lease(Value<'a>),
    End,
    /// VA, with its flags and the value.
    MetaValue {
        line: &'a [u8],
        value: &'a [u8],
    },
    Line(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    pub key: &'a [u8],
    pub flags: u32,
    /// The cas unique, if there is one, or the token of a lease.
    pub number: Option<u64>,
    pub value: &'a [u8],
    /// All of it.
    pub block: &'a [u8],
}

/// What can be read of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    Reply(Reply<'a>, usize),
    /// More has to come: so many bytes in all, as far as is known.
    Unfinished(usize),
    /// A value that is too long to be taken: its line, how long that is with its end, and how much comes behind it.
    TooLong {
        line: &'a [u8],
        taken: usize,
        block: u64,
    },
    /// No server says that.
    Broken,
}

/// A line is no longer.
const LINE_MAX: usize = 4 << 10;
/// What clients are sent has no longer values, as what they store has none …
const VALUE_MAX: u64 = crate::VALUE_MAX as u64;
/// … and servers have no longer ones.
const LENGTH_MAX: u64 = 1 << 40;

/// Reads the first reply.
#[inline]
pub fn read(input: &[u8]) -> Read<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > LINE_MAX { Read::Broken } else { Read::Unfinished(0) };
    };
    let line = match input[..end] {
        [ref line @ .., b'\r'] => line,
        ref line => line,
    };
    let taken = end + 1;
    match line {
        b"END" => Read::Reply(Reply::End, taken),
        [b'V', b'A', b'L', b'U', b'E', b' ', rest @ ..] => value(input, rest, taken, Reply::Value),
        [b'V', b'A', b' ', rest @ ..] => meta_value(input, line, rest, taken),
        [b'L', b'V', b'A', b'L', b'U', b'E', b' ', rest @ ..] => lease(input, rest, taken),
        _ => Read::Reply(Reply::Line(line), taken),
    }
}

/// `<key> <flags> <bytes> [<cas unique>]`
#[inline(always)]
fn value<'a>(input: &'a [u8], rest: &'a [u8], at: usize, of: fn(Value<'a>) -> Reply<'a>) -> Read<'a> {
    let Some(blank) = memchr(b' ', rest) else {
        return Read::Broken;
    };
    let (key, mut numbers) = rest.split_at(blank);
    let (Some(flags), Some(length)) = (number(&mut numbers), number(&mut numbers)) else {
        return Read::Broken;
    };
    let unique = number(&mut numbers);
    let Some((value, taken)) = block(input, at, length) else {
        return unfinished(input, at, length);
    };
    let Ok(value) = value else { return Read::Broken };
    let block = &input[..taken];
    Read::Reply(of(Value { key, flags: flags as u32, number: unique, value, block }), taken)
}

/// `<key> <token> <flags> <bytes>`
fn lease<'a>(input: &'a [u8], rest: &'a [u8], at: usize) -> Read<'a> {
    let Some(blank) = memchr(b' ', rest) else {
        return Read::Broken;
    };
    let (key, mut numbers) = rest.split_at(blank);
    let (Some(token), Some(flags), Some(length)) =
        (number(&mut numbers), number(&mut numbers), number(&mut numbers))
    else {
        return Read::Broken;
    };
    let Some((value, taken)) = block(input, at, length) else {
        return unfinished(input, at, length);
    };
    let Ok(value) = value else { return Read::Broken };
    let (flags, block) = (flags as u32, &input[..taken]);
    Read::Reply(Reply::Lease(Value { key, flags, number: Some(token), value, block }), taken)
}

/// `<bytes> <flag>*`
fn meta_value<'a>(input: &'a [u8], line: &'a [u8], rest: &'a [u8], at: usize) -> Read<'a> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(length) = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok()) else {
        return Read::Broken;
    };
    match block(input, at, length) {
        Some((Ok(value), taken)) => Read::Reply(Reply::MetaValue { line, value }, taken),
        Some((Err(NoLineEnd), _)) => Read::Broken,
        None => unfinished(input, at, length),
    }
}

/// The rest of a block of data has to come, unless no server has so long a value. Its line is in front of `at`.
#[cold]
fn unfinished(input: &[u8], at: usize, length: u64) -> Read<'_> {
    let block = length.saturating_add(LINE_END.len() as u64);
    if length <= VALUE_MAX {
        Read::Unfinished(at + block as usize)
    } else if length <= LENGTH_MAX {
        Read::TooLong { line: input[..at].trim_ascii_end(), taken: at, block }
    } else {
        Read::Broken
    }
}

const LINE_END: &[u8] = b"\r\n";

/// The first reply, if it is an item with this key that has arrived altogether. What most replies are is read faster so.
#[inline(always)]
pub fn value_of<'a>(input: &'a [u8], key: &[u8]) -> Option<(Value<'a>, usize)> {
    let named = input.strip_prefix(b"VALUE ")?;
    let (name, mut rest) = named.split_at_checked(key.len())?;
    if !are_equal(name, key) {
        return None;
    }
    let (flags, length) = (number(&mut rest)?, number(&mut rest)?);
    let unique = number(&mut rest);
    rest = rest.strip_prefix(LINE_END)?;
    let (value, taken) = block(input, input.len() - rest.len(), length)?;
    let (value, block) = (value.ok()?, &input[..taken]);
    Some((Value { key: name, flags: flags as u32, number: unique, value, block }, taken))
}

/// A block of data does not end as it should.
struct NoLineEnd;

/// The block of data at `at`, and where it ends.
#[inline(always)]
fn block(input: &[u8], at: usize, length: u64) -> Option<(Result<&[u8], NoLineEnd>, usize)> {
    let length = usize::try_from(length).ok()?;
    let rest = input.get(at..)?;
    if rest.len() < length.checked_add(2)? {
        return None;
    }
    let (value, end) = rest.split_at(length);
    let value = if end.starts_with(b"\r\n") { Ok(value) } else { Err(NoLineEnd) };
    Some((value, at + length + 2))
}

/// A number with no more digits than this fits.
const SAFE_DIGITS: usize = 19;

/// Takes a blank and a number off the text.
#[inline(always)]
fn number(text: &mut &[u8]) -> Option<u64> {
    let [b' ', rest @ ..] = *text else {
        return None;
    };
    let (mut number, mut digits) = (0_u64, 0);
    while let Some(digit) = rest.get(digits).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        digits += 1;
    }
    let (text_of, behind) = rest.split_at(digits);
    if digits > SAFE_DIGITS {
        number = std::str::from_utf8(text_of).ok()?.parse().ok()?;
    }
    *text = behind;
    (digits > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_cut_off_is_waited_for() {
        for whole in [
            b"VALUE key 5 3\r\nabc\r\n".as_slice(),
            b"VALUE key 5 3 77\r\nabc\r\n",
            b"LVALUE key 77 5 0\r\n\r\n",
            b"VA 3 f5 c77\r\n\r\n.\r\n",
            b"VA 0\r\n\r\n",
            b"END\r\n",
            b"STORED\r\n",
            b"HD kkey\r\n",
            b"SERVER_ERROR out of memory\r\n",
        ] {
            for length in 0..whole.len() {
                let Read::Unfinished(wanted) = read(&whole[..length]) else {
                    panic!("{:?}", whole[..length].escape_ascii());
                };
                assert!(wanted == 0 || wanted == whole.len(), "{wanted} of {length}");
                assert_eq!(value_of(&whole[..length], b"key"), None);
            }
            let more = [whole, b"END\r\n"].concat();
            let Read::Reply(reply, taken) = read(&more) else { panic!("{:?}", whole.escape_ascii()) };
            assert_eq!(taken, whole.len(), "{reply:?}");
        }
    }

    #[test]
    fn parts_are_found_where_they_are() {
        let input = b"VALUE key 5 3 77\r\nabc\r\n";
        let expected = Value { key: b"key", flags: 5, number: Some(77), value: b"abc", block: input };
        assert_eq!(read(input), Read::Reply(Reply::Value(expected), input.len()));
        assert_eq!(value_of(input, b"key"), Some((expected, input.len())));
        assert_eq!(
            (value_of(input, b"ke"), value_of(input, b"key2"), value_of(input, b"kez")),
            (None, None, None)
        );
        let input = b"VALUE key 5 3\r\nabc\r\nEND\r\n";
        let expected = Value { number: None, block: &input[..20], ..expected };
        assert_eq!(value_of(input, b"key"), Some((expected, 20)));
        assert_eq!(value_of(b"VALUE key 5 3\r\nabcd\r\n", b"key"), None);
        let input = b"LVALUE key 77 5 2\r\nab\r\n";
        let expected = Value { key: b"key", flags: 5, number: Some(77), value: b"ab", block: input };
        assert_eq!(read(input), Read::Reply(Reply::Lease(expected), input.len()));
        let input = b"VA 2 f5\r\nab\r\n";
        let expected = Reply::MetaValue { line: b"VA 2 f5", value: b"ab" };
        assert_eq!(read(input), Read::Reply(expected, input.len()));
    }

    #[test]
    fn a_value_that_is_too_long_is_known_by_its_line() {
        for (line, taken) in
            [("VALUE key 5 67108865", 22), ("VA 67108865 f5", 16), ("LVALUE k 1 0 67108865", 23)]
        {
            let input = format!("{line}\r\nabc");
            let line = line.as_bytes();
            assert_eq!(read(input.as_bytes()), Read::TooLong { line, taken, block: (64 << 20) + 3 });
        }
        assert_eq!(read(b"VALUE key 5 67108864\r\n"), Read::Unfinished(22 + (64 << 20) + 2));
    }

    #[test]
    fn what_no_server_says_is_not_waited_for() {
        for input in [
            b"VALUE key\r\n".as_slice(),
            b"VALUE key x 3\r\n",
            b"VALUE key 0 3\r\nabcd\r\n",
            b"VALUE key 0 99999999999999999999999\r\n",
            b"VALUE key 0 9999999999999\r\n",
            b"VA x\r\n",
            b"VA 99999999999999\r\n",
            b"LVALUE key 0 0\r\n",
        ] {
            assert_eq!(read(input), Read::Broken, "{:?}", input.escape_ascii());
        }
        assert_eq!(read(&[b'x'; LINE_MAX + 1]), Read::Broken);
    }
}
