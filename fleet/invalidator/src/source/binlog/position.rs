//! How far a log of either product was read.

use super::gtid;
use super::gtid_set::{self, GtidSet};
use super::options::Product;
use crate::source::SourceError;
use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gtid {
    MariaDb(gtid::Gtid),
    MySql(gtid_set::Gtid),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    MariaDb(gtid::Position),
    MySql(GtidSet),
}

impl Position {
    pub(super) fn parse(product: Product, text: &str) -> Result<Self, SourceError> {
        Ok(match product {
            Product::MariaDb => Position::MariaDb(text.parse()?),
            Product::MySql => Position::MySql(text.parse()?),
        })
    }

    pub(super) fn advance(&mut self, gtid: &Gtid) -> Result<(), SourceError> {
        match (self, gtid) {
            (Position::MariaDb(position), Gtid::MariaDb(gtid)) => position.advance(*gtid),
            (Position::MySql(set), Gtid::MySql(gtid)) => set.add(gtid),
            _ => return Err(SourceError::Malformed("a GTID of another kind of database")),
        }
        Ok(())
    }

    /// Moves this position back to before a prepared transaction, which `before` was read before.
    pub(super) fn hold_back(&mut self, gtid: &Gtid, before: &Position) {
        match (self, gtid, before) {
            (Position::MySql(set), Gtid::MySql(gtid), _) => set.remove(gtid),
            (Position::MariaDb(position), Gtid::MariaDb(gtid), Position::MariaDb(before)) => {
                position.put_back(gtid.domain, before);
            }
            // All three are of the same product.
            _ => {}
        }
    }

    /// Everything that was read, as a set: this position, joined with `before`. `None` for MySQL,
    /// whose position is a set itself.
    pub(super) fn joined(&self, before: Option<&Position>) -> Option<Position> {
        let Position::MariaDb(position) = self else { return None };
        let mut joined = position.clone();
        if let Some(Position::MariaDb(before)) = before {
            joined.join(before);
        }
        Some(Position::MariaDb(joined))
    }

    pub(super) fn contains(&self, gtid: &Gtid) -> bool {
        matches!((self, gtid), (Position::MariaDb(position), Gtid::MariaDb(gtid)) if position.contains(gtid))
    }

    /// Whether everything in `other` was read.
    pub(super) fn has_reached(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MariaDb(position), Position::MariaDb(other)) => position.has_reached(other),
            (Position::MySql(set), Position::MySql(other)) => set.contains(other),
            _ => false,
        }
    }
}

/// The position at which the log is read, such as `0-1-270` or `0-1-270/0-1-300`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start<'p> {
    pub(super) from: Cow<'p, Position>,
    /// Transactions behind `from` that were read already. MariaDB's log has to be read again from
    /// before a prepared transaction, and the commits of earlier prepared transactions may be there
    /// too.
    pub(super) read: Option<Cow<'p, Position>>,
}

impl Start<'_> {
    pub(super) fn parse(product: Product, text: &str) -> Result<Self, SourceError> {
        let (from, read) = match text.split_once('/') {
            Some((from, read)) if product == Product::MariaDb => (from, Some(read)),
            _ => (text, None),
        };
        let position = |text| Position::parse(product, text).map(Cow::Owned);
        Ok(Start { from: position(from)?, read: read.map(position).transpose()? })
    }
}

impl fmt::Display for Start<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.from.fmt(formatter)?;
        self.read.as_ref().map_or(Ok(()), |read| write!(formatter, "/{read}"))
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MariaDb(gtid) => gtid.fmt(formatter),
            Gtid::MySql(gtid) => gtid.fmt(formatter),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::MariaDb(position) => position.fmt(formatter),
            Position::MySql(set) => set.fmt(formatter),
        }
    }
}
