//! Which keys servers take.

use std::fmt;

/// The longest, in bytes.
const KEY_MAX: usize = 250;

/// The longest whose base64 has no more bytes.
const BINARY_KEY_MAX: usize = KEY_MAX / 4 * 3;

/// Why servers do not take a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyProblem {
    /// The key is empty.
    Empty,
    /// The key has this number of bytes, more than 250.
    TooLong(usize),
    /// The key has this number of bytes, too many to be sent in base64.
    TooLongInBase64(usize),
    /// The key has a blank or a control byte.
    Byte {
        /// The byte.
        byte: u8,
        /// The number of bytes before it.
        at: usize,
    },
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("the key is empty"),
            Self::TooLong(bytes) => {
                write!(formatter, "the key has {bytes} bytes, and the limit is {KEY_MAX}")
            }
            Self::TooLongInBase64(bytes) => {
                write!(
                    formatter,
                    "the key has {bytes} bytes, and the limit of binary keys is {BINARY_KEY_MAX}"
                )
            }
            Self::Byte { byte: b' ', at } => write!(formatter, "the key has a blank at position {at}"),
            Self::Byte { byte, at } => {
                write!(formatter, "the key has the control byte 0x{byte:02x} at position {at}")
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Whether a key is one word of a line.
pub(crate) fn can_be_sent(key: &[u8]) -> bool {
    (1..=KEY_MAX).contains(&key.len()) && key.iter().all(|byte| is_word(*byte))
}

/// Why a key is not one word of a line.
pub(crate) fn problem(key: &[u8]) -> Option<KeyProblem> {
    match key.len() {
        0 => return Some(KeyProblem::Empty),
        bytes if bytes > KEY_MAX => return Some(KeyProblem::TooLong(bytes)),
        _ => {}
    }
    let at = key.iter().position(|byte| !is_word(*byte))?;
    Some(KeyProblem::Byte { byte: key[at], at })
}

/// Why a key cannot be sent in base64.
pub(crate) fn problem_in_base64(key: &[u8]) -> Option<KeyProblem> {
    match key.len() {
        0 => Some(KeyProblem::Empty),
        1..=BINARY_KEY_MAX => None,
        bytes => Some(KeyProblem::TooLongInBase64(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_sent_has_a_problem() {
        let text = |key: &[u8]| problem(key).map(|problem| problem.to_string());
        let long = [b'a'; 251];
        for (key, expected) in [
            (&b""[..], "the key is empty"),
            (&long, "the key has 251 bytes, and the limit is 250"),
            (b"a b", "the key has a blank at position 1"),
            (b"ab\r\n", "the key has the control byte 0x0d at position 2"),
            (b"\x7f", "the key has the control byte 0x7f at position 0"),
        ] {
            assert_eq!(text(key).as_deref(), Some(expected));
            assert!(!can_be_sent(key));
        }
        assert!(can_be_sent(&long[1..]) && problem(&long[1..]).is_none());
        assert!(problem_in_base64(&long[..186]).is_none() && problem_in_base64(b"a b\n").is_none());
        assert_eq!(problem_in_base64(b""), Some(KeyProblem::Empty));
        let reason = problem_in_base64(&long[..187]).map(|problem| problem.to_string());
        assert_eq!(reason.as_deref(), Some("the key has 187 bytes, and the limit of binary keys is 186"));
    }
}
