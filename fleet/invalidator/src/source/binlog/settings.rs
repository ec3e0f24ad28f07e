//! Settings that a dump of the log of MariaDB and of MySQL have in common.

use super::options::Reads;
use crate::source::SourceError;
use std::time::Duration;

/// How often the database sends a heartbeat while it has no events.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// The flag of a dump request that makes the database report the end of the log instead of waiting there.
pub(super) const NON_BLOCKING: u16 = 1;

/// Settings of the database that decide whether its log can be read.
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
