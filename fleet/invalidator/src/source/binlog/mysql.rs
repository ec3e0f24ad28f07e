//! Queries for MySQL.

use super::gtid_set::GtidSet;
use super::options::Reads;
use super::settings::{HEARTBEAT, NON_BLOCKING, Settings};
use crate::source::SourceError;
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, execute, row};

/// The command that requests all transactions outside a set.
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
/// The offset of a file's first event.
const FIRST: u64 = 4;
/// The longest wait for a transaction that is in the log and not yet committed, in seconds.
const COMMIT_MAX_S: u32 = 5;
/// The server number of a reader that does not wait; with it the database ends no other reader.
const NO_SERVER: u32 = 0;

/// Checks that the log has the row images that `reads` needs, and returns its present end.
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

/// Checks that the database has all transactions of `set`; `end` is what it had committed.
///
/// # Errors
/// A gap, if a transaction is missing: the database was restored from a backup, or is another one,
/// and caches may have values that no longer exist.
pub(super) fn expect(packets: &mut Packets<Wire>, set: &GtidSet, end: &str) -> Result<(), SourceError> {
    if end.parse::<GtidSet>()?.contains(set) {
        return Ok(());
    }
    // A transaction that was just read may still be about to commit.
    let [is_missing] = row(packets, &format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {COMMIT_MAX_S})"))?;
    if is_missing == "0" {
        return Ok(());
    }
    Err(SourceError::Gap(format!("the database has no transactions up to {set}, but up to {end}")))
}

/// Requests all transactions outside `set`: as this server, or, without a number, up to the present
/// end.
pub(super) fn request_log(
    packets: &mut Packets<Wire>,
    set: &GtidSet,
    server: Option<u32>,
) -> Result<(), SourceError> {
    execute(packets, &settings(server))?;
    Ok(packets.command(&command(set, server))?)
}

/// Sets the session's variables for a reader. Versions before 8.0.26 know the old names only, later
/// ones know both.
fn settings(server: Option<u32>) -> String {
    let mut statement = format!(
        // Declares that this client understands checksums; the server then sends them as they are
        // in the log.
        "SET @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum, \
         @master_heartbeat_period={0}, @source_heartbeat_period={0}",
        HEARTBEAT.as_nanos()
    );
    if let Some(server) = server {
        // By this UUID the database recognizes a reader that connects again, and ends its old
        // connection.
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
    // An empty file name.
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
