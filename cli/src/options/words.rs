//! Files of options in the words of whoever writes them.

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};
use std::fmt;

/// What the library calls what it expects, and what it is called here. Longer names come before those that they begin with.
const NAMES: [(&str, &str); 9] = [
    ("expected a sequence", "expected a list in brackets"),
    ("expected a string", "expected text in quotes"),
    ("expected a character", "expected one character in quotes"),
    ("expected a boolean", "expected true or false"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number, 0 or more and below 4294967296"),
    ("expected f64", "expected a number"),
    ("expected option", "expected a value"),
];

/// An error without words of the language that this is written in.
pub(super) fn plain(message: &str) -> String {
    NAMES.iter().fold(message.to_owned(), |message, (theirs, ours)| message.replace(theirs, ours))
}

/// One text, or a list of them.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    deserializer.deserialize_any(ListVisitor).map(Some)
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text in quotes, or a list of them in brackets")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = all.next_element()? {
            texts.push(text);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Told;

    #[test]
    fn one_address_needs_no_brackets() {
        let told = Told::from_text("listen = \"127.0.0.1:0\"\nudp = [\"127.0.0.1:1\"]").unwrap();
        assert_eq!(told.listen.unwrap(), ["127.0.0.1:0"]);
        assert_eq!(told.udp.unwrap(), ["127.0.0.1:1"]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_in_plain_words() {
        for (text, told) in [
            ("listen = 7", "expected text in quotes, or a list of them in brackets"),
            ("listen = [7]", "expected text in quotes"),
            ("workers = \"4\"", "expected a whole number, 0 or more"),
            ("workers = -1", "expected a whole number, 0 or more"),
            ("backlog = 1.5", "expected a whole number, 0 or more and below 4294967296"),
            ("max-connections = true", "expected a whole number, 0 or more"),
            ("growth-factor = \"1.2\"", "expected a number"),
            ("unix-mode = 0o700", "expected text in quotes"),
            ("pin-workers = 1", "expected true or false"),
            ("prefix-delimiter = 1", "expected one character in quotes"),
            ("prefix-delimiter = \"ab\"", "expected one character in quotes"),
            ("memory = true", "expected a size in quotes, such as \"64MiB\", or a number of bytes"),
            ("memory = -1", "'-1' is no size"),
        ] {
            let error = Told::from_text(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
            let rust = ["usize", "u64", "u32", "f64", "sequence", "string", "boolean"];
            let after = error.rsplit("expected").next().unwrap();
            assert!(rust.iter().all(|word| !after.contains(word)), "{text}: {error}");
        }
        let told = Told::from_text("memory = 67108864").unwrap();
        assert_eq!(told.memory.unwrap().0, 64 << 20);
    }
}
