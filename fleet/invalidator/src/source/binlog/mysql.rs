//! Queries for MySQL.

use super::gtid_set::GtidSet;
use super::options::Reads;
use super::settings::{HEARTBEAT, NON_BLOCKING, Settings};
use crate::source::SourceError;
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, execute, row};

/// The command that asks for the log of all transactions but those of a set.
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
/// Where a file begins, in bytes.
const FIRST: u64 = 4;
/// How long a transaction that is in the log may take to be committed, in seconds.
const COMMIT_MAX_S: u32 = 5;
/// A reader that does not wait has this number, which makes the database end no other reader.
const NO_SERVER: u32 = 0;

/// Whether the log says what is wanted; returns its present end.
pub(super) fn check(packets: &mut Packets<Wire>, reads: Reads) -> Result<String, SourceError> {
    let [end, syncs, has_log, format, image, metadata, has_queries, gtids] = row(
        packets,
        "SELECT @@global.gtid_executed, @@global.sync_binlog, @@global.log_bin, @@global.binlog_format, @@global.binlog_row_image, \
         @@global.binlog_row_metadata, @@global.binlog_rows_query_log_events, @@global.gtid_mode",
    )?;
    let settings =
        Settings { has_log: &has_log, syncs: &syncs, format: &format, image: &image, metadata: &metadata };
    settings.check(reads)?;
    let unsuitable = |text: &str| Err(SourceError::Unsuitable(text.to_owned()));
    if gtids != "ON" {
        return unsuitable(
            "transactions have no GTIDs: set gtid_mode = ON and enforce_gtid_consistency = ON",
        );
    }
    if has_queries != "1" {
        return unsuitable("the log has no text of statements: set binlog_rows_query_log_events = ON");
    }
    Ok(end)
}

/// Whether the database has all transactions of `set`; it had committed those of `end`.
///
/// # Errors
/// A gap, if it lacks one: it was put back from a copy, or is another one, and readers may have seen what is not there any more.
pub(super) fn expect(packets: &mut Packets<Wire>, set: &GtidSet, end: &str) -> Result<(), SourceError> {
    if end.parse::<GtidSet>()?.contains(set) {
        return Ok(());
    }
    // One that was read a moment ago may be about to be committed.
    let [is_missing] = row(packets, &format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {COMMIT_MAX_S})"))?;
    if is_missing == "0" {
        return Ok(());
    }
    Err(SourceError::Gap(format!("the database has no transactions up to {set}, but up to {end}")))
}

/// Asks for the log of all transactions that are not in `set`: as this server, or, without one, to its present end.
pub(super) fn request_log(
    packets: &mut Packets<Wire>,
    set: &GtidSet,
    server: Option<u32>,
) -> Result<(), SourceError> {
    execute(packets, &settings(server))?;
    Ok(packets.command(&command(set, server))?)
}

/// What the session knows of whoever reads it. Versions before 8.0.26 know the old names only, and others know both.
fn settings(server: Option<u32>) -> String {
    let mut statement = format!(
        // Checksums are sent as they are in the log; this says that they are understood.
        "SET @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum, \
         @master_heartbeat_period={0}, @source_heartbeat_period={0}",
        HEARTBEAT.as_nanos()
    );
    if let Some(server) = server {
        // By this the database knows a reader that comes again, and ends the one before.
        let uuid = format!("67756972-6100-4000-8000-0000{server:08x}");
        statement += &format!(", @slave_uuid='{uuid}', @replica_uuid='{uuid}'");
    }
    statement
}

fn command(set: &GtidSet, server: Option<u32>) -> Vec<u8> {
    let flags = if server.is_some() { 0 } else { NON_BLOCKING };
    let set = set.encoded();
    let mut command = vec![COM_BINLOG_DUMP_GTID];
    command.extend(flags.to_le_bytes());
    command.extend(server.unwrap_or(NO_SERVER).to_le_bytes());
    // The name of a file, which is not needed.
    command.extend(0_u32.to_le_bytes());
    command.extend(FIRST.to_le_bytes());
    command.extend((set.len() as u32).to_le_bytes());
    command.extend(set);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    #[test]
    fn what_is_not_in_a_set_is_asked_for() {
        let set: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5".parse().unwrap();
        let rest = "00000000 0400000000000000 30000000
            0100000000000000 3e11fa4771ca11e19e33c80aa9429562 0100000000000000 0100000000000000 0600000000000000";
        assert_eq!(command(&set, Some(7)), unhex(&format!("1e 0000 07000000 {rest}")));
        assert_eq!(command(&set, None), unhex(&format!("1e 0100 00000000 {rest}")));
    }

    #[test]
    fn a_reader_that_comes_again_is_known_by_its_number_and_one_that_does_not_wait_is_nobody() {
        assert!(settings(Some(4242)).contains("@replica_uuid='67756972-6100-4000-8000-000000001092'"));
        assert!(!settings(None).contains("uuid"));
    }
}
