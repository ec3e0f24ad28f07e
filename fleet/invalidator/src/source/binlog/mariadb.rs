//! Queries for MariaDB.

use super::gtid::Position;
use super::options::Reads;
use super::settings::{HEARTBEAT, NON_BLOCKING, Settings};
use crate::source::SourceError;
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, execute, row};

/// The command that asks for the log, and its flag that asks for statements of row events too.
const COM_BINLOG_DUMP: u8 = 0x12;
const SEND_ANNOTATE_ROWS: u16 = 2;
/// A reader that does not wait has this number, which makes the database end no other reader.
const NO_SERVER: u32 = 0;

/// Whether the log says what is wanted; returns its present end.
pub(super) fn check(packets: &mut Packets<Wire>, reads: Reads) -> Result<String, SourceError> {
    let [end, syncs, has_log, format, image, metadata, annotates] = row(
        packets,
        "SELECT @@global.gtid_binlog_pos, @@global.sync_binlog, @@global.log_bin, @@global.binlog_format, @@global.binlog_row_image, \
         @@global.binlog_row_metadata, @@global.binlog_annotate_row_events",
    )?;
    let settings =
        Settings { has_log: &has_log, syncs: &syncs, format: &format, image: &image, metadata: &metadata };
    settings.check(reads)?;
    if annotates != "1" {
        return Err(SourceError::Unsuitable(
            "the log has no text of statements: set binlog_annotate_row_events = ON".to_owned(),
        ));
    }
    Ok(end)
}

/// Asks for the log behind `position`: as this server, or, without one, to its present end.
pub(super) fn request_log(
    packets: &mut Packets<Wire>,
    position: &Position,
    server: Option<u32>,
) -> Result<(), SourceError> {
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
        execute(packets, &statement)?;
    }
    let flags = if server.is_some() { SEND_ANNOTATE_ROWS } else { SEND_ANNOTATE_ROWS | NON_BLOCKING };
    let mut command = vec![COM_BINLOG_DUMP];
    command.extend(4_u32.to_le_bytes());
    command.extend(flags.to_le_bytes());
    command.extend(server.unwrap_or(NO_SERVER).to_le_bytes());
    Ok(packets.command(&command)?)
}
