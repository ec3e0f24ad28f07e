//! Which keys are sent.

use crate::key::can_be_sent;

/// Whether a key can be sent, and can stand in a comment of a statement.
pub(super) fn is_good(key: &str) -> bool {
    can_be_sent(key.as_bytes()) && !key.contains("*/") && !key.contains("/*")
}

#[cfg(test)]
mod tests {
    use super::is_good;

    #[test]
    fn keys_that_would_end_a_line_or_a_comment_are_bad() {
        for key in ["k", "user:7", "Zoë:😀:'\"`\\", "a*b/c", &"x".repeat(250)] {
            assert!(is_good(key), "{key}");
        }
        for key in
            ["", "a b", "a\r\nflush_all", "a\tb", "a\0", "\x7f", "a*/DROP/**/TABLE", "a/*b", &"x".repeat(251)]
        {
            assert!(!is_good(key), "{key:?}");
        }
    }
}
