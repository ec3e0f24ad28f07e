//! MariaDB's binary log, read as a replica does.
//!
//! | file | what it knows |
//! |---|---|
//! | event.rs | heads of events, their kinds, checksums |
//! | table.rs, value.rs, rows.rs | tables and rows of row events |
//! | compressed.rs | what is shorter in the log |
//! | gtid.rs | positions |
//! | dump.rs | what events mean, one after the other |
//! | client.rs | a connection from its beginning on |
//! | watch.rs | how long the log is |

mod client;
mod compressed;
mod dump;
mod event;
mod gtid;
mod rows;
mod table;
mod value;
mod watch;

use super::{Changes, SourceError, Tail, watched};
pub(crate) use client::{MariaDb, Options, Reads, Until};

/// Reads the log until it is told to stop, and looks how long it is meanwhile.
pub(crate) fn run<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: Option<String>,
    save: impl Fn(&str) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let counts = tail.counts.clone();
    watched(
        |over| watch::watch(options, &counts, over),
        || tail.run(position, |position| MariaDb::open(options, position), save),
    )
}
