//! Which part of a key is hashed.

use super::error::HashError;
use memchr::memchr;

const STOP: &[u8] = b"|#|";

/// The part before the first `|#|`, mcrouter's hash stop; the whole key if it has none.
#[inline]
pub fn before_hash_stop(key: &[u8]) -> &[u8] {
    if has_bar(key) { before_bar(key) } else { key }
}

/// Whether a key has the first byte of a hash stop. A call of `memchr` costs more than the search: keys are short.
#[inline]
fn has_bar(key: &[u8]) -> bool {
    let (words, rest) = key.as_chunks::<8>();
    let has = |word: &[u8; 8]| {
        let difference = u64::from_le_bytes(*word) ^ (LOW * u64::from(STOP[0]));
        difference.wrapping_sub(LOW) & !difference & HIGH != 0
    };
    words.iter().any(has) || rest.contains(&STOP[0])
}

/// The lowest and the highest bit of each byte.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

#[cold]
fn before_bar(key: &[u8]) -> &[u8] {
    let mut rest = 0;
    while let Some(found) = memchr(STOP[0], &key[rest..]) {
        let at = rest + found;
        if key[at..].starts_with(STOP) {
            return &key[..at];
        }
        rest = at + 1;
    }
    key
}

/// twemproxy's `hash_tag`: if a key has both characters, only the part between the first pair is
/// hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTag {
    open: u8,
    close: u8,
}

impl HashTag {
    pub fn new(text: &str) -> Result<Self, HashError> {
        match *text.as_bytes() {
            [open, close] if text.is_ascii() => Ok(Self { open, close }),
            _ => Err(HashError::HashTag { text: text.to_owned() }),
        }
    }

    /// The tagged part of a key; the whole key if nothing, or nothing at all, is tagged.
    pub fn part(self, key: &[u8]) -> &[u8] {
        let find = |byte, part: &[u8]| part.iter().position(|other| *other == byte);
        let Some(open) = find(self.open, key) else { return key };
        let tagged = &key[open + 1..];
        match find(self.close, tagged) {
            None | Some(0) => key,
            Some(close) => &tagged[..close],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HashTag, before_hash_stop};

    /// The first five are examples of mcrouter's and twemproxy's documents.
    #[test]
    fn hash_stops() {
        for (key, part) in [
            ("abc:def|#|ghi", "abc:def"),
            ("abc", "abc"),
            ("", ""),
            ("|#|abc", ""),
            ("a|#|b|#|c", "a"),
            ("a||#|b", "a|"),
            ("a|#", "a|#"),
            ("a|b#|c", "a|b#|c"),
            ("|", "|"),
        ] {
            assert_eq!(before_hash_stop(key.as_bytes()), part.as_bytes(), "{key}");
        }
    }

    #[test]
    fn hash_tags() {
        let braces = HashTag::new("{}").unwrap();
        for (key, part) in [
            ("user:{user1}:ids", "user1"),
            ("user:{user1}:{user2}", "user1"),
            ("a{}b", "a{}b"),
            ("a{}{b}", "a{}{b}"),
            ("a{b", "a{b"),
            ("a}b{c", "a}b{c"),
            ("a}b{c}", "c"),
            ("{{a}}", "{a"),
            ("", ""),
            ("{", "{"),
        ] {
            assert_eq!(braces.part(key.as_bytes()), part.as_bytes(), "{key}");
        }
        assert_eq!(HashTag::new("$$").unwrap().part(b"a$b$c$"), b"b");
        for wrong in ["", "{", "{}}", "é"] {
            assert!(HashTag::new(wrong).is_err(), "{wrong}");
        }
    }
}
