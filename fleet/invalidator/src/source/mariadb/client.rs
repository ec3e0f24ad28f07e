//! A connection from its beginning on.

use super::dump::Dump;
use super::gtid::Position;
use crate::source::{Changes, Log, Place, SourceError};
use guira_databases::mariadb::{Packets, execute, refusal, row};
use guira_databases::{Server, Wire, mariadb};
use std::io;
use std::time::Duration;

/// The database says something at least this often.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The command that asks for the log, and its flag that asks for statements of row events too.
const COM_BINLOG_DUMP: u8 = 0x12;
const SEND_ANNOTATE_ROWS: u16 = 2;
/// Do not wait at the end of the log, but say that it is there.
const NON_BLOCKING: u16 = 1;
/// A reader that does not wait has this number, which makes the database end no other reader.
const NO_SERVER: u32 = 0;

/// Which database is read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) server: Server,
    /// The number of this replica, which no other has.
    pub(crate) server_id: u32,
    pub(crate) reads: Reads,
    pub(crate) until: Until,
}

/// How far the log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It is waited for more.
    Forever,
    /// To its present end.
    End,
    /// To this position.
    Position(String),
}

/// What keys are found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Statements,
    StatementsAndRows,
}

/// A database whose log is read.
#[derive(Debug)]
pub(crate) struct MariaDb {
    packets: Packets<Wire>,
    dump: Dump,
    until: Until,
    /// The position to which it is read, if there is one.
    last: Option<Position>,
}

impl MariaDb {
    /// Connects, and asks for the log from `position` on, or from its present end.
    pub(crate) fn open(options: &Options, position: Option<&str>) -> Result<Self, SourceError> {
        let mut packets = connect(options)?;
        let end = check(&mut packets, options.reads)?;
        let position: Position = position.unwrap_or(&end).parse()?;
        let last = match &options.until {
            Until::Position(last) => Some(last.parse()?),
            Until::Forever | Until::End => None,
        };
        for statement in [
            // The highest there is: events with GTIDs are sent as they are.
            "SET @mariadb_slave_capability=4".to_owned(),
            format!("SET @slave_connect_state='{position}'"),
            "SET @slave_gtid_strict_mode=0".to_owned(),
            "SET @slave_gtid_ignore_duplicates=0".to_owned(),
            // Checksums are sent as they are in the log; this says that they are understood.
            "SET @master_binlog_checksum='NONE'".to_owned(),
            format!("SET @master_heartbeat_period={}", HEARTBEAT.as_nanos()),
        ] {
            execute(&mut packets, &statement)?;
        }
        let (flags, server) = match options.until {
            Until::Forever => (SEND_ANNOTATE_ROWS, options.server_id),
            Until::End | Until::Position(_) => (SEND_ANNOTATE_ROWS | NON_BLOCKING, NO_SERVER),
        };
        let mut command = vec![COM_BINLOG_DUMP];
        command.extend(4_u32.to_le_bytes());
        command.extend(flags.to_le_bytes());
        command.extend(server.to_le_bytes());
        packets.command(&command)?;
        Ok(MariaDb { packets, dump: Dump::new(position), until: options.until.clone(), last })
    }
}

/// Connects and logs in.
pub(super) fn connect(options: &Options) -> Result<Packets<Wire>, SourceError> {
    let (packets, version) = mariadb::connect(&options.server)?;
    if !version.contains("MariaDB") {
        return Err(SourceError::Unsuitable(format!("the database is no MariaDB, but {version}")));
    }
    Ok(packets)
}

/// Whether the log says what is wanted; returns its present end.
fn check(packets: &mut Packets<Wire>, reads: Reads) -> Result<String, SourceError> {
    let [end, syncs, has_log, format, image, metadata, annotates] = row(
        packets,
        "SELECT @@global.gtid_binlog_pos, @@global.sync_binlog, @@global.log_bin, @@global.binlog_format, @@global.binlog_row_image, \
         @@global.binlog_row_metadata, @@global.binlog_annotate_row_events",
    )?;
    let unsuitable = |text: &str| Err(SourceError::Unsuitable(text.to_owned()));
    if has_log != "1" {
        return unsuitable("the database writes no log: start it with log_bin");
    }
    if annotates != "1" {
        return unsuitable("the log has no text of statements: set binlog_annotate_row_events = ON");
    }
    if syncs != "1" {
        tracing::warn!(
            "sync_binlog is {syncs}: if the database's host crashes, other transactions may get the GTIDs of those that were read, and are missed"
        );
    }
    if reads == Reads::StatementsAndRows {
        if format != "ROW" {
            return unsuitable("templates need rows in the log: set binlog_format = ROW");
        }
        if metadata != "FULL" {
            return unsuitable("templates need names of columns in the log: set binlog_row_metadata = FULL");
        }
        if image != "FULL" {
            tracing::warn!(
                "binlog_row_image is {image}: keys of columns that an image leaves out cannot be made"
            );
        }
    }
    Ok(end)
}

impl Log for MariaDb {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if self.last.as_ref().is_some_and(|last| self.dump.position().has_reached(last)) {
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
                return Err(io::Error::other("the database has ended the log").into());
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
