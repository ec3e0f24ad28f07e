//! Which keys servers take.

/// The longest, in bytes.
const KEY_MAX: usize = 250;

/// Whether a key is one word of a line.
pub(crate) fn can_be_sent(key: &[u8]) -> bool {
    let is_word = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    (1..=KEY_MAX).contains(&key.len()) && key.iter().all(is_word)
}
