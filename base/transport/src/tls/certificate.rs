//! The fields of a certificate that are reported: validity and subject. The library verifies certificates; this only
//! parses to the fields (RFC 5280 §4.1, in the encoding of X.690).

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateFacts {
    /// The last second of its validity, since 1970.
    pub(super) not_after: i64,
    /// The first common name of its subject.
    pub(super) common_name: Option<String>,
}

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version, which is optional.
const EXPLICIT_0: u8 = 0xa0;

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The next element's tag and contents. `None` at the end, or if the encoding is invalid.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let digits = usize::from(first & 0x7f);
            // Certificates longer than 4 GiB, and indefinite lengths, are invalid.
            if !(1..=4).contains(&digits) || rest.len() < digits {
                return None;
            }
            let (digits, rest) = rest.split_at(digits);
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        };
        if rest.len() < length {
            return None;
        }
        let (contents, rest) = rest.split_at(length);
        self.0 = rest;
        Some((tag, contents))
    }

    /// The contents of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
    }
}

/// Parses a certificate; `None` if it is invalid.
pub(super) fn facts(der: &[u8]) -> Option<CertificateFacts> {
    let mut certificate = Elements(Elements(der).expect(SEQUENCE)?);
    let mut body = Elements(certificate.expect(SEQUENCE)?);
    if body.0.first() == Some(&EXPLICIT_0) {
        body.next()?;
    }
    body.expect(INTEGER)?;
    let _algorithm = body.expect(SEQUENCE)?;
    let _issuer = body.expect(SEQUENCE)?;
    let mut validity = Elements(body.expect(SEQUENCE)?);
    let _not_before = validity.next()?;
    let (tag, not_after) = validity.next()?;
    let subject = body.expect(SEQUENCE)?;
    Some(CertificateFacts { not_after: time(tag, not_after)?, common_name: common_name(subject) })
}

/// The first common name of a name; `None` if it is in an encoding that cannot be compared reliably.
fn common_name(name: &[u8]) -> Option<String> {
    let mut parts = Elements(name);
    while let Some(part) = parts.expect(SET) {
        let mut pairs = Elements(part);
        while let Some(pair) = pairs.expect(SEQUENCE) {
            let mut pair = Elements(pair);
            if pair.expect(OBJECT_IDENTIFIER)? != COMMON_NAME {
                continue;
            }
            let (tag, text) = pair.next()?;
            return match tag {
                UTF8_STRING | PRINTABLE_STRING | IA5_STRING => String::from_utf8(text.to_vec()).ok(),
                BMP_STRING if text.len() % 2 == 0 => {
                    let units = text.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
                    String::from_utf16(&units.collect::<Vec<_>>()).ok()
                }
                _ => None,
            };
        }
    }
    None
}

/// A time in seconds since 1970: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 §4.1.2.5).
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, to: usize| {
        digits[from..to].iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    };
    let (year, at) = match (tag, digits.len()) {
        // Two digits stand for the years from 1950 to 2049.
        (UTC_TIME, 12) if number(0, 2) >= 50 => (1900 + number(0, 2), 2),
        (UTC_TIME, 12) => (2000 + number(0, 2), 2),
        (GENERALIZED_TIME, 14) => (number(0, 4), 4),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|field| number(at + field, at + field + 2));
    let sound = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sound || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days since 1 January 1970, in the Gregorian calendar. Years begin in March here, so that the leap day is the last
/// of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, date_time_ymd};

    fn certificate(name: Option<DnValue>, year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "somebody");
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.not_after = date_time_ymd(year, 2, 28);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_and_the_name_are_found_in_both_ways_of_writing_a_time() {
        // `date -u -d 2049-02-28 +%s`, and so on.
        for (year, seconds) in [(2049, 2_498_083_200), (2050, 2_529_619_200), (2400, 13_574_476_800)] {
            let found = facts(&certificate(Some("client-1".into()), year)).unwrap();
            assert_eq!(found.not_after, seconds);
            assert_eq!(found.common_name.as_deref(), Some("client-1"));
        }
    }

    #[test]
    fn names_of_several_kinds_are_read_and_none_is_none() {
        let kinds = [
            (DnValue::Utf8String("gruß".into()), "gruß"),
            (DnValue::PrintableString("a b".try_into().unwrap()), "a b"),
            (DnValue::Ia5String("x@y".try_into().unwrap()), "x@y"),
            (DnValue::BmpString("ab".try_into().unwrap()), "ab"),
        ];
        for (value, expected) in kinds {
            let found = facts(&certificate(Some(value), 2030)).unwrap();
            assert_eq!(found.common_name.as_deref(), Some(expected));
        }
        assert_eq!(facts(&certificate(None, 2030)).unwrap().common_name, None);
    }

    #[test]
    fn times_are_counted_as_calendars_do() {
        let cases: [(u8, &str, Option<i64>); 12] = [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "691231235959Z", Some(-1)),
            (UTC_TIME, "000229000000Z", Some(951_782_400)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (GENERALIZED_TIME, "20501301000000Z", None),
            (GENERALIZED_TIME, "20500101000000", None),
            (UTC_TIME, "7001010000Z", None),
            (UTC_TIME, "70010100000xZ", None),
            (UTF8_STRING, "700101000000Z", None),
        ];
        for (tag, text, expected) in cases {
            assert_eq!(time(tag, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn no_broken_certificate_is_a_panic() {
        let whole = certificate(Some("name".into()), 2030);
        for length in 0..whole.len() {
            assert_eq!(facts(&whole[..length]), None, "cut at {length}");
        }
        for at in 0..whole.len() {
            for value in [0x00, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                // It may still parse; it must not panic.
                let _ = facts(&broken);
            }
        }
        assert_eq!(facts(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(facts(&[SEQUENCE, 0x80, 0, 0]), None);
    }
}
