//! Numbers as memcached reads and writes them.

/// An expiration time as a client gives it: 0 never, negative at once, up to 30 days relative, else absolute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exptime(pub i32);

/// So many digits never overflow.
const SAFE_DIGITS: usize = 19;

/// Digits only.
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

/// Digits after an optional sign, as strtol reads them.
fn signed(token: &[u8]) -> Option<i64> {
    match token {
        [b'-', rest @ ..] => match digits(rest)? {
            number @ 0..=0x7fff_ffff_ffff_ffff => Some(-(number as i64)),
            0x8000_0000_0000_0000 => Some(i64::MIN),
            _ => None,
        },
        [b'+', rest @ ..] => i64::try_from(digits(rest)?).ok(),
        _ => i64::try_from(digits(token)?).ok(),
    }
}

/// An expiration time. What does not fit into 32 bits is cut off, as memcached does.
pub(crate) fn exptime(token: &[u8]) -> Option<Exptime> {
    signed(token).map(|number| Exptime(number as i32))
}

/// An expiration time of a meta command, which must fit and has no plus sign.
pub(crate) fn exact_exptime(token: &[u8]) -> Option<Exptime> {
    if token.first() == Some(&b'+') {
        return None;
    }
    i32::try_from(signed(token)?).ok().map(Exptime)
}

/// Client flags of a classic command: what does not fit into 32 bits is cut off.
pub(crate) fn wrapping_u32(token: &[u8]) -> Option<u32> {
    let token = token.strip_prefix(b"+").unwrap_or(token);
    digits(token).map(|number| number as u32)
}

/// Client flags of a meta command, which must fit.
pub(crate) fn exact_u32(token: &[u8]) -> Option<u32> {
    u32::try_from(digits(token)?).ok()
}

/// The number that a stored value stands for: what `incr` and `decr` work on. Blanks and a plus sign may come before it, and
/// after a blank anything may follow.
pub fn number_from(value: &[u8]) -> Option<u64> {
    let start = value.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let value = value[start..].strip_prefix(b"+").unwrap_or(&value[start..]);
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    let ends_well = value.get(end).is_none_or(u8::is_ascii_whitespace);
    digits(&value[..end]).filter(|_| ends_well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiration_times_are_cut_to_32_bits() {
        let read = |text: &str| exptime(text.as_bytes()).map(|time| time.0);
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("-1"), Some(-1));
        assert_eq!(read("+5"), Some(5));
        assert_eq!(read("007"), Some(7));
        assert_eq!(read("99999999999"), Some(99_999_999_999i64 as i32));
        assert_eq!(read("-9223372036854775808"), Some(0));
        for bad in ["", "-", "5x", "1.5", "0x5", "9223372036854775808", " 1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_value_is_a_number_with_blanks_around_it() {
        let read = |text: &str| number_from(text.as_bytes());
        assert_eq!(read("10"), Some(10));
        assert_eq!(read("  +9  "), Some(9));
        assert_eq!(read("5 x"), Some(5));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        for bad in ["", "-5", "5x", "x", "18446744073709551616", " "] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn flags_wrap_in_classic_commands_and_must_fit_in_meta_ones() {
        assert_eq!(wrapping_u32(b"4294967296"), Some(0));
        assert_eq!(wrapping_u32(b"-1"), None);
        assert_eq!(exact_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(exact_u32(b"4294967296"), None);
    }
}
