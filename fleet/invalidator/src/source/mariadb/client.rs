//! A connection from its beginning on.

use super::dump::Dump;
use super::gtid::Position;
use super::login::log_in;
use super::packet::Packets;
use super::query::{execute, refusal, row};
use crate::source::{Changes, Log, Login, SourceError};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long connecting and sending may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The database says something at least this often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The connection has failed if nothing was heard for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The command that asks for the log, and its flag that asks for statements of row events too.
const COM_BINLOG_DUMP: u8 = 0x12;
const SEND_ANNOTATE_ROWS: u16 = 2;

/// Which database is read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) login: Login,
    /// The number of this replica, which no other has.
    pub(crate) server_id: u32,
    pub(crate) reads: Reads,
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
    packets: Packets<TcpStream>,
    dump: Dump,
}

impl MariaDb {
    /// Connects, and asks for the log from `position` on, or from its present end.
    pub(crate) fn open(options: &Options, position: Option<&str>) -> Result<Self, SourceError> {
        let mut packets = Packets::new(connect(options)?);
        let Login { user, password } = &options.login;
        let version = log_in(&mut packets, user, password)?;
        if !version.contains("MariaDB") {
            return Err(SourceError::Unsuitable(format!("the database is no MariaDB, but {version}")));
        }
        let end = check(&mut packets, options.reads)?;
        let unsuitable = |error: super::gtid::PositionSyntax| SourceError::Unsuitable(error.to_string());
        let position: Position = position.unwrap_or(&end).parse().map_err(unsuitable)?;
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
        let mut command = vec![COM_BINLOG_DUMP];
        command.extend(4_u32.to_le_bytes());
        command.extend(SEND_ANNOTATE_ROWS.to_le_bytes());
        command.extend(options.server_id.to_le_bytes());
        packets.command(&command)?;
        Ok(MariaDb { packets, dump: Dump::new(position) })
    }
}

fn connect(options: &Options) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (options.host.as_str(), options.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_read_timeout(Some(SILENCE_MAX))?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Whether the log says what is wanted; returns its present end.
fn check(packets: &mut Packets<TcpStream>, reads: Reads) -> Result<String, SourceError> {
    let [end, has_log, format, image, metadata, annotates, compresses] = row(
        packets,
        "SELECT @@global.gtid_binlog_pos, @@global.log_bin, @@global.binlog_format, @@global.binlog_row_image, \
         @@global.binlog_row_metadata, @@global.binlog_annotate_row_events, @@global.log_bin_compress",
    )?;
    let unsuitable = |text: &str| Err(SourceError::Unsuitable(text.to_owned()));
    if has_log != "1" {
        return unsuitable("the database writes no log: start it with log_bin");
    }
    if compresses == "1" {
        return unsuitable("compressed events cannot be read: set log_bin_compress = OFF");
    }
    if annotates != "1" {
        return unsuitable("the log has no text of statements: set binlog_annotate_row_events = ON");
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
        let packet = self.packets.read()?;
        match packet.bytes.split_first() {
            Some((0, event)) => self.dump.take(event, packet.is_whole, changes)?,
            Some((0xff, _)) => return Err(refusal(packet.bytes)),
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
}
