//! Positions in PostgreSQL's log.

use crate::source::position::{Kind, PositionSyntax, number, parse};
use std::fmt;
use std::str::FromStr;

/// A place in the log, as `16/B374D848`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lsn(pub(super) u64);

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl Lsn {
    pub(super) fn read(text: &str) -> Option<Self> {
        let half = |digits: &str| {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten().map(u64::from)
        };
        let (high, low) = text.split_once('/')?;
        Some(Lsn(half(high)? << 32 | half(low)?))
    }
}

/// A place in the log of a database, as `7412345678901234567-1-16/B374D848`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Identifies the database cluster (`systemid`).
    pub(super) system: u64,
    /// The timeline: it changes with a recovery or a failover.
    pub(super) timeline: u32,
    pub(super) lsn: Lsn,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.system, self.timeline, self.lsn)
    }
}

const KIND: Kind = Kind { of: "PostgreSQL", example: "7412345678901234567-1-16/B374D848" };

impl FromStr for Position {
    type Err = PositionSyntax;

    fn from_str(text: &str) -> Result<Self, PositionSyntax> {
        parse(text, KIND, read)
    }
}

fn read(text: &str) -> Option<Position> {
    let parts: Vec<&str> = text.split('-').collect();
    let [system, timeline, lsn] = parts[..] else { return None };
    Some(Position { system: number(system)?, timeline: number(timeline)?, lsn: Lsn::read(lsn)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_and_read() {
        let text = "7412345678901234567-1-16/B374D848";
        let position: Position = text.parse().unwrap();
        assert_eq!(position.lsn, Lsn(0x16_b374_d848));
        assert_eq!(position.to_string(), text);
        assert_eq!(Lsn::read("0/0"), Some(Lsn(0)));
        assert!(Lsn(0xffff_ffff) < Lsn(1 << 32));
    }

    #[test]
    fn other_texts_are_no_positions() {
        let long = "1-1-100000000/0";
        for text in
            ["", "0-1-270", "1-1-0/", "1-1-/0", "1-1-0/0-", "1-1-+1/0", "+1-1-0/0", "1-1-G/0", "-1-0/0", long]
        {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
