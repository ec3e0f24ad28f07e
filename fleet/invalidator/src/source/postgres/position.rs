//! Positions in PostgreSQL's log.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A place in the log, as `16/B374D848`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lsn(pub(super) u64);

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Lsn {
    type Err = PositionSyntax;

    fn from_str(text: &str) -> Result<Self, PositionSyntax> {
        let wrong = || PositionSyntax(text.to_owned());
        let half = |digits: &str| {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten().map(u64::from)
        };
        let (high, low) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Lsn(half(high).ok_or_else(wrong)? << 32 | half(low).ok_or_else(wrong)?))
    }
}

/// A place in the log of a database, as `7412345678901234567-1-16/B374D848`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// What tells databases from each other.
    pub(super) system: u64,
    /// What tells the database before a recovery or a failover from that after it.
    pub(super) timeline: u32,
    pub(super) lsn: Lsn,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.system, self.timeline, self.lsn)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no position in a log of PostgreSQL, such as 7412345678901234567-1-16/B374D848")]
pub(super) struct PositionSyntax(String);

impl FromStr for Position {
    type Err = PositionSyntax;

    fn from_str(text: &str) -> Result<Self, PositionSyntax> {
        let wrong = || PositionSyntax(text.to_owned());
        let parts: Vec<&str> = text.split('-').collect();
        let [system, timeline, lsn] = parts[..] else { return Err(wrong()) };
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(system) || !is_number(timeline) {
            return Err(wrong());
        }
        let not_so = |_: ParseIntError| wrong();
        Ok(Position {
            system: system.parse().map_err(not_so)?,
            timeline: timeline.parse().map_err(not_so)?,
            lsn: lsn.parse().map_err(|_| wrong())?,
        })
    }
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
        assert_eq!("0/0".parse(), Ok(Lsn(0)));
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
