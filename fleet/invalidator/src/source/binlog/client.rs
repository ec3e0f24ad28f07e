//! A connection from its beginning on.

use super::dump::Dump;
use super::position::{Position, Start};
use super::{mariadb, mysql};
use crate::source::{Changes, Log, Place, SourceError, Until};
use guira_databases::mariadb::{Packets, PasswordKey, connect_with, refusal};
use guira_databases::{Server, Wire};
use std::io;
use std::time::Duration;

/// The database says something at least this often.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Do not wait at the end of the log, but say that it is there.
pub(super) const NON_BLOCKING: u16 = 1;

/// A kind of database that writes a binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    MariaDb,
    MySql,
}

/// Which database is read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) product: Product,
    pub(crate) server: Server,
    /// What may encrypt the password.
    pub(crate) key: PasswordKey,
    /// The number of this replica, which no other has.
    pub(crate) server_id: u32,
    pub(crate) reads: Reads,
    pub(crate) until: Until,
}

/// What keys are found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Statements,
    StatementsAndRows,
}

/// A log that is read.
#[derive(Debug)]
pub(crate) struct BinaryLog {
    packets: Packets<Wire>,
    dump: Dump,
    until: Until,
    /// The position to which it is read, if there is one.
    last: Option<Position>,
}

impl BinaryLog {
    /// Connects, and asks for the log from `position` on, or from its present end.
    pub(crate) fn open(options: &Options, position: Option<&str>) -> Result<Self, SourceError> {
        let product = options.product;
        let mut packets = connect(options)?;
        let end = match product {
            Product::MariaDb => mariadb::check(&mut packets, options.reads)?,
            Product::MySql => mysql::check(&mut packets, options.reads)?,
        };
        let mut start = Start::parse(product, position.unwrap_or(&end))?;
        let last = match &options.until {
            Until::Position(last) => Some(Position::parse(product, last)?),
            Until::Forever | Until::End => None,
        };
        let is_waiting = options.until == Until::Forever;
        // Who reads a part once more wants all of it.
        start.read = start.read.filter(|_| is_waiting);
        match &*start.from {
            Position::MariaDb(position) => {
                mariadb::ask(&mut packets, position, is_waiting.then_some(options.server_id))?;
            }
            Position::MySql(set) => {
                mysql::expect(&mut packets, set, &end)?;
                mysql::ask(&mut packets, set, is_waiting.then_some(options.server_id))?;
            }
        }
        Ok(BinaryLog { packets, dump: Dump::new(start), until: options.until.clone(), last })
    }
}

/// Connects and logs in.
pub(super) fn connect(options: &Options) -> Result<Packets<Wire>, SourceError> {
    let (packets, version) = connect_with(&options.server, &options.key)?;
    let other = |text: &str| Err(SourceError::Unsuitable(format!("{text}, but {version}")));
    match (options.product, version.contains("MariaDB")) {
        (Product::MariaDb, false) => other("the database is not MariaDB"),
        (Product::MySql, true) => other("the database is not MySQL"),
        _ => Ok(packets),
    }
}

/// What is wanted of the log of both products.
pub(super) struct Settings<'a> {
    pub(super) has_log: &'a str,
    pub(super) syncs: &'a str,
    pub(super) format: &'a str,
    pub(super) image: &'a str,
    pub(super) metadata: &'a str,
}

impl Settings<'_> {
    pub(super) fn check(&self, reads: Reads) -> Result<(), SourceError> {
        let unsuitable = |text: &str| Err(SourceError::Unsuitable(text.to_owned()));
        let Settings { has_log, syncs, format, image, metadata } = self;
        if *has_log != "1" {
            return unsuitable("the database has no binary log: start it with log_bin");
        }
        if *syncs != "1" {
            // Operator: Set `sync_binlog = 1` on the database.
            tracing::warn!(
                "sync_binlog is {syncs}, not 1: after a crash of the database host, transactions may be \
                     missed because GTIDs are reused"
            );
        }
        if reads == Reads::Statements {
            return Ok(());
        }
        if *format != "ROW" {
            return unsuitable("templates need rows in the log: set binlog_format = ROW");
        }
        if *metadata != "FULL" {
            return unsuitable("templates need names of columns in the log: set binlog_row_metadata = FULL");
        }
        if *image != "FULL" {
            // Operator: Set `binlog_row_image = FULL` on the database.
            tracing::warn!(
                "binlog_row_image is {image}, not FULL: keys of columns that are not in the row image are \
                     not deleted"
            );
        }
        Ok(())
    }
}

impl Log for BinaryLog {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if self.last.as_ref().is_some_and(|last| self.dump.has_reached(last)) {
            changes.pause()?;
            return Err(SourceError::Ended);
        }
        let packet = self.packets.read()?;
        match packet.bytes.split_first() {
            Some((0, event)) => self.dump.take(event, packet.is_whole, changes)?,
            Some((0xff, _)) => return Err(refusal(packet.bytes)),
            Some((0xfe, _)) if self.until != Until::Forever => {
                changes.pause()?;
                return Err(SourceError::Ended);
            }
            Some((0xfe, _)) => {
                return Err(io::Error::other("the database ended the log").into());
            }
            _ => return Err(SourceError::Malformed("a packet")),
        }
        if self.packets.is_drained() { Ok(changes.pause()?) } else { Ok(()) }
    }

    fn position(&self) -> String {
        self.dump.position().to_string()
    }

    fn place(&self) -> Place {
        self.dump.place()
    }
}
