//! Queries for MariaDB.

use super::gtid::Position;
use super::options::Reads;
use super::settings::{HEARTBEAT, NON_BLOCKING, Settings};
use crate::source::SourceError;
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, execute, row};

/// The command that requests the log, and its flag that adds the statements of row events.
const COM_BINLOG_DUMP: u8 = 0x12;
const SEND_ANNOTATE_ROWS: u16 = 2;
/// The server number of a reader that does not wait; with it the database ends no other reader.
const NO_SERVER: u32 = 0;

/// Checks that the log has the row images that `reads` needs, and returns its present end.
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

/// Requests the log behind `position`: as this server, or, without a number, up to the present end.
pub(super) fn request_log(
    packets: &mut Packets<Wire>,
    position: &Position,
    server: Option<u32>,
) -> Result<(), SourceError> {
    for statement in [
        // The highest capability: events with GTIDs are sent unchanged.
        "SET @mariadb_slave_capability=4".to_owned(),
        format!("SET @slave_connect_state='{position}'"),
        "SET @slave_gtid_strict_mode=0".to_owned(),
        "SET @slave_gtid_ignore_duplicates=0".to_owned(),
        // Declares that this client understands checksums; the server then sends them as they are
        // in the log.
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
