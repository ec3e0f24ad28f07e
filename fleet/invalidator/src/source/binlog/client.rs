//! A connection from its beginning on.

use super::dump::Dump;
use super::options::{Options, Product};
use super::position::{Position, Start};
use super::{mariadb, mysql};
use crate::source::{Changes, Log, Place, SourceError, Until};
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, connect_with, refusal};
use std::io;

#[derive(Debug)]
pub(crate) struct BinaryLog {
    packets: Packets<Wire>,
    dump: Dump,
    until: Until,
    /// The position to which it is read, if there is one.
    last: Option<Position>,
}

impl BinaryLog {
    /// Connects and requests the log from `position` on, or from its present end.
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
        // A part that is read a second time is read whole.
        start.read = start.read.filter(|_| is_waiting);
        match &*start.from {
            Position::MariaDb(position) => {
                mariadb::request_log(&mut packets, position, is_waiting.then_some(options.server_id))?;
            }
            Position::MySql(set) => {
                mysql::expect(&mut packets, set, &end)?;
                mysql::request_log(&mut packets, set, is_waiting.then_some(options.server_id))?;
            }
        }
        Ok(BinaryLog { packets, dump: Dump::new(start), until: options.until.clone(), last })
    }
}

pub(super) fn connect(options: &Options) -> Result<Packets<Wire>, SourceError> {
    let (packets, version) = connect_with(&options.server, &options.key)?;
    let other = |text: &str| Err(SourceError::Unsuitable(format!("{text}, but {version}")));
    match (options.product, version.contains("MariaDB")) {
        (Product::MariaDb, false) => other("the database is not MariaDB"),
        (Product::MySql, true) => other("the database is not MySQL"),
        _ => Ok(packets),
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
