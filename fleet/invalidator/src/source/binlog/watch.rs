//! Looks how long the log is, by a connection of its own.

use super::client::connect;
use super::log_file;
use super::options::Options;
use crate::counters::Counts;
use crate::source::{Extent, SourceError, WATCH_EVERY};
use guira_sql::Wire;
use guira_sql::mariadb::{Packets, rows};
use guira_sync::stop::Stop;

/// Looks again and again until it is stopped.
pub(super) fn watch(options: &Options, counts: &Counts, stop: &Stop) {
    let (mut connection, mut is_seen) = (None, true);
    loop {
        let looked = look(options, &mut connection);
        let was_seen = std::mem::replace(&mut is_seen, looked.is_ok());
        match looked {
            Ok(extent) => counts.set_extent(Some(extent)),
            Err(error) => {
                connection = None;
                counts.set_extent(None);
                if was_seen && stop.check().is_ok() {
                    // Operator: Grant what the message names; only the metric is missing.
                    tracing::warn!("cannot read the lag in bytes: {error}{}", advice(&error));
                }
            }
        }
        if stop.wait(WATCH_EVERY).is_err() {
            return;
        }
    }
}

/// A hint for the operator, if the error itself gives none.
fn advice(error: &SourceError) -> &'static str {
    match error {
        SourceError::Refused(_) => ". Grant BINLOG MONITOR (MariaDB) or REPLICATION CLIENT (MySQL)",
        _ => "",
    }
}

fn look(options: &Options, connection: &mut Option<Packets<Wire>>) -> Result<Extent, SourceError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connect(options)?),
    };
    let files = rows(connection, "SHOW BINARY LOGS")?;
    let files: Option<_> = files.iter().map(|file| read(file)).collect();
    files.map(Extent::new).ok_or(SourceError::Malformed("the list of logs"))
}

/// The number of a file of the log, and its length.
fn read(row: &[String]) -> Option<(u64, u64)> {
    let [name, length, ..] = row else { return None };
    Some((log_file::number(name.as_bytes())?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privilege_is_named_only_to_a_user_who_was_refused() {
        assert!(advice(&SourceError::Refused("Access denied (1227)".to_owned())).contains("BINLOG MONITOR"));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(advice(&SourceError::Connection(refused)), "");
    }

    #[test]
    fn files_are_known_by_their_numbers() {
        let row = |name: &str, length: &str| read(&[name.to_owned(), length.to_owned()]);
        assert_eq!(row("host.bin.000042", "1073741824"), Some((42, 1 << 30)));
        assert_eq!((row("binlog.", "1"), row("binlog.1a", "1"), row("binlog.1", "-")), (None, None, None));
        assert_eq!(read(&["binlog.1".to_owned()]), None);
    }
}
