//! Values of columns in row images. Values of all types are skipped; integers, years and texts are
//! also decoded.

use crate::source::Value;
use guira_sql::Bytes;

/// Column types by their numbers in the log.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const NEWDATE: u8 = 14;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const BIT: u8 = 16;
    pub(super) const TIMESTAMP2: u8 = 17;
    pub(super) const DATETIME2: u8 = 18;
    pub(super) const TIME2: u8 = 19;
    pub(super) const BLOB_COMPRESSED: u8 = 140;
    pub(super) const VARCHAR_COMPRESSED: u8 = 141;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const JSON: u8 = 245;
    pub(super) const NEWDECIMAL: u8 = 246;
    pub(super) const ENUM: u8 = 247;
    pub(super) const SET: u8 = 248;
    pub(super) const BLOB: u8 = 252;
    pub(super) const VAR_STRING: u8 = 253;
    pub(super) const STRING: u8 = 254;
    pub(super) const GEOMETRY: u8 = 255;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    kind: u8,
    /// Details of the type; see [`Column::read`].
    detail: [u8; 2],
    is_unsigned: bool,
}

impl Column {
    /// A column of this type, with its details. `None` for an unknown type.
    pub(super) fn read(kind: u8, details: &mut Bytes<'_>) -> Option<Self> {
        let length = match kind {
            kind::FLOAT | kind::DOUBLE => 1,
            kind::BLOB | kind::BLOB_COMPRESSED | kind::VECTOR | kind::JSON | kind::GEOMETRY => 1,
            kind::TIMESTAMP2 | kind::DATETIME2 | kind::TIME2 => 1,
            kind::VARCHAR | kind::VARCHAR_COMPRESSED | kind::VAR_STRING | kind::BIT => 2,
            kind::NEWDECIMAL | kind::STRING | kind::ENUM | kind::SET => 2,
            kind::TINY..=kind::LONG | kind::NULL..=kind::NEWDATE => 0,
            _ => return None,
        };
        let mut detail = [0; 2];
        detail[..length].copy_from_slice(details.take(length)?);
        Some(Column { kind, detail, is_unsigned: false })
    }

    /// Whether the type is MySQL's JSON, which has no text; MariaDB's JSON is text.
    pub(super) fn is_json(&self) -> bool {
        self.kind == kind::JSON
    }

    pub(super) fn set_unsigned(&mut self) {
        self.is_unsigned = true;
    }

    /// Whether the log has the sign of columns of this type.
    pub(super) fn has_sign(&self) -> bool {
        matches!(
            self.kind,
            kind::TINY
                | kind::SHORT
                | kind::INT24
                | kind::LONG
                | kind::LONGLONG
                | kind::FLOAT
                | kind::DOUBLE
                | kind::NEWDECIMAL
                | kind::YEAR
        )
    }

    /// Reads a value that is not NULL.
    pub(super) fn value<'a>(&self, bytes: &mut Bytes<'a>) -> Option<Value<'a>> {
        let [first, second] = self.detail.map(usize::from);
        let fraction = first.div_ceil(2);
        let skipped = match self.kind {
            kind::TINY => return self.integer(bytes, 1),
            kind::SHORT => return self.integer(bytes, 2),
            kind::INT24 => return self.integer(bytes, 3),
            kind::LONG => return self.integer(bytes, 4),
            kind::LONGLONG => return self.integer(bytes, 8),
            kind::YEAR => return year(bytes.byte()?),
            kind::VARCHAR | kind::VAR_STRING => {
                return text(bytes, usize::from(u16::from_le_bytes(self.detail)));
            }
            kind::BLOB => {
                let length = usize::try_from(bytes.number(first)?).ok()?;
                return bytes.take(length).map(Value::Bytes);
            }
            kind::STRING => return self.string(bytes),
            kind::VARCHAR_COMPRESSED => {
                text(bytes, usize::from(u16::from_le_bytes(self.detail)))?;
                0
            }
            kind::BLOB_COMPRESSED | kind::VECTOR | kind::JSON | kind::GEOMETRY => {
                usize::try_from(bytes.number(first)?).ok()?
            }
            kind::NULL => 0,
            kind::FLOAT | kind::TIMESTAMP => 4,
            kind::DOUBLE | kind::DATETIME => 8,
            kind::DATE | kind::TIME | kind::NEWDATE => 3,
            kind::TIMESTAMP2 => 4 + fraction,
            kind::DATETIME2 => 5 + fraction,
            kind::TIME2 => 3 + fraction,
            kind::NEWDECIMAL => decimal_length(first, second)?,
            kind::BIT => second + usize::from(first > 0),
            kind::ENUM | kind::SET => second,
            _ => return None,
        };
        bytes.take(skipped).map(|_| Value::Other)
    }

    fn integer<'a>(&self, bytes: &mut Bytes<'a>, length: usize) -> Option<Value<'a>> {
        let number = bytes.number(length)?;
        if self.is_unsigned {
            return Some(Value::Unsigned(number));
        }
        let unused = 64 - 8 * length;
        Some(Value::Signed(((number << unused) as i64) >> unused))
    }

    /// Reads CHAR, BINARY and types stored like them. The first detail is the real type; two bits
    /// of a long length are hidden in it.
    fn string<'a>(&self, bytes: &mut Bytes<'a>) -> Option<Value<'a>> {
        const HIDDEN: u8 = 0x30;
        let [first, second] = self.detail;
        match first {
            kind::ENUM | kind::SET => bytes.take(usize::from(second)).map(|_| Value::Other),
            _ => {
                let high = usize::from((first & HIDDEN) ^ HIDDEN) << 4;
                text(bytes, high | usize::from(second))
            }
        }
    }
}

/// Reads a text of at most `max` bytes with its length.
fn text<'a>(bytes: &mut Bytes<'a>, max: usize) -> Option<Value<'a>> {
    let length = bytes.number(if max > 255 { 2 } else { 1 })?;
    bytes.take(usize::try_from(length).ok()?).map(Value::Bytes)
}

/// 0 is the year 0000, which a key has as `0`.
fn year(byte: u8) -> Option<Value<'static>> {
    Some(Value::Unsigned(if byte == 0 { 0 } else { 1900 + u64::from(byte) }))
}

/// The bytes of a number with this many digits, of which `behind` are behind the decimal point.
fn decimal_length(digits: usize, behind: usize) -> Option<usize> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let before = digits.checked_sub(behind)?;
    Some([before, behind].map(|digits| digits / 9 * 4 + BYTES[digits % 9]).iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    fn column(kind: u8, details: &[u8]) -> Column {
        Column::read(kind, &mut Bytes(details)).unwrap()
    }

    #[test]
    fn integers_have_a_sign_or_none() {
        let read = |kind, is_unsigned, bytes: &'static [u8]| {
            let mut column = column(kind, &[]);
            if is_unsigned {
                column.set_unsigned();
            }
            let mut bytes = Bytes(bytes);
            let value = column.value(&mut bytes).unwrap();
            assert!(bytes.is_empty());
            value
        };
        assert_eq!(read(kind::TINY, false, &[0xff]), Value::Signed(-1));
        assert_eq!(read(kind::TINY, true, &[0xc8]), Value::Unsigned(200));
        assert_eq!(read(kind::SHORT, false, &[0x00, 0x80]), Value::Signed(-32768));
        assert_eq!(read(kind::INT24, false, &[0x90, 0xee, 0xfe]), Value::Signed(-70000));
        assert_eq!(read(kind::INT24, false, &[0xff, 0xff, 0x7f]), Value::Signed(8_388_607));
        assert_eq!(read(kind::LONG, true, &[0x00, 0x28, 0x6b, 0xee]), Value::Unsigned(4_000_000_000));
        assert_eq!(read(kind::LONGLONG, false, &[0xff; 8]), Value::Signed(-1));
        assert_eq!(read(kind::LONGLONG, true, &[0xff; 8]), Value::Unsigned(u64::MAX));
        assert_eq!(read(kind::YEAR, false, &[0x7e]), Value::Unsigned(2026));
    }

    #[test]
    fn texts_have_lengths_of_one_byte_or_two() {
        let read = |column: Column, bytes: &[u8]| match column.value(&mut Bytes(bytes)) {
            Some(Value::Bytes(text)) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(column(kind::VARCHAR, &[255, 0]), b"\x02ab"), "ab");
        assert_eq!(read(column(kind::VARCHAR, &[0, 1]), b"\x02\0ab"), "ab");
        assert_eq!(read(column(kind::STRING, &[0xfe, 20]), b"\x03abc"), "abc");
        // CHAR(255) of utf8mb4: 1020 bytes.
        assert_eq!(read(column(kind::STRING, &[0xce, 0xfc]), b"\x03\0abc"), "abc");
        assert_eq!(read(column(kind::BLOB, &[2]), b"\x04\0blob"), "blob");
        assert_eq!(column(kind::BLOB, &[4]).value(&mut Bytes(b"\xff\xff\xff\xffab")), None);
    }

    #[test]
    fn other_types_are_skipped() {
        // Types and details of a table of MariaDB 10.11.19, and the lengths of its values.
        let skipped: [(u8, &[u8], usize); 12] = [
            (kind::STRING, &[kind::ENUM, 1], 1),
            (kind::STRING, &[kind::SET, 1], 1),
            (kind::NEWDECIMAL, &[12, 3], 6),
            (kind::DOUBLE, &[8], 8),
            (kind::FLOAT, &[4], 4),
            (kind::DATETIME2, &[3], 7),
            (kind::TIMESTAMP2, &[6], 7),
            (kind::TIME2, &[0], 3),
            (kind::DATE, &[], 3),
            (kind::BIT, &[2, 1], 2),
            (kind::BIT, &[0, 1], 1),
            (kind::NEWDECIMAL, &[65, 30], 30),
        ];
        for (kind, details, length) in skipped {
            let data = unhex(&"00".repeat(40));
            let mut bytes = Bytes(&data);
            assert_eq!(column(kind, details).value(&mut bytes), Some(Value::Other), "type {kind}");
            assert_eq!(40 - bytes.0.len(), length, "type {kind}");
        }
        assert_eq!(Column::read(99, &mut Bytes(&[0; 9])), None);
        assert_eq!(column(kind::NEWDECIMAL, &[3, 12]).value(&mut Bytes(&[0; 40])), None);
    }
}
