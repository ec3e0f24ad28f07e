//! Lists of all keys: `lru_crawler mgdump` and `lru_crawler metadump`.

use super::words::words;
use crate::meta::{KeyBuffer, KeyForm, MetaKey};
use crate::word::reply;

/// The form of a list of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyList {
    /// `mgdump`: a `mg` for each item, which names the form of its key. memcached 1.6.18 does not have it.
    MetaGets,
    /// `metadump`: a line of facts for each item.
    Facts,
}

/// How a server finds all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWalk {
    /// Along its index. memcached replies `LOCKED` while it grows the index.
    Index,
    /// Along the lists of its slab classes. memcached may miss an item that it moves to another list at that time.
    Classes,
}

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed<'a> {
    /// The list begins. memcached 1.6.18 sends no such line.
    Begin,
    /// A key.
    Key(ListedKey<'a>),
    /// The list is complete.
    End,
    /// Any other line: why there is no list.
    Other(&'a [u8]),
}

/// A key as a list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedKey<'a>(Encoded<'a>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoded<'a> {
    Meta(MetaKey<'a>),
    /// As in a URI.
    Percent(&'a [u8]),
}

/// Appends the command that lists all keys.
pub fn list_keys(list: KeyList, walk: KeyWalk, out: &mut Vec<u8>) {
    out.extend_from_slice(match list {
        KeyList::MetaGets => b"lru_crawler mgdump ",
        KeyList::Facts => b"lru_crawler metadump ",
    });
    out.extend_from_slice(match walk {
        KeyWalk::Index => b"hash\r\n",
        KeyWalk::Classes => b"all\r\n",
    });
}

/// Reads a line of a list, without its end.
pub fn listed(list: KeyList, line: &[u8]) -> Listed<'_> {
    match (line, list) {
        (reply::OK, _) => return Listed::Begin,
        (reply::META_MISS, KeyList::MetaGets) | (reply::END, KeyList::Facts) => return Listed::End,
        _ => {}
    }
    let key = match list {
        KeyList::MetaGets => line.strip_prefix(b"mg ").and_then(meta_key).map(Encoded::Meta),
        KeyList::Facts => {
            line.strip_prefix(b"key=").and_then(|rest| words(rest).next()).map(Encoded::Percent)
        }
    };
    key.map_or(Listed::Other(line), |key| Listed::Key(ListedKey(key)))
}

fn meta_key(rest: &[u8]) -> Option<MetaKey<'_>> {
    let mut words = words(rest);
    let text = words.next()?;
    let form = if words.next() == Some(b"b") { KeyForm::Base64 } else { KeyForm::Plain };
    Some(MetaKey { text, form })
}

impl<'a> ListedKey<'a> {
    /// The key itself, decoded into `buffer` if the list has it encoded. Empty if it cannot be decoded.
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self.0 {
            Encoded::Meta(key) => key.bytes(buffer),
            Encoded::Percent(text) => {
                let length = decode_percent(text, buffer).unwrap_or(0);
                &buffer[..length]
            }
        }
    }

    /// Whether the list says that the key is binary: a client has sent it in base64.
    pub fn is_binary(&self) -> bool {
        matches!(self.0, Encoded::Meta(key) if key.is_binary())
    }
}

/// Decodes `%XX`. Returns the number of bytes.
fn decode_percent(text: &[u8], out: &mut KeyBuffer) -> Option<usize> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (mut rest, mut length) = (text, 0);
    while let Some((byte, behind)) = rest.split_first() {
        let (byte, behind) = match (byte, behind) {
            (b'%', [high, low, behind @ ..]) => (digit(*high)? << 4 | digit(*low)?, behind),
            (b'%', _) => return None,
            _ => (*byte, behind),
        };
        *out.get_mut(length)? = byte;
        (length, rest) = (length + 1, behind);
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(list: KeyList, line: &str) -> (Vec<u8>, bool) {
        let Listed::Key(key) = listed(list, line.as_bytes()) else { panic!("{line} has no key") };
        (key.bytes(&mut [0; 336]).to_vec(), key.is_binary())
    }

    #[test]
    fn keys_are_decoded() {
        for (list, line, expected, is_binary) in [
            (KeyList::MetaGets, "mg one", &b"one"[..], false),
            (KeyList::MetaGets, "mg AAECAw== b", b"\0\x01\x02\x03", true),
            (KeyList::MetaGets, "mg b", b"b", false),
            (KeyList::MetaGets, "mg ? b", b"", true),
            (KeyList::Facts, "key=a%20b%2F%fF exp=-1 la=2 cas=1", b"a b/\xff", false),
            (KeyList::Facts, "key=one exp=-1", b"one", false),
            (KeyList::Facts, "key=a%2 exp=-1", b"", false),
            (KeyList::Facts, "key=a%zz exp=-1", b"", false),
        ] {
            assert_eq!(key(list, line), (expected.to_vec(), is_binary), "{line}");
        }
        let long = format!("key={} exp=-1", "x".repeat(337));
        assert_eq!(key(KeyList::Facts, &long), (Vec::new(), false), "no key is as long");
    }

    #[test]
    fn lines_that_have_no_key_are_told_apart() {
        for (list, line, expected) in [
            (KeyList::MetaGets, "OK", Listed::Begin),
            (KeyList::Facts, "OK", Listed::Begin),
            (KeyList::MetaGets, "EN", Listed::End),
            (KeyList::Facts, "END", Listed::End),
            (KeyList::Facts, "EN", Listed::Other(b"EN")),
            (KeyList::MetaGets, "END", Listed::Other(b"END")),
            (KeyList::MetaGets, "ERROR", Listed::Other(b"ERROR")),
            (KeyList::Facts, "BUSY x", Listed::Other(b"BUSY x")),
            (KeyList::Facts, "key=", Listed::Other(b"key=")),
            (KeyList::MetaGets, "mg ", Listed::Other(b"mg ")),
        ] {
            assert_eq!(listed(list, line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn commands_list_all_keys() {
        let mut out = Vec::new();
        list_keys(KeyList::MetaGets, KeyWalk::Index, &mut out);
        list_keys(KeyList::Facts, KeyWalk::Classes, &mut out);
        assert_eq!(out, b"lru_crawler mgdump hash\r\nlru_crawler metadump all\r\n");
    }
}
