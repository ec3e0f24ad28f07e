//! The two forms that most requests have, read in one pass: `get <key>` and `set <key> <flags> <exptime> <bytes> [noreply]`, with one blank
//! between words and none elsewhere, short numbers without a sign, and `\r\n` at the end.
//!
//! Everything else, and what is wrong in any way, is left to [`crate::cut`] and [`crate::parse`], which say the same of these two.

use crate::KEY_MAX;
use crate::classic::{Store, Verb};
use crate::line::{HIGH, LOW, Noreply};
use crate::number::Exptime;

/// A request of a usual form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usual<'a> {
    /// `get` of this key.
    Get(&'a [u8]),
    /// `set`. A data block follows.
    Set(Store<'a>),
}

/// Takes the first line off `input` if it has a usual form. Returns its length with its end, in bytes, too.
#[inline(always)]
pub fn usual(input: &[u8]) -> Option<(Usual<'_>, usize)> {
    let (verb, rest) = input.split_first_chunk::<4>()?;
    match verb {
        b"get " => {
            let key = key(rest)?;
            let end = 4 + key.len();
            (after(input, end) == Some(b"\r\n")).then_some((Usual::Get(key), end + 2))
        }
        b"set " => set(input, rest),
        _ => None,
    }
}

/// The key that `rest` begins with.
#[inline(always)]
fn key(rest: &[u8]) -> Option<&[u8]> {
    let length = word_length(rest)?;
    if length == 0 || length > KEY_MAX { None } else { rest.get(..length) }
}

/// So many words are longer than a key.
const WORDS_MAX: usize = KEY_MAX / 8 + 1;

/// The top bit of the first of eight bytes that is a blank or a control character; those of bytes after it may be wrong.
#[inline(always)]
fn first_end(bytes: [u8; 8]) -> u64 {
    let bytes = u64::from_le_bytes(bytes);
    bytes.wrapping_sub(LOW * (u64::from(b' ') + 1)) & !bytes & HIGH
}

/// The length of the word that `text` begins with, up to a blank or a control character. `None` if there is none, or if the text is shorter
/// than what is looked at together.
#[inline(always)]
fn word_length(text: &[u8]) -> Option<usize> {
    let (words, _) = text.as_chunks::<8>();
    for (number, word) in words.iter().take(WORDS_MAX).enumerate() {
        let end = first_end(*word);
        if end != 0 {
            return Some(number * 8 + end.trailing_zeros() as usize / 8);
        }
    }
    // The last bytes. Those of them that were looked at before are in the word; or else it is too long for a key, wherever it ends.
    let end = first_end(*text.last_chunk()?);
    (end != 0).then(|| text.len() - 8 + end.trailing_zeros() as usize / 8)
}

#[inline(always)]
fn after<const N: usize>(input: &[u8], at: usize) -> Option<&[u8; N]> {
    input.get(at..)?.first_chunk()
}

#[inline(always)]
fn set<'a>(input: &'a [u8], rest: &'a [u8]) -> Option<(Usual<'a>, usize)> {
    let key = key(rest)?;
    let (flags, at) = number(input, 4 + key.len())?;
    let (seconds, at) = number(input, at)?;
    let (length, at) = number(input, at)?;
    let (noreply, end) = if after(input, at) == Some(b"\r\n") {
        (Noreply::No, at + 2)
    } else if after(input, at) == Some(b" noreply\r\n") {
        (Noreply::Yes, at + 10)
    } else {
        return None;
    };
    let exptime = Exptime(seconds as i32);
    Some((Usual::Set(Store { verb: Verb::Set, key, flags, exptime, length, noreply }), end))
}

/// The most digits: as many never make a number that is too large for anything.
const DIGITS_MAX: usize = 9;

/// A blank at `at` and the number after it, and where that ends.
#[inline(always)]
fn number(input: &[u8], at: usize) -> Option<(u32, usize)> {
    let text = input.get(at..)?;
    let (blank, digits) = text.split_first()?;
    let mut number = 0;
    for (count, byte) in digits.iter().take(DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*blank == b' ' && count > 0).then_some((number, at + 1 + count));
        }
        if count == DIGITS_MAX {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Cut, cut, parse};

    /// What the general way says of the first line.
    fn said(input: &[u8]) -> Option<(Usual<'_>, usize)> {
        let Cut::Line(line) = cut(input) else {
            return None;
        };
        match parse(line).ok()? {
            Command::Get(get) => Some((Usual::Get(get.keys.single()?), line.length)),
            Command::Store(store) => Some((Usual::Set(store), line.length)),
            _ => None,
        }
    }

    #[test]
    fn a_word_ends_at_a_blank_or_a_control_character_wherever_it_is() {
        for length in 8..40 {
            for at in 0..length {
                for end in [b' ', b'\r', b'\n', 0] {
                    for other in [b'!', 0x7f, 0x80, 0xff] {
                        let mut text = vec![other; length];
                        text[at] = end;
                        text[at + 1..].fill(b' ');
                        assert_eq!(word_length(&text), Some(at), "{other} and {end} at {at} of {length}");
                    }
                }
            }
            assert_eq!(word_length(&vec![b'k'; length]), None);
        }
        assert_eq!(word_length(b"a b"), None, "too short to be looked at");
    }

    #[test]
    fn usual_requests_are_understood() {
        for text in [
            "get k123456789012345\r\n",
            "get k\r\nget another, so that there is enough to look at\r\n",
            "set k 0 0 5\r\nhello\r\nand more of it",
            "set k123456789 4294967 2592000 999999999 noreply\r\n",
        ] {
            let usual = usual(text.as_bytes());
            assert!(usual.is_some() && usual == said(text.as_bytes()), "{text:?}: {usual:?}");
        }
        let longest = format!("get {}\r\n", "k".repeat(KEY_MAX));
        assert_eq!(usual(longest.as_bytes()), said(longest.as_bytes()));
        assert!(usual(longest.as_bytes()).is_some());
    }

    #[test]
    fn what_is_taken_for_usual_means_the_same_as_what_the_parser_says() {
        // Small changes to usual requests: a byte more, less, or another.
        let seeds = [
            "get k123456789012345\r\nget b\r\n",
            "set key 12 345 678\r\n0123456789abcdef\r\n",
            "set k 0 0 9 noreply\r\n0123456789\r\n",
            "set k 123456789 1234567890 1\r\n0123456789\r\n",
        ];
        let bytes = b" \r\n\t\0-+09aget\x7f\x80\xff";
        let mut taken = 0;
        let mut check = |input: &[u8]| {
            if let Some(usual) = usual(input) {
                assert_eq!(Some(usual), said(input), "{:?}", String::from_utf8_lossy(input));
                taken += 1;
            }
        };
        for seed in seeds.map(str::as_bytes) {
            (0..=seed.len()).for_each(|length| check(&seed[..length]));
            for at in 0..seed.len() {
                check(&[&seed[..at], &seed[at + 1..]].concat());
                for byte in bytes {
                    check(&[&seed[..at], &[*byte], &seed[at + 1..]].concat());
                    check(&[&seed[..at], &[*byte], &seed[at..]].concat());
                    for other in bytes {
                        check(&[&seed[..at], &[*byte, *other], &seed[at + 1..]].concat());
                    }
                }
            }
        }
        for length in KEY_MAX - 2..KEY_MAX + 20 {
            check(format!("get {}\r\n", "k".repeat(length)).as_bytes());
            check(format!("set {} 0 0 1\r\n", "k".repeat(length)).as_bytes());
        }
        assert!(taken > 2000, "only {taken} were taken");
    }
}
