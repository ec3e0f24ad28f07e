//! Numbers as memcached reads and writes them: in the classic stores, and in values, as C reads them; elsewhere strictly.

use crate::VALUE_MAX;

/// An expiration time as a client gives it: 0 never, negative at once, up to 30 days relative, else absolute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exptime(pub i32);

/// A number of as many digits cannot overflow.
const SAFE_DIGITS: usize = 19;

/// Parses a number of digits only.
#[inline]
pub(crate) fn digits(token: &[u8]) -> Option<u64> {
    if token.is_empty() || token.len() > SAFE_DIGITS {
        return many_digits(token);
    }
    let mut number = 0;
    for byte in token {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

fn many_digits(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The most characters of a number of 32 bits, sign and leading zeros included …
const CHARACTERS_32: usize = 11;
/// … and of one of 64 bits.
const CHARACTERS_64: usize = 22;

/// Parses a number of 64 bits.
#[inline]
pub(crate) fn exact_u64(token: &[u8]) -> Option<u64> {
    digits(token).filter(|_| token.len() <= CHARACTERS_64)
}

/// Parses a number of 32 bits: digits only, and no more of them than the largest has.
#[inline]
pub fn exact_u32(token: &[u8]) -> Option<u32> {
    u32::try_from(digits(token)?).ok().filter(|_| token.len() <= CHARACTERS_32)
}

/// Parses a number of 32 bits that may be negative. A sign alone is 0.
#[inline]
pub fn exact_i32(token: &[u8]) -> Option<i32> {
    if token.len() > CHARACTERS_32 {
        return None;
    }
    match token {
        [b'-'] => Some(0),
        [b'-', rest @ ..] => i32::try_from(-i64::try_from(digits(rest)?).ok()?).ok(),
        _ => i32::try_from(digits(token)?).ok(),
    }
}

/// Parses the length of a data block: a signed number that is not negative.
#[inline]
pub(crate) fn length(token: &[u8]) -> Option<u32> {
    u32::try_from(exact_i32(token)?).ok().filter(|length| *length <= VALUE_MAX)
}

/// Parses the expiration time of a command other than a classic store.
#[inline]
pub(crate) fn exact_exptime(token: &[u8]) -> Option<Exptime> {
    exact_i32(token).map(Exptime)
}

/// Whether C's `isspace` accepts it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

/// How C's strtoull and strtoll parse a number: blanks, a sign, and digits up to a blank, the end, or a zero byte.
enum CNumber {
    Number(bool, u64),
    /// No digit follows.
    Nothing,
    /// Not a number.
    Wrong,
}

/// Parses the number at the beginning of a text that comes in pieces, as [`number_from`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberReader {
    is_negative: bool,
    number: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Blanks so far.
    #[default]
    Before,
    Signed,
    Digits,
    /// A number has ended.
    Ended,
    /// Something else than a digit came first.
    Nothing,
    /// Something else than a blank came after digits, or there were too many.
    Wrong,
}

impl NumberReader {
    /// Parses the next piece. False if what follows does not matter any more.
    pub fn take(&mut self, piece: &[u8]) -> bool {
        piece.iter().all(|byte| {
            self.stage = self.after(*byte);
            matches!(self.stage, Stage::Before | Stage::Signed | Stage::Digits)
        })
    }

    fn after(&mut self, byte: u8) -> Stage {
        match (self.stage, byte) {
            (Stage::Before, byte) if is_space(byte) => Stage::Before,
            (Stage::Before, b'-' | b'+') => {
                self.is_negative = byte == b'-';
                Stage::Signed
            }
            (_, b'0'..=b'9') => {
                let number = self.number.checked_mul(10);
                let number = number.and_then(|number| number.checked_add(u64::from(byte - b'0')));
                self.number = number.unwrap_or_default();
                if number.is_some() { Stage::Digits } else { Stage::Wrong }
            }
            (Stage::Digits, byte) if is_space(byte) || byte == 0 => Stage::Ended,
            (Stage::Digits, _) => Stage::Wrong,
            _ => Stage::Nothing,
        }
    }

    /// The number, when there are no more pieces.
    pub fn number(self) -> Option<u64> {
        match self.end() {
            CNumber::Number(negative, number) => unsigned((negative, number)),
            CNumber::Nothing | CNumber::Wrong => None,
        }
    }

    fn end(self) -> CNumber {
        match self.stage {
            Stage::Digits | Stage::Ended => CNumber::Number(self.is_negative, self.number),
            Stage::Before | Stage::Signed | Stage::Nothing => CNumber::Nothing,
            Stage::Wrong => CNumber::Wrong,
        }
    }
}

/// The same in a command, where nothing after a blank counts as 0.
fn lenient(token: &[u8]) -> Option<(bool, u64)> {
    let mut reader = NumberReader::default();
    reader.take(token);
    match reader.end() {
        CNumber::Number(negative, number) => Some((negative, number)),
        CNumber::Nothing => token.first().filter(|first| is_space(**first)).map(|_| (false, 0)),
        CNumber::Wrong => None,
    }
}

/// As strtoull: a negative number is taken modulo 2^64, and refused if the result is 2^63 or more.
fn unsigned((negative, number): (bool, u64)) -> Option<u64> {
    if negative { Some(number.wrapping_neg()).filter(|number| *number < 1 << 63) } else { Some(number) }
}

/// Parses the expiration time of a classic store, truncated to 32 bits as memcached does.
#[inline]
pub(crate) fn exptime(token: &[u8]) -> Option<Exptime> {
    if token.len() < CHARACTERS_32
        && let Some(number) = digits(token)
    {
        return Some(Exptime(number as i32));
    }
    let number = match lenient(token)? {
        (false, number) => i64::try_from(number).ok()?,
        (true, number) => 0i64.checked_sub_unsigned(number)?,
    };
    Some(Exptime(number as i32))
}

/// Parses the client flags of a classic store, truncated to 32 bits.
#[inline]
pub(crate) fn wrapping_u32(token: &[u8]) -> Option<u32> {
    digits(token).or_else(|| unsigned(lenient(token)?)).map(|number| number as u32)
}

/// The number in a stored value, for `incr` and `decr`.
#[inline]
pub fn number_from(value: &[u8]) -> Option<u64> {
    // Most have nothing before or behind them.
    digits(value).or_else(|| {
        let mut reader = NumberReader::default();
        reader.take(value);
        reader.number()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_numbers_have_no_plus_and_not_too_many_zeros() {
        let zeros = |count: usize| [vec![b'0'; count], b"1".to_vec()].concat();
        assert_eq!((exact_i32(&zeros(10)), exact_i32(&zeros(11))), (Some(1), None));
        assert_eq!((exact_u32(&zeros(10)), exact_u32(&zeros(11))), (Some(1), None));
        assert_eq!((exact_u64(&zeros(21)), exact_u64(&zeros(22))), (Some(1), None));
        assert_eq!(
            (exact_i32(b"-"), exact_i32(b"-0"), exact_i32(b"-2147483648")),
            (Some(0), Some(0), Some(i32::MIN))
        );
        assert_eq!((length(b"-"), length(b"-0"), length(b"2147483645")), (Some(0), Some(0), Some(VALUE_MAX)));
        for bad in ["", "+5", "--5", "5x", "2147483648", "-2147483649", "\t5"] {
            assert_eq!(exact_i32(bad.as_bytes()), None, "{bad}");
        }
        for bad in ["-1", "2147483646", "+1", ""] {
            assert_eq!(length(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn expiration_times_are_cut_to_32_bits() {
        let read = |text: &str| exptime(text.as_bytes()).map(|time| time.0);
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("-1"), Some(-1));
        assert_eq!(read("+5"), Some(5));
        assert_eq!(read("007"), Some(7));
        assert_eq!(read("99999999999"), Some(99_999_999_999i64 as i32));
        assert_eq!(read("-9223372036854775808"), Some(0));
        assert_eq!(read("\t\x0b-5\x0cx"), Some(-5));
        assert_eq!((read("\t"), read("5\0x")), (Some(0), Some(5)));
        for bad in
            ["", "-", "5x", "1.5", "0x5", "9223372036854775808", "-9223372036854775809", "+-1", "1\x1f"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_is_the_same_in_pieces() {
        let texts =
            ["  +9  ", "-18446744073709551615", "007 8", "5x", "x5", "", " - 5", "18446744073709551616"];
        let long = format!("{}-{}9 x", " ".repeat(1000), "0".repeat(1000));
        for text in texts.into_iter().chain([long.as_str()]) {
            for length in 1..6 {
                let mut reader = NumberReader::default();
                let _ = text.as_bytes().chunks(length).all(|piece| reader.take(piece));
                assert_eq!(reader.number(), number_from(text.as_bytes()), "{text}");
            }
        }
        assert_eq!(number_from(b"-18446744073709551615"), Some(1));
        assert_eq!(number_from(long.replace('-', "").as_bytes()), Some(9));
    }

    #[test]
    fn a_value_is_a_number_with_blanks_around_it() {
        let read = |text: &str| number_from(text.as_bytes());
        assert_eq!(read("10"), Some(10));
        assert_eq!(read("  +9  "), Some(9));
        assert_eq!(read("5 x"), Some(5));
        assert_eq!((read("\x0b1"), read("1\0x"), read("-0")), (Some(1), Some(1), Some(0)));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("-18446744073709551615"), Some(1), "modulo 2^64, as C has it");
        for bad in
            ["", "-5", "5x", "x", "18446744073709551616", " ", " -", "1\x1f", " x1", " zebra 9", " - 3"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn flags_wrap_in_classic_commands_and_must_fit_in_meta_ones() {
        assert_eq!(wrapping_u32(b"4294967296"), Some(0));
        assert_eq!(wrapping_u32(b"-1"), None);
        assert_eq!((wrapping_u32(b"\t5\t"), wrapping_u32(b"-0")), (Some(5), Some(0)));
        assert_eq!(exact_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(exact_u32(b"4294967296"), None);
    }
}
