//! The binary log of MariaDB or MySQL, read as a replica does.
//!
//! | file | what it knows |
//! |---|---|
//! | event.rs | heads of events, their kinds, checksums |
//! | statement.rs | what statements change |
//! | table.rs, value.rs, rows.rs | tables and rows of row events |
//! | compressed.rs, payload.rs | what is shorter in the log of MariaDB, and of MySQL |
//! | gtid.rs, gtid_set.rs, position.rs | positions of MariaDB, of MySQL, and of either |
//! | xa.rs | transactions that are prepared |
//! | dump.rs | what events mean, one after the other |
//! | mariadb.rs, mysql.rs | the queries for each |
//! | options.rs, settings.rs | which database is read, and settings that both need |
//! | log_file.rs | names of files of the log |
//! | client.rs | a connection from its beginning on |
//! | watch.rs | how long the log is |

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

/// Reads the log until it is stopped, and looks how long it is meanwhile.
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

/// Reads the log from `position` on as far as the options say.
pub(crate) fn replay<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: String,
) -> Result<(), SourceError> {
    tail.run(Some(position), |position| BinaryLog::open(options, position), |_| Ok(()))
}
