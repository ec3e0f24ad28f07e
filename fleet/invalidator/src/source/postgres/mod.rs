//! Reads PostgreSQL's write-ahead log from a replication slot, decoded by pgoutput.
//!
//! | file | contents |
//! |---|---|
//! | position.rs | positions in the log |
//! | slot.rs | finds, checks, creates and copies slots |
//! | pgoutput.rs | messages of logical replication |
//! | stream.rs | turns these messages into changes |
//! | status.rs | reports the acknowledged position to the database |
//! | watch.rs | watches how much WAL the slot retains |
//! | client.rs | connects and requests the log |

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

/// Reads the log until it is stopped; a second connection watches the slot.
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

/// Reads the log from `position` as far as the options demand, from a copy of the slot.
pub(crate) fn replay<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: String,
) -> Result<(), SourceError> {
    let stop = tail.stop.clone();
    tail.run(Some(position), |position| Postgres::open(options, position, &stop), |_| Ok(()))
}
