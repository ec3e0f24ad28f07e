//! The text form that the positions of all logs share.

use super::SourceError;
use std::str::FromStr;

/// A kind of position, for error messages: the log it belongs to, and an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) of: &'static str,
    pub(super) example: &'static str,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a log position of {}, such as {}", kind.of, kind.example)]
pub(super) struct PositionSyntax {
    text: String,
    kind: Kind,
}

impl From<PositionSyntax> for SourceError {
    fn from(error: PositionSyntax) -> Self {
        SourceError::Unsuitable(error.to_string())
    }
}

/// Reads a whole text with `read`.
pub(super) fn parse<T>(
    text: &str,
    kind: Kind,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, PositionSyntax> {
    read(text).ok_or_else(|| PositionSyntax { text: text.to_owned(), kind })
}

/// A number of decimal digits, and nothing else.
pub(super) fn number<T: FromStr>(digits: &str) -> Option<T> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_only() {
        assert_eq!((number::<u32>("42"), number::<u32>("4294967296")), (Some(42), None));
        for text in ["", "+1", "-1", " 1", "1a"] {
            assert_eq!(number::<u64>(text), None, "{text}");
        }
    }
}
