//! Positions in MySQL's log: the set of all transactions that were read.

use crate::source::position::{Kind, PositionSyntax, number, parse};
use guira_sql::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The bytes of a server's UUID, and its groups of digits.
const UUID: usize = 16;
const UUID_DIGITS: [usize; 5] = [8, 4, 4, 4, 12];
/// The longest tag, in bytes.
const TAG_MAX: usize = 32;
/// One more than the highest transaction number.
const NUMBER_END: u64 = i64::MAX as u64;
/// The format of sets with tags; sets without have the format 0.
const TAGGED: u64 = 1;

/// The source that numbers a transaction: a server, alone or with a tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    server: [u8; UUID],
    /// Empty for no tag.
    tag: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gtid {
    origin: Origin,
    number: u64,
}

impl Gtid {
    /// Reads the body of a GTID event.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let _flags = bytes.byte()?;
        let server = bytes.take(UUID)?.try_into().ok()?;
        Self::of(Origin { server, tag: String::new() }, bytes.number(8)?)
    }

    /// Reads the body of a GTID_TAGGED event, whose fields have numbers and are in order.
    pub(super) fn read_tagged(body: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let (_version, _length, _last) = (varied(&mut bytes)?, varied(&mut bytes)?, varied(&mut bytes)?);
        let field = |bytes: &mut Bytes<'_>, expected| varied(bytes).filter(|field| *field == expected);
        field(&mut bytes, 0)?;
        let _flags = varied(&mut bytes)?;
        field(&mut bytes, 1)?;
        let mut server = [0; UUID];
        for byte in &mut server {
            *byte = u8::try_from(varied(&mut bytes)?).ok()?;
        }
        field(&mut bytes, 2)?;
        // Its lowest bit is the sign.
        let number = varied(&mut bytes).filter(|number| number & 1 == 0)? >> 1;
        field(&mut bytes, 3)?;
        let length = usize::try_from(varied(&mut bytes)?).ok()?;
        let tag = str::from_utf8(bytes.take(length)?).ok().filter(|tag| tag.is_empty() || is_tag(tag))?;
        Self::of(Origin { server, tag: tag.to_owned() }, number)
    }

    fn of(origin: Origin, number: u64) -> Option<Self> {
        (1..NUMBER_END).contains(&number).then_some(Gtid { origin, number })
    }
}

/// Reads an integer of variable length: the low one bits of its first byte count the further bytes.
fn varied(bytes: &mut Bytes<'_>) -> Option<u64> {
    let further = bytes.0.first()?.trailing_ones() as usize;
    if further == 8 {
        bytes.take(1)?;
        return bytes.number(8);
    }
    bytes.number(further + 1).map(|number| number >> (further + 1))
}

/// The first and the last number.
type Range = (u64, u64);

/// A set of transactions, such as `UUID:1-5:8,UUID:1-3:TAG:1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GtidSet(BTreeMap<Origin, Vec<Range>>);

impl GtidSet {
    pub(super) fn add(&mut self, gtid: &Gtid) {
        let ranges = self.0.entry(gtid.origin.clone()).or_default();
        insert(ranges, (gtid.number, gtid.number));
    }

    pub(super) fn remove(&mut self, Gtid { origin, number }: &Gtid) {
        let Some(ranges) = self.0.get_mut(origin) else { return };
        let (first, last) = (1, NUMBER_END);
        let kept = ranges.iter().flat_map(|range| {
            [intersection(*range, (first, number - 1)), intersection(*range, (number + 1, last))]
        });
        *ranges = kept.flatten().collect();
        if ranges.is_empty() {
            self.0.remove(origin);
        }
    }

    /// Whether all of `other` is in this set.
    pub(super) fn contains(&self, other: &GtidSet) -> bool {
        other.0.iter().all(|(origin, ranges)| {
            let own = self.0.get(origin).map_or(&[][..], Vec::as_slice);
            let is_within = |(first, last): &Range| own.iter().any(|(from, to)| from <= first && last <= to);
            ranges.iter().all(is_within)
        })
    }

    /// The set in the encoding of the command that requests all other transactions.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let has_tags = self.0.keys().any(|origin| !origin.tag.is_empty());
        let count = self.0.len() as u64;
        let head = if has_tags { TAGGED << 56 | count << 8 | TAGGED } else { count };
        let mut bytes = head.to_le_bytes().to_vec();
        for (origin, ranges) in &self.0 {
            bytes.extend(origin.server);
            if has_tags {
                // A length of up to 63 takes one byte, whose lowest bit is zero.
                bytes.push((origin.tag.len() as u8) << 1);
                bytes.extend(origin.tag.bytes());
            }
            bytes.extend((ranges.len() as u64).to_le_bytes());
            for (first, last) in ranges {
                bytes.extend(first.to_le_bytes());
                bytes.extend((last + 1).to_le_bytes());
            }
        }
        bytes
    }
}

/// Adds a range to ranges that are sorted and do not touch.
fn insert(ranges: &mut Vec<Range>, (mut first, mut last): Range) {
    let begin = ranges.partition_point(|(_, to)| to + 1 < first);
    let end = ranges.partition_point(|(from, _)| *from <= last + 1);
    for (from, to) in &ranges[begin..end] {
        (first, last) = (first.min(*from), last.max(*to));
    }
    ranges.splice(begin..end, [(first, last)]);
}

fn intersection((first, last): Range, (from, to): Range) -> Option<Range> {
    let both = (first.max(from), last.min(to));
    (both.0 <= both.1).then_some(both)
}

fn is_tag(text: &str) -> bool {
    let is_good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.len() <= TAG_MAX
        && text.bytes().all(is_good)
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.server.iter();
        for (index, digits) in UUID_DIGITS.into_iter().enumerate() {
            formatter.write_str(if index > 0 { "-" } else { "" })?;
            for byte in bytes.by_ref().take(digits / 2) {
                write!(formatter, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.origin.tag.is_empty() { "" } else { ":" };
        write!(formatter, "{}{colon}{}:{}", self.origin, self.origin.tag, self.number)
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<&Origin> = None;
        for (origin, ranges) in &self.0 {
            match before {
                Some(before) if before.server == origin.server => {}
                _ => write!(formatter, "{}{origin}", if before.is_some() { "," } else { "" })?,
            }
            if !origin.tag.is_empty() {
                write!(formatter, ":{}", origin.tag)?;
            }
            for (first, last) in ranges {
                write!(formatter, ":{first}")?;
                if last > first {
                    write!(formatter, "-{last}")?;
                }
            }
            before = Some(origin);
        }
        Ok(())
    }
}

const KIND: Kind = Kind { of: "MySQL", example: "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77" };

impl FromStr for GtidSet {
    type Err = PositionSyntax;

    /// Reads the output of [`fmt::Display`], and sets as a server writes them, with blanks behind
    /// commas.
    fn from_str(text: &str) -> Result<Self, PositionSyntax> {
        parse(text, KIND, read)
    }
}

fn read(text: &str) -> Option<GtidSet> {
    let mut set = GtidSet::default();
    for of_server in text.split(',').map(str::trim_ascii).filter(|_| !text.is_empty()) {
        let mut words = of_server.split(':').peekable();
        let server = uuid(words.next()?)?;
        let mut tag = String::new();
        words.peek()?;
        while let Some(word) = words.next() {
            let lower = word.to_ascii_lowercase();
            if is_tag(&lower) {
                tag = lower;
                words.peek()?;
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let range: Range = (number(first)?, number(last)?);
            if range.0 < 1 || range.0 > range.1 || range.1 >= NUMBER_END {
                return None;
            }
            insert(set.0.entry(Origin { server, tag: tag.clone() }).or_default(), range);
        }
    }
    Some(set)
}

fn uuid(text: &str) -> Option<[u8; UUID]> {
    let groups = text.split('-').map(str::len);
    let is_uuid = groups.eq(UUID_DIGITS) && text.bytes().all(|it| it == b'-' || it.is_ascii_hexdigit());
    let digits = text.replace('-', "");
    let byte = |index: usize| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok();
    let bytes: Option<Vec<u8>> = if is_uuid { (0..UUID).map(byte).collect() } else { None };
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "8b9875c4-e970-11f1-8f31-02fc00000001";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    fn gtid(text: &str) -> Gtid {
        let set = set(text);
        let (origin, ranges) = set.0.into_iter().next().unwrap();
        Gtid { origin, number: ranges[0].0 }
    }

    #[test]
    fn sets_are_written_as_a_server_writes_them() {
        for text in ["".to_owned(), format!("{A}:1-77"), format!("{A}:1-5:8,{B}:1-30:a:1:some_tag:1-2:9")] {
            assert_eq!(set(&text).to_string(), text);
        }
        assert_eq!(set(&format!("{B}:2:1, {A}:7")).to_string(), format!("{A}:7,{B}:1-2"));
        assert_eq!(set(&format!("{}:T_1:4", A.to_uppercase())).to_string(), format!("{A}:t_1:4"));
        assert_eq!(gtid(&format!("{A}:tag:4")).to_string(), format!("{A}:tag:4"));
    }

    #[test]
    fn other_texts_are_no_sets() {
        let wrong = [
            "1-5",
            "0-1-270",
            &A[1..],
            A,
            &format!("{A}:"),
            &format!("{A}:0"),
            &format!("{A}:5-4"),
            &format!("{A}:+1"),
            &format!("{A}:1-9223372036854775807"),
            &format!("{A}:1,"),
            &format!("{A}:tag"),
            &format!("{A}:{}:1", "x".repeat(33)),
            &format!("{A}:1'"),
            &A.replace("3e11fa47-", "3e11fa-47"),
            &format!("{}é:1", &A[2..]),
        ];
        for text in wrong {
            assert!(text.parse::<GtidSet>().is_err(), "{text}");
        }
        let error = "0-1-270".parse::<GtidSet>().unwrap_err().to_string();
        assert!(error.contains("a log position of MySQL, such as 3e11fa47-"), "{error}");
    }

    #[test]
    fn transactions_are_added_and_removed_one_by_one() {
        let mut own = set(&format!("{A}:3"));
        for (number, expected) in
            [(5, "3:5"), (1, "1:3:5"), (2, "1-3:5"), (4, "1-5"), (4, "1-5"), (6, "1-6"), (9, "1-6:9")]
        {
            own.add(&gtid(&format!("{A}:{number}")));
            assert_eq!(own.to_string(), format!("{A}:{expected}"));
        }
        for (number, expected) in [(9, "1-6"), (7, "1-6"), (3, "1-2:4-6"), (1, "2:4-6"), (6, "2:4-5")] {
            own.remove(&gtid(&format!("{A}:{number}")));
            assert_eq!(own.to_string(), format!("{A}:{expected}"));
        }
        own.remove(&gtid(&format!("{A}:tag:2")));
        own.remove(&gtid(&format!("{B}:2")));
        for number in [2, 4, 5] {
            own.remove(&gtid(&format!("{A}:{number}")));
        }
        assert_eq!(own, GtidSet::default());
    }

    #[test]
    fn a_set_contains_others() {
        let own = set(&format!("{A}:1-5:8-9,{B}:1-3:t:1"));
        for (other, expected) in [
            (String::new(), true),
            (format!("{A}:2-4:9"), true),
            (format!("{A}:5-8"), false),
            (format!("{A}:1-5,{B}:t:1"), true),
            (format!("{A}:1-5,{B}:t:2"), false),
            (format!("{B}:u:1"), false),
        ] {
            assert_eq!(own.contains(&set(&other)), expected, "{other}");
        }
    }

    /// The GTID lists at the start of files of MySQL 9.7.4 have the same encoding.
    #[test]
    fn sets_are_encoded_as_a_server_does() {
        let plain = "0100000000000000 8b9875c4e97011f18f3102fc00000001 0100000000000000 0100000000000000 1300000000000000";
        assert_eq!(set(&format!("{B}:1-18")).encoded(), unhex(plain));
        let tagged = "01030000000000018b9875c4e97011f18f3102fc0000000100010000000000000001000000000000001f000000000000008b9875c4e97011f18f3102fc00
            00000102610100000000000000010000000000000002000000000000008b9875c4e97011f18f3102fc0000000110736f6d655f746167010000000000000001000000000000
            000200000000000000";
        assert_eq!(set(&format!("{B}:1-30:a:1:some_tag:1")).encoded(), unhex(tagged));
        assert_eq!(GtidSet::default().encoded(), [0; 8]);
    }

    /// GTIDs as MySQL 9.7.4 sends them.
    #[test]
    fn gtids_are_read_with_tags_and_without() {
        let plain = unhex("008b9875c4e97011f18f3102fc000000010300000000000000020200000000000000");
        assert_eq!(Gtid::read(&plain), Some(gtid(&format!("{B}:3"))));
        let tagged = unhex(
            "027a000000022d026102ea1103a503e022c5033d026204f1030000000204040610736f6d655f746167081c0a200c7f3880167c296106107d131283120b",
        );
        assert_eq!(Gtid::read_tagged(&tagged), Some(gtid(&format!("{B}:some_tag:1"))));
        for length in 0..25 {
            assert_eq!(Gtid::read(&plain[..length]), None, "{length} bytes");
        }
        for length in 0..41 {
            assert_eq!(Gtid::read_tagged(&tagged[..length]), None, "{length} bytes");
        }
        assert_eq!(Gtid::read(&[0; 25]), None, "there is no transaction 0");
    }

    #[test]
    fn numbers_say_by_their_ends_how_long_they_are() {
        for (hex, expected) in [
            ("04", 2),
            ("2d02", 0x8b),
            ("1b0000", 0x03),
            ("7f0102030405060708", 0x0007_0605_0403_0201),
            ("ff0102030405060708", 0x0807_0605_0403_0201),
        ] {
            assert_eq!(varied(&mut Bytes(&unhex(hex))), Some(expected), "{hex}");
        }
        assert_eq!(varied(&mut Bytes(&unhex("ff01"))), None);
    }
}
