//! Reads the binary log of MariaDB or MySQL as a replica does.
//!
//! | file | contents |
//! |---|---|
//! | event.rs | heads of events, their kinds, checksums |
//! | statement.rs | what statements change |
//! | table.rs, value.rs, rows.rs | tables and rows of row events |
//! | compressed.rs, payload.rs | compression in the log of MariaDB, and of MySQL |
//! | gtid.rs, gtid_set.rs, position.rs | positions of MariaDB, of MySQL, and of either |
//! | xa.rs | transactions that are prepared |
//! | dump.rs | turns events into changes |
//! | mariadb.rs, mysql.rs | the queries for each |
//! | options.rs, settings.rs | the database to read from, and settings that both products need |
//! | log_file.rs | names of files of the log |
//! | client.rs | connects and requests the log |
//! | watch.rs | measures the length of the log |

mod client;
mod compressed;
mod dump;
mod event;
mod gtid;
mod gtid_set;
mod log_file;
mod mariadb;
mod mysql;
mod options;
mod payload;
mod position;
mod rows;
mod settings;
mod statement;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod watch;
mod xa;

use super::{Changes, SourceError, Tail, watched};
use client::BinaryLog;
pub(crate) use options::{Options, Product, Reads};

/// Reads the log until it is stopped; a second connection measures the length of the log.
pub(crate) fn run<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: Option<String>,
    save: impl Fn(&str) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let counts = tail.counts.clone();
    watched(
        |over| watch::watch(options, &counts, over),
        || tail.run(position, |position| BinaryLog::open(options, position), save),
    )
}

/// Reads the log from `position` as far as the options demand.
pub(crate) fn replay<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: String,
) -> Result<(), SourceError> {
    tail.run(Some(position), |position| BinaryLog::open(options, position), |_| Ok(()))
}
