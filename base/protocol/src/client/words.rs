//! Words of a line.

/// The runs of bytes between the blanks of a text.
#[inline]
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Whether `letter` is among the flags of a meta command.
pub fn has_flag(flags: &[u8], letter: u8) -> bool {
    words(flags).any(|flag| flag[0] == letter)
}
