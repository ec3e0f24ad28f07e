//! How far a log was read.

use super::client::Product;
use super::gtid;
use super::gtid_set::{self, GtidSet};
use crate::source::SourceError;
use std::fmt;

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gtid {
    MariaDb(gtid::Gtid),
    MySql(gtid_set::Gtid),
}

/// The transactions that were read.
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

    /// This transaction was read.
    pub(super) fn advance(&mut self, gtid: &Gtid) -> Result<(), SourceError> {
        match (self, gtid) {
            (Position::MariaDb(position), Gtid::MariaDb(gtid)) => position.advance(*gtid),
            (Position::MySql(set), Gtid::MySql(gtid)) => set.add(gtid),
            _ => return Err(SourceError::Malformed("a GTID of another kind of database")),
        }
        Ok(())
    }

    /// This transaction is to be read again, before which all that is in `before` was read.
    pub(super) fn hold_back(&mut self, gtid: &Gtid, before: &Position) {
        match (self, gtid, before) {
            (Position::MySql(set), Gtid::MySql(gtid), _) => set.remove(gtid),
            (Position::MariaDb(position), Gtid::MariaDb(gtid), Position::MariaDb(before)) => {
                position.put_back(gtid.domain, before);
            }
            // They are all of the same log.
            _ => {}
        }
    }

    /// Whether everything that is in `other` was read.
    pub(super) fn has_reached(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MariaDb(position), Position::MariaDb(other)) => position.has_reached(other),
            (Position::MySql(set), Position::MySql(other)) => set.contains(other),
            _ => false,
        }
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
