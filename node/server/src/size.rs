//! Sizes with units.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, written as a number with K, M, G or T, or KiB, MiB, GiB or TiB: powers of 1024. With a unit it may have a
/// fraction, as sizes in messages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size: use a number with K, M, G, T, KiB, MiB, GiB, TiB or no unit, such as 64MiB")]
pub struct SizeError(String);

const UNITS: [(&str, u32); 5] = [("", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let bad = || SizeError(text.to_owned());
        let trimmed = text.trim();
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let digits = trimmed.find(|letter| !is_number(letter)).unwrap_or(trimmed.len());
        let (whole, fraction) = match trimmed[..digits].split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (&trimmed[..digits], None),
        };
        let number: usize = whole.parse().map_err(|_| bad())?;
        let unit = trimmed[digits..].trim().to_ascii_uppercase();
        let letter = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == letter).ok_or_else(bad)?;
        if letter.is_empty() && unit == "IB" {
            return Err(bad());
        }
        let bytes = number.checked_mul(1 << shift).ok_or_else(bad)?;
        match fraction.map(|digits| part_of(digits, 1 << shift)) {
            None => Ok(Size(bytes)),
            Some(Some(part)) if *shift > 0 => bytes.checked_add(part).map(Size).ok_or_else(bad),
            Some(_) => Err(bad()),
        }
    }
}

/// The part of `unit` that the digits after a point stand for, in whole bytes.
fn part_of(digits: &str, unit: usize) -> Option<usize> {
    // More digits make no difference of a byte.
    let digits = &digits[..digits.len().min(15)];
    let number: u128 = digits.parse().ok()?;
    usize::try_from(number * unit as u128 / 10u128.pow(digits.len() as u32)).ok()
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting =
            UNITS.iter().rev().find(|(_, shift)| self.0.is_multiple_of(1 << shift) && self.0 >> shift > 0);
        match fitting {
            Some((letter, shift)) if *shift > 0 => write!(formatter, "{}{letter}iB", self.0 >> shift),
            _ => write!(formatter, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        let read = |text: &str| text.parse::<Size>().map(|size| size.0);
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("64M", 64 << 20),
            ("1g", 1 << 30),
            ("2KiB", 2048),
            ("7", 7),
            ("1 TiB", 1 << 40),
            ("5B", 5),
            ("3mb", 3 << 20),
            ("12.5M", 25 << 19),
            ("8166.5MiB", 16_333 << 19),
            ("0.1K", 102),
            ("1.0000000000000000000G", 1 << 30),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "M", "-1M", "1.5", "1.5B", "1.G", ".5G", "1.5.5G", "1.xG", "64MB/s", "9999999999T", "1iB"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_written_in_its_largest_whole_unit() {
        for text in ["64MiB", "1GiB", "1536KiB", "1000", "0"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}
