//! The part of a value that is kept: enough to compare and to show it.

use guira_client::lookaside::Value;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use std::fmt;

/// The bytes of a value that are kept for display.
const HEAD_MAX: usize = 64;

#[derive(Clone, Debug)]
pub struct Sight {
    digest: [u8; SHA256_OUTPUT_LEN],
    length: usize,
    version: Option<u64>,
    head: Box<[u8]>,
}

impl Sight {
    pub(crate) fn of(data: &[u8], version: Option<u64>) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, data).as_ref());
        let head = data[..data.len().min(HEAD_MAX)].into();
        Sight { digest: bytes, length: data.len(), version, head }
    }
}

/// Versions count where both sides have one.
impl PartialEq for Sight {
    fn eq(&self, other: &Self) -> bool {
        let same_version = self.version.zip(other.version).is_none_or(|(own, other)| own == other);
        self.digest == other.digest && same_version
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.head.len() < self.length { "…" } else { "" };
        write!(formatter, "'{}{more}' ({} bytes", self.head.escape_ascii(), self.length)?;
        match self.version {
            Some(version) => write!(formatter, ", version {version})"),
            None => write!(formatter, ")"),
        }
    }
}

/// The content of a key: a value, or the fact that the database has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Content(pub(crate) Option<Sight>);

impl Content {
    /// Parses an item with these flags and bytes. If no look-aside client stored it, its bytes are
    /// the value.
    pub(crate) fn of_item(flags: u32, data: Vec<u8>) -> Self {
        match Value::of_item(flags, &data) {
            Some(value) => Content(value.map(|value| Sight::of(value.data(), value.version()))),
            None => Content(Some(Sight::of(&data, None))),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(sight) => sight.fmt(formatter),
            None => formatter.write_str("nothing"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cached {
    Item(Content),
    /// No item, or one that says itself that it is stale, or is to be filled.
    Miss,
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_by_all_their_bytes_and_by_versions_that_both_have() {
        let long = [b'x'; 100];
        assert_eq!(Sight::of(&long, None), Sight::of(&long, Some(7)));
        assert_ne!(Sight::of(&long, None), Sight::of(&long[..99], None), "what is shown is the same");
        assert_ne!(Sight::of(b"", Some(1)), Sight::of(b"", Some(2)));
    }

    #[test]
    fn items_of_the_client_and_of_others_are_read() {
        let absent = Content::of_item(1 << 31, Vec::new());
        assert_eq!(absent, Content(None));
        let versioned = Content::of_item(1 << 30, b"\0\0\0\0\0\0\0\x07Ada".to_vec());
        assert_eq!(versioned, Content(Some(Sight::of(b"Ada", Some(7)))));
        assert_eq!(Content::of_item(5, b"Ada".to_vec()), Content(Some(Sight::of(b"Ada", None))));
        assert_eq!(Content::of_item(1 << 30, b"short".to_vec()), Content(Some(Sight::of(b"short", None))));
    }

    #[test]
    fn a_value_is_shown_by_its_beginning() {
        assert_eq!(Sight::of(b"a\n", Some(3)).to_string(), "'a\\n' (2 bytes, version 3)");
        let shown = Sight::of(&[b'x'; 65], None).to_string();
        assert!(shown.ends_with("xx…' (65 bytes)") && shown.len() < 90, "{shown}");
        assert_eq!(Content(None).to_string(), "nothing");
    }
}
