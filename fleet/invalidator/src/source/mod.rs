//! The sources of changes: the commit logs of databases, and senders of change events.

pub(crate) mod binlog;
pub(crate) mod debezium;
mod flushes;
#[cfg(guira_simulated)]
pub(crate) mod modelled;
mod place;
mod position;
pub(crate) mod postgres;
mod tail;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use place::{Extent, Place};
pub(crate) use tail::Tail;

pub(crate) use guira_sql::SourceError;
use guira_sync::stop::{Stop, Stopped};
use guira_sync::thread;
use serde::Deserialize;
use std::fmt::Display;
use std::time::Duration;

/// A log that is read from a position.
pub(crate) trait Log {
    /// Reads the next event, and reports its changes to `changes`. Returns within a second or two,
    /// also without an event.
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError>;

    /// The position at which the log is read after a restart: the end of the last transaction that
    /// was reported completely.
    fn position(&self) -> String;

    /// The end of the last event.
    fn place(&self) -> Place;

    /// The time without a message when [`Log::read`] returns; `None` if no message can follow.
    fn silence(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// Receives the committed changes of a log.
pub(crate) trait Changes {
    /// Whether row changes of this table are to be reported.
    fn wants(&self, database: &[u8], table: &[u8]) -> bool;

    /// A statement was executed, `when` seconds after 1970.
    fn statement(&mut self, text: &[u8], when: u64) -> Result<(), Stopped>;

    /// A client has logged a message with keys between blanks.
    fn message(&mut self, keys: &[u8], when: u64) -> Result<(), Stopped>;

    /// A row was inserted, updated or deleted.
    fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped>;

    /// A statement that begins with `verb` has changed rows, but the log has none of them.
    fn unseen(&mut self, database: &[u8], verb: &str);

    /// A transaction ends at `position`; all of its changes were reported.
    fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped>;

    /// The log has come to `position`; all changes before it were reported.
    fn reached(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped>;

    /// The log has nothing more to read at the moment.
    fn pause(&mut self) -> Result<(), Stopped>;

    /// The log was read up to here.
    fn passed(&mut self, _place: Place) {}

    /// A gap: the log continues at `position`, and the changes before that are lost.
    fn skipped(&mut self, position: &str, when: u64) -> Result<(), Stopped>;
}

/// The configured source.
#[derive(Debug)]
pub(crate) enum Source {
    Binlog(binlog::Options),
    Postgres(postgres::Options),
    Debezium(debezium::Options),
    #[cfg(guira_simulated)]
    Modelled(modelled::Options),
}

impl Source {
    /// Reads the log from `position` until the invalidator stops; see [`Tail::run`].
    pub(crate) fn run<C: Changes>(
        &self,
        tail: Tail<C>,
        position: Option<String>,
        save: impl Fn(&str) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        match self {
            Source::Binlog(options) => binlog::run(options, tail, position, save),
            Source::Postgres(options) => postgres::run(options, tail, position, save),
            Source::Debezium(options) => debezium::run(options, tail),
            #[cfg(guira_simulated)]
            Source::Modelled(options) => modelled::run(options, tail, position, save),
        }
    }

    /// Reads a part of the log from `position`, without confirming it to the database.
    ///
    /// # Errors
    /// [`SourceError::Ended`] once all of the part was read.
    pub(crate) fn replay<C: Changes>(
        &self,
        tail: Tail<C>,
        position: String,
        until: Until,
    ) -> Result<(), SourceError> {
        match self {
            Source::Binlog(options) => {
                binlog::replay(&binlog::Options { until, ..options.clone() }, tail, position)
            }
            Source::Postgres(options) => {
                postgres::replay(&postgres::Options { until, ..options.clone() }, tail, position)
            }
            Source::Debezium(_) => Err(SourceError::Unsuitable(
                "change events of Debezium cannot be read a second time".to_owned(),
            )),
            #[cfg(guira_simulated)]
            Source::Modelled(_) => Err(SourceError::Ended),
        }
    }

    /// `position` was saved. A database that keeps its log for this invalidator may remove the log
    /// before it.
    pub(crate) fn saved(&self, position: &str) {
        match self {
            Source::Binlog(_) => {}
            #[cfg(guira_simulated)]
            Source::Modelled(_) => {}
            Source::Postgres(options) => options.confirmed.set(position),
            Source::Debezium(options) => options.acknowledged.set(position),
        }
    }
}

/// The end of the part that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Forever,
    End,
    Position(String),
}

/// The interval between queries for the length of the log. A second connection sends them, since
/// the first one only receives events.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Sets the [`Stop`] on drop, also after a panic, so that the thread that runs `watch` ends with the
/// reader.
struct Ending(Stop);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Reads a log by `read` while another thread runs `watch`.
fn watched(
    watch: impl FnOnce(&Stop) + Send,
    read: impl FnOnce() -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let over = Stop::default();
    thread::scope(|scope| {
        let _ending = Ending(over.clone());
        thread::Builder::new().name("watch".to_owned()).spawn_scoped(scope, || watch(&over))?;
        read()
    })
}

/// The reaction to a gap in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnGap {
    /// The process ends with an error.
    #[default]
    Stop,
    /// All targets are flushed, and the log is read from its present end.
    Flush,
}

/// The value of a column, for use in keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Bytes(&'a [u8]),
    /// A value of a type that cannot be part of a key.
    Other,
    Absent,
}

/// The names of a table when its rows were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableNames {
    pub(crate) database: Vec<u8>,
    pub(crate) table: Vec<u8>,
    /// Empty if the log has no column names.
    pub(crate) columns: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    table: &'a TableNames,
    /// The values of all columns.
    old: Option<&'a [Value<'a>]>,
    new: Option<&'a [Value<'a>]>,
    when: u64,
}

impl<'a> Row<'a> {
    pub(crate) fn database(&self) -> &'a [u8] {
        &self.table.database
    }

    pub(crate) fn name(&self) -> &'a [u8] {
        &self.table.table
    }

    pub(crate) fn when(&self) -> u64 {
        self.when
    }

    /// Whether the table is known to have no column of this name.
    pub(crate) fn lacks(&self, column: &str) -> bool {
        let columns = &self.table.columns;
        !columns.is_empty() && !columns.iter().any(|name| name.eq_ignore_ascii_case(column.as_bytes()))
    }

    /// The row before the change; `None` for an insert.
    pub(crate) fn before(&self) -> Option<Image<'a>> {
        self.old.map(|values| Image { table: self.table, values, before: &[] })
    }

    /// The row after the change; `None` for a delete.
    pub(crate) fn after(&self) -> Option<Image<'a>> {
        self.new.map(|values| Image { table: self.table, values, before: self.old.unwrap_or_default() })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    table: &'a TableNames,
    values: &'a [Value<'a>],
    /// The old values, for columns that this image omits because they did not change.
    before: &'a [Value<'a>],
}

impl<'a> Image<'a> {
    /// The value of a column by its name. The case of letters matters only if several names differ
    /// in nothing else.
    pub(crate) fn value(&self, column: &str) -> Value<'a> {
        let columns = || self.table.columns.iter().enumerate();
        let mut similar = columns().filter(|(_, name)| name.eq_ignore_ascii_case(column.as_bytes()));
        let only = similar.next().filter(|_| similar.next().is_none());
        let Some((at, _)) = only.or_else(|| columns().find(|(_, name)| **name == column.as_bytes())) else {
            return Value::Absent;
        };
        let of = |values: &[Value<'a>]| values.get(at).copied().unwrap_or(Value::Absent);
        match of(self.values) {
            Value::Absent => of(self.before),
            value => value,
        }
    }
}
