//! Positions in MariaDB's log: the last transaction of each domain.

use crate::source::position::{Kind, PositionSyntax, number, parse};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gtid {
    pub(super) domain: u32,
    pub(super) server: u32,
    pub(super) sequence: u64,
}

/// The last transaction of each domain, as `0-1-270,1-1-5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position(BTreeMap<u32, (u32, u64)>);

impl Position {
    /// Everything up to this transaction was read.
    pub(super) fn advance(&mut self, gtid: Gtid) {
        self.0.insert(gtid.domain, (gtid.server, gtid.sequence));
    }

    /// Goes back in a domain to where `before` is in it.
    pub(super) fn put_back(&mut self, domain: u32, before: &Position) {
        match before.0.get(&domain) {
            Some(last) => self.0.insert(domain, *last),
            None => self.0.remove(&domain),
        };
    }

    /// Adds to this position everything that `other` has read.
    pub(super) fn join(&mut self, other: &Position) {
        for (domain, last) in &other.0 {
            let own = self.0.entry(*domain).or_insert(*last);
            if own.1 < last.1 {
                *own = *last;
            }
        }
    }

    pub(super) fn contains(&self, gtid: &Gtid) -> bool {
        self.0.get(&gtid.domain).is_some_and(|(_, sequence)| *sequence >= gtid.sequence)
    }

    /// Whether everything in `other` has been read at this position.
    pub(super) fn has_reached(&self, other: &Position) -> bool {
        other
            .0
            .iter()
            .all(|(domain, (_, sequence))| self.0.get(domain).is_some_and(|(_, own)| own >= sequence))
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (domain, (server, sequence))) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(formatter, "{comma}{domain}-{server}-{sequence}")?;
        }
        Ok(())
    }
}

const KIND: Kind = Kind { of: "MariaDB", example: "0-1-270" };

impl FromStr for Position {
    type Err = PositionSyntax;

    fn from_str(text: &str) -> Result<Self, PositionSyntax> {
        parse(text, KIND, read)
    }
}

fn read(text: &str) -> Option<Position> {
    let mut position = Position::default();
    for gtid in text.split(',').filter(|_| !text.is_empty()) {
        let numbers: Vec<&str> = gtid.split('-').collect();
        let [domain, server, sequence] = numbers[..] else { return None };
        let gtid = Gtid { domain: number(domain)?, server: number(server)?, sequence: number(sequence)? };
        if position.0.contains_key(&gtid.domain) {
            return None;
        }
        position.advance(gtid);
    }
    Some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_has_the_last_transaction_of_each_domain() {
        let mut position: Position = "1-1-5,0-1-270".parse().unwrap();
        assert_eq!(position.to_string(), "0-1-270,1-1-5");
        position.advance(Gtid { domain: 1, server: 2, sequence: 6 });
        position.advance(Gtid { domain: 7, server: 2, sequence: u64::MAX });
        assert_eq!(position.to_string(), "0-1-270,1-2-6,7-2-18446744073709551615");
        assert_eq!("".parse::<Position>().unwrap().to_string(), "");
    }

    #[test]
    fn a_position_is_reached_when_each_domain_is() {
        let position: Position = "0-1-270,1-1-5".parse().unwrap();
        for (other, expected) in [
            ("", true),
            ("0-1-270", true),
            ("0-2-270,1-1-5", true),
            ("0-1-271,1-1-5", false),
            ("0-1-1,1-1-6", false),
            ("0-1-1,2-1-1", false),
        ] {
            assert_eq!(position.has_reached(&other.parse().unwrap()), expected, "{other}");
        }
    }

    #[test]
    fn a_domain_is_put_back_alone() {
        let before: Position = "0-1-5,1-1-5".parse().unwrap();
        let mut position: Position = "0-2-270,1-1-6,2-1-1".parse().unwrap();
        position.put_back(0, &before);
        position.put_back(2, &before);
        assert_eq!(position.to_string(), "0-1-5,1-1-6");
    }

    #[test]
    fn two_positions_have_what_either_has() {
        let mut position: Position = "0-1-5,1-1-6".parse().unwrap();
        position.join(&"0-2-7,1-1-5,2-1-1".parse().unwrap());
        assert_eq!(position.to_string(), "0-2-7,1-1-6,2-1-1");
        for (sequence, expected) in [(7, true), (8, false)] {
            assert_eq!(position.contains(&Gtid { domain: 0, server: 1, sequence }), expected);
        }
        assert!(!position.contains(&Gtid { domain: 3, server: 1, sequence: 1 }));
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in [
            "0",
            "0-1",
            "0-1-2-3",
            "0-1-",
            "a-1-2",
            "0-1-2,",
            "0-1-2,0-1-3",
            "+0-1-2",
            "0-1-2'",
            " 0-1-2",
            "4294967296-1-1",
        ] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
