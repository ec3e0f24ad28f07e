//! How a key number is spelled.
//!
//! A key is sixteen hexadecimal digits of its number, mixed by a bijection, then filler up to its length. So keys of
//! 16 bytes and more are distinct for every number and share no prefix that a server could profit from; shorter
//! keys are the plain number.

use std::fmt::Write as _;

use crate::rng::mix64;

/// The longest key that the memcached protocol allows.
pub const KEY_LEN_MAX: usize = 250;

/// Digits of a mixed key number.
const DIGITS: usize = 16;

/// The lengths of keys: all the same, spread evenly over a range, or one of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyShape {
    len_min: usize,
    len_max: usize,
    /// How far lengths that follow each other are apart.
    step: usize,
    /// Keys of a family, which begin alike; 0 if there are no families.
    family: u64,
}

/// Why a shape of keys is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyShapeError {
    /// Empty, reversed, or beyond the protocol's limit.
    #[error("key lengths must be 1 to {KEY_LEN_MAX} bytes with the smaller first, not {min}-{max}")]
    Range { min: usize, max: usize },
    /// Too short to tell the keys apart.
    #[error("{len} bytes are too short for {count} different keys; use at least {needed}")]
    TooShort {
        len: usize,
        /// The number of keys that must differ.
        count: u64,
        needed: usize,
    },
}

impl KeyShape {
    /// Keys of `len_min` to `len_max` bytes that can tell `count` keys apart.
    ///
    /// # Errors
    /// When the range is empty or outside the protocol's limits, or the shortest key is too short for `count`.
    pub fn new(len_min: usize, len_max: usize, count: u64) -> Result<Self, KeyShapeError> {
        if len_min == 0 || len_max > KEY_LEN_MAX || len_min > len_max {
            return Err(KeyShapeError::Range { min: len_min, max: len_max });
        }
        let needed = Self::len_needed(count);
        if len_min < needed {
            return Err(KeyShapeError::TooShort { len: len_min, count, needed });
        }
        Ok(Self { len_min, len_max, step: 1, family: 0 })
    }

    /// Keys of sixteen bytes, which can tell any number of keys apart.
    #[must_use]
    pub const fn sixteen() -> Self {
        Self { len_min: DIGITS, len_max: DIGITS, step: 1, family: 0 }
    }

    /// Keys of 18 bytes in up to sixteen families of `size` keys each, by number: those of family 9 begin with [`KeyShape::prefix`] of 9.
    #[must_use]
    pub const fn families(size: u64) -> Self {
        let len = DIGITS + 2;
        Self { len_min: len, len_max: len, step: 1, family: size }
    }

    /// What the keys of a family begin with.
    #[must_use]
    pub const fn prefix(number: u64) -> [u8; 2] {
        [b"0123456789abcdef"[(number % 16) as usize], b':']
    }

    /// Keys of either length, equally many of both.
    ///
    /// # Errors
    /// As for [`KeyShape::new`].
    pub fn either(short: usize, long: usize, count: u64) -> Result<Self, KeyShapeError> {
        let shape = Self::new(short, long, count)?;
        Ok(Self { step: (long - short).max(1), ..shape })
    }

    /// The shortest length that can tell `count` keys apart.
    #[must_use]
    pub fn len_needed(count: u64) -> usize {
        hex_digits(count.saturating_sub(1))
    }

    /// The length of the longest key.
    #[must_use]
    pub const fn len_max(&self) -> usize {
        self.len_max
    }

    /// The mean length of a key.
    #[must_use]
    pub fn len_mean(&self) -> f64 {
        (self.len_min + self.len_max) as f64 / 2.0
    }

    /// Appends the key of number `id`.
    #[inline]
    pub fn append(&self, id: u64, out: &mut Vec<u8>) {
        if self.len_max == DIGITS && self.len_min == DIGITS {
            out.extend_from_slice(&hex16(mix64(id)));
        } else {
            self.append_any(id, out);
        }
    }

    /// The length of the key of number `id`.
    #[must_use]
    pub fn len_of(&self, id: u64) -> usize {
        let digits = if self.len_min < DIGITS { hex_digits(id) } else { DIGITS };
        self.len_aimed_at(mix64(id)).max(digits)
    }

    fn len_aimed_at(&self, mixed: u64) -> usize {
        let lengths = ((self.len_max - self.len_min) / self.step + 1) as u64;
        self.len_min + (mix64(mixed) % lengths) as usize * self.step
    }

    fn append_any(&self, id: u64, out: &mut Vec<u8>) {
        let mixed = mix64(id);
        if let Some(number) = id.checked_div(self.family) {
            out.extend_from_slice(&Self::prefix(number));
            out.extend_from_slice(&hex16(mixed));
            return;
        }
        let len = self.len_aimed_at(mixed);
        if self.len_min < DIGITS {
            // The number itself, so that short keys are distinct; a longer key only adds filler.
            let mut text = String::with_capacity(DIGITS);
            let _infallible = write!(text, "{id:0width$x}", width = self.len_min);
            out.extend_from_slice(text.as_bytes());
            // A filler that is no digit keeps a padded key from equalling a longer number.
            out.resize(out.len() + len.saturating_sub(text.len()), b'k');
        } else {
            out.extend_from_slice(&hex16(mixed));
            out.resize(out.len() + len - DIGITS, b'k');
        }
    }
}

fn hex_digits(number: u64) -> usize {
    ((64 - number.leading_zeros()).div_ceil(4) as usize).max(1)
}

/// The sixteen hexadecimal digits of `number`, eight at a time within a word.
#[inline]
fn hex16(number: u64) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    digits[..8].copy_from_slice(&hex8((number >> 32) as u32).to_be_bytes());
    digits[8..].copy_from_slice(&hex8(number as u32).to_be_bytes());
    digits
}

/// Spreads the eight nibbles of `number` over eight bytes and turns each into its digit.
#[inline]
const fn hex8(number: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let x = number as u64;
    let x = (x | (x << 16)) & 0x0000_ffff_0000_ffff;
    let x = (x | (x << 8)) & 0x00ff_00ff_00ff_00ff;
    let x = (x | (x << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // A nibble above 9 carries into bit 4 when 6 is added: that bit selects 'a' - '0' - 10 more.
    let above_nine = ((x + 6 * ONES) >> 4) & ONES;
    x + (b'0' as u64) * ONES + above_nine * 0x27
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{KeyShape, KeyShapeError, hex16};
    use crate::rng::mix64;

    fn key(shape: KeyShape, id: u64) -> Vec<u8> {
        let mut out = Vec::new();
        shape.append(id, &mut out);
        out
    }

    #[test]
    fn hex_in_a_word_equals_formatting() {
        for number in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, mix64(77)] {
            assert_eq!(hex16(number).as_slice(), format!("{number:016x}").as_bytes());
        }
    }

    #[test]
    fn keys_are_distinct_and_of_their_length() {
        for (min, max) in [(16, 16), (4, 4), (4, 9), (20, 30)] {
            let shape = KeyShape::new(min, max, 10_000).unwrap();
            let keys: HashSet<Vec<u8>> = (0..10_000).map(|id| key(shape, id)).collect();
            assert_eq!(keys.len(), 10_000, "{min}-{max}");
            assert!(keys.iter().all(|key| (min..=max).contains(&key.len())));
            assert!(keys.iter().flatten().all(u8::is_ascii_graphic));
            assert!((0..10_000).all(|id| shape.len_of(id) == key(shape, id).len()), "{min}-{max}");
        }
    }

    #[test]
    fn keys_of_two_lengths() {
        let shape = KeyShape::either(16, 21, 1000).unwrap();
        let long = (0..1000).filter(|&id| shape.len_of(id) == 21).count();
        assert!((450..550).contains(&long), "{long}");
        assert!((0..1000).all(|id| [16, 21].contains(&key(shape, id).len())));
    }

    #[test]
    fn the_keys_of_a_family_begin_alike_and_no_others_do() {
        let shape = KeyShape::families(100);
        let keys: HashSet<Vec<u8>> = (0..1600).map(|id| key(shape, id)).collect();
        assert_eq!(keys.len(), 1600);
        for family in 0..16 {
            let prefix = KeyShape::prefix(family);
            assert_eq!(keys.iter().filter(|key| key.starts_with(&prefix)).count(), 100);
            assert!(key(shape, family * 100).starts_with(&prefix));
        }
        assert!(keys.iter().all(|key| key.len() == 18) && shape.len_of(5) == 18 && shape.len_max() == 18);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(KeyShape::new(0, 5, 1), Err(KeyShapeError::Range { min: 0, max: 5 }));
        assert_eq!(KeyShape::new(9, 5, 1), Err(KeyShapeError::Range { min: 9, max: 5 }));
        assert_eq!(KeyShape::new(1, 251, 1), Err(KeyShapeError::Range { min: 1, max: 251 }));
        assert_eq!(KeyShape::new(1, 5, 17), Err(KeyShapeError::TooShort { len: 1, count: 17, needed: 2 }));
        assert!(KeyShape::new(1, 5, 16).is_ok());
    }
}
