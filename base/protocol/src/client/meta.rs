//! Lines of meta replies: a code, and flags behind it.

use super::words::words;
use crate::meta::encode_key;
use crate::number::number_from;
use crate::word::{reply, verb};

/// The line of a meta reply, split into its code and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaReply<'a> {
    /// `HD`, `VA`, `EN`, `NF`, …
    pub code: &'a [u8],
    flags: &'a [u8],
}

impl<'a> MetaReply<'a> {
    /// Splits a line without its end. The length of a value is no flag; the words behind `ME` are none either.
    #[inline]
    pub fn of(line: &'a [u8]) -> Self {
        let (code, rest) = first_word(line);
        let flags = if code == reply::META_VALUE { first_word(rest).1 } else { rest };
        MetaReply { code, flags }
    }

    /// The flags in order, each with the token behind its letter.
    #[inline]
    pub fn flags(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        words(self.flags).filter_map(|flag| flag.split_first().map(|(letter, token)| (*letter, token)))
    }

    /// The token of the first flag with this letter; it may be empty.
    pub fn flag(self, letter: u8) -> Option<&'a [u8]> {
        self.flags().find(|(other, _)| *other == letter).map(|(_, token)| token)
    }

    /// Whether there is a flag with this letter.
    pub fn has(self, letter: u8) -> bool {
        self.flag(letter).is_some()
    }

    /// The number of the flag with this letter: `None` without the flag, or if its token is no number of 64 bits.
    pub fn number(self, letter: u8) -> Option<u64> {
        self.flag(letter).and_then(number_from)
    }
}

/// The first word of a text, and the rest.
#[inline]
fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    text.split_at(end)
}

/// Whether a meta reply can be the one to this request: it repeats the key and the opaque that the request wants, and
/// has a value if the request wants one. `request` and `line` have no line ends. A miss may repeat nothing, as those of
/// earlier versions of memcached do.
pub fn belongs(request: &[u8], line: &[u8], has_value: bool) -> bool {
    let mut wanted = words(request);
    let (Some(command), Some(key)) = (wanted.next(), wanted.next()) else { return false };
    let wanted = |letter: u8| words(request).skip(2).find(|flag| flag[0] == letter);
    let answer = MetaReply::of(line);
    let misses = [reply::META_MISS, reply::META_NOT_FOUND, reply::META_NOT_STORED, reply::META_EXISTS];
    let is_miss = misses.contains(&answer.code);
    if command == verb::META_DEBUG {
        return is_miss || words(line).nth(1).is_some_and(|word| is_key(word, key));
    }
    let is_same = |letter: u8| match (wanted(letter), answer.flag(letter)) {
        (Some(_), None) => is_miss,
        (None, Some(_)) => false,
        (None, None) => true,
        (Some(_), Some(token)) if letter == b'k' => is_key(token, key),
        (Some(flag), Some(token)) => &flag[1..] == token,
    };
    // Servers accept v of other commands too, and return no value.
    let returns_values = [verb::META_GET, verb::META_ARITHMETIC].contains(&command);
    let wants_value = returns_values && wanted(b'v').is_some();
    is_same(b'k') && is_same(b'O') && (is_miss || wants_value == has_value)
}

/// Whether two texts are the same key: either may be in base64.
fn is_key(one: &[u8], other: &[u8]) -> bool {
    let (mut first, mut second) = ([0; 336], [0; 336]);
    one == other || encode_key(one, &mut first) == other || one == encode_key(other, &mut second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_by_their_letter() {
        let line = MetaReply::of(b"VA 5 f30 c18446744073709551615 W kf7 O");
        assert_eq!(line.code, b"VA");
        assert_eq!((line.number(b'f'), line.number(b'c')), (Some(30), Some(u64::MAX)));
        assert_eq!(
            (line.flag(b'k'), line.flag(b'O'), line.number(b'O')),
            (Some(&b"f7"[..]), Some(&b""[..]), None)
        );
        assert!(line.has(b'W') && !line.has(b'X') && !line.has(b'5'), "the length is no flag");
        assert_eq!(MetaReply::of(b"HD f5").number(b'f'), Some(5));
        assert_eq!(MetaReply::of(b"HD c18446744073709551616").number(b'c'), None);
        for line in ["", "HD", "VA", "VA 5", "EN "] {
            assert_eq!(MetaReply::of(line.as_bytes()).flags().count(), 0, "{line:?}");
        }
        assert_eq!((MetaReply::of(b"").code, MetaReply::of(b"HDx").code), (&b""[..], &b"HDx"[..]));
    }

    #[test]
    fn a_reply_belongs_to_the_request_whose_key_opaque_and_value_it_has() {
        for (request, line, has_value, does) in [
            (b"mg a v k O1".as_slice(), b"VA 3 ka O1".as_slice(), true, true),
            (b"mg a v k O1", b"VA 3 kb O1", true, false),
            (b"mg a v k O1", b"VA 3 ka O2", true, false),
            (b"mg a v k O1", b"VA 3 ka", true, false),
            (b"mg a v k O1", b"EN", false, true),
            (b"mg a v k O1", b"EN kb O1", false, false),
            (b"mg a v", b"HD", false, false),
            (b"mg a v", b"VA 1 O7", true, false),
            (b"mg a s", b"VA 1 s1", true, false),
            (b"mg a s", b"HD s1", false, true),
            (b"mg YQ== b k v", b"VA 1 ka", true, true),
            (b"mg a k v", b"VA 1 kYQ== b", true, true),
            (b"ms a 1 k O1", b"HD ka O1", false, true),
            (b"ms a 1 O1", b"HD O2", false, false),
            (b"ms a 1 MR", b"NS", false, true),
            (b"md a O1", b"NF O2", false, false),
            (b"md a v k", b"HD ka", false, true),
            (b"md a v", b"VA 1", true, false),
            (b"ma a v", b"VA 1", true, true),
            (b"ma a", b"HD", false, true),
            (b"me a", b"ME a exp=-1", false, true),
            (b"me a", b"ME b exp=-1", false, false),
            (b"me a", b"EN", false, true),
        ] {
            let both = (request.escape_ascii(), line.escape_ascii());
            assert_eq!(belongs(request, line, has_value), does, "{} {}", both.0, both.1);
        }
    }
}
