//! PostgreSQL's write-ahead log, decoded by pgoutput and read from a replication slot.
//!
//! | file | what it knows |
//! |---|---|
//! | position.rs | positions in the log |
//! | slot.rs | the slot: whether a position can be read from it, and making one |
//! | pgoutput.rs | messages of logical replication |
//! | stream.rs | what these mean, one after the other |
//! | status.rs | telling the database how far all targets are |
//! | watch.rs | how much of its log the database has to keep |
//! | client.rs | a connection from its beginning on |

mod client;
mod pgoutput;
mod position;
mod slot;
mod status;
mod stream;
mod watch;

use super::{Changes, SourceError, Tail, watched};
use client::Postgres;
pub(crate) use client::{Options, SlotCreation};
pub(crate) use status::Confirmed;

/// Reads the log until it is stopped, and watches the slot meanwhile.
pub(crate) fn run<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: Option<String>,
    save: impl Fn(&str) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let (counts, stop) = (tail.counts.clone(), tail.stop.clone());
    watched(
        |over| watch::watch(options, &counts, over),
        || tail.run(position, |position| Postgres::open(options, position, &stop), save),
    )
}

/// Reads the log from `position` on as far as the options say, from a copy of the slot.
pub(crate) fn replay<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: String,
) -> Result<(), SourceError> {
    let stop = tail.stop.clone();
    tail.run(Some(position), |position| Postgres::open(options, position, &stop), |_| Ok(()))
}
