//! What an invalidator reads: the commit log of a database, whichever it is.

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

/// A log that is read from a position on.
pub(crate) trait Log {
    /// Reads the next event, and tells `changes` what it says. It comes back within a second or two, also if nothing happens.
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError>;

    /// Where the log would be read on: the end of the last transaction of which everything was told.
    fn position(&self) -> String;

    /// Where the last event has ended.
    fn place(&self) -> Place;

    /// For how long nothing was heard when [`Log::read`] has come back; nothing if nothing more can come.
    fn silence(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// Who is told what a log says. Only what was committed is told.
pub(crate) trait Changes {
    /// Whether changed rows of this table are to be told.
    fn wants(&self, database: &[u8], table: &[u8]) -> bool;

    /// The text of a statement, and when it was executed, in seconds since 1970.
    fn statement(&mut self, text: &[u8], when: u64) -> Result<(), Stopped>;

    /// A message of a client: keys between blanks.
    fn message(&mut self, keys: &[u8], when: u64) -> Result<(), Stopped>;

    /// A row was inserted, updated or deleted.
    fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped>;

    /// A statement that begins with `verb` has changed data, and the log has no rows of it.
    fn unseen(&mut self, database: &[u8], verb: &str);

    /// A transaction was told to its end; `position` is behind it.
    fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped>;

    /// The log has come to `position`, and whatever is before it was told.
    fn reached(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped>;

    /// Nothing more is there to be read at the moment.
    fn pause(&mut self) -> Result<(), Stopped>;

    /// The log was read up to here.
    fn passed(&mut self, _place: Place) {}

    /// The log continues at `position`, and the changes before that are lost.
    fn skipped(&mut self, position: &str, when: u64) -> Result<(), Stopped>;
}

/// The database whose log is read.
#[derive(Debug)]
pub(crate) enum Source {
    Binlog(binlog::Options),
    Postgres(postgres::Options),
    Debezium(debezium::Options),
    #[cfg(guira_simulated)]
    Modelled(modelled::Options),
}

impl Source {
    /// Reads the log from `position` on until it is reported to stop; see [`Tail::run`].
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

    /// Reads a part of the log from `position` on, for which no database is told that it was read.
    ///
    /// # Errors
    /// [`SourceError::Ended`] when all of it was read.
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
            Source::Debezium(_) => {
                Err(SourceError::Unsuitable("what somebody has sent is not there any more".to_owned()))
            }
            #[cfg(guira_simulated)]
            Source::Modelled(_) => Err(SourceError::Ended),
        }
    }

    /// `position` is in the file, if there is one. A database that keeps its log for us need not keep what is before it.
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

/// How far the log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Forever,
    End,
    Position(String),
}

/// How often a database is asked by a second connection what the first one does not tell.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Has [`Stop`] set when the one thread ends, also if it panics, so that the other does.
struct Ending(Stop);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Reads a log by `read`, and has a thread `watch` the database meanwhile, until it is stopped.
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

/// What is done about a gap in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnGap {
    /// The process ends with an error.
    #[default]
    Stop,
    /// All targets drop everything, and the log is read on from its present end.
    Flush,
}

/// The value of a column, as far as keys can be made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Bytes(&'a [u8]),
    /// A type that has no text here.
    Other,
    Absent,
}

/// A table as it was when the rows were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableNames {
    pub(crate) database: Vec<u8>,
    pub(crate) table: Vec<u8>,
    /// Empty if the log does not tell them.
    pub(crate) columns: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    table: &'a TableNames,
    /// Values of all columns, or nothing.
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

    /// Whether the table has no column of this name, as far as the log says what columns it has.
    pub(crate) fn lacks(&self, column: &str) -> bool {
        let columns = &self.table.columns;
        !columns.is_empty() && !columns.iter().any(|name| name.eq_ignore_ascii_case(column.as_bytes()))
    }

    /// The row as it was before, unless it was inserted.
    pub(crate) fn before(&self) -> Option<Image<'a>> {
        self.old.map(|values| Image { table: self.table, values, before: &[] })
    }

    /// The row as it is now, unless it was deleted.
    pub(crate) fn after(&self) -> Option<Image<'a>> {
        self.new.map(|values| Image { table: self.table, values, before: self.old.unwrap_or_default() })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    table: &'a TableNames,
    values: &'a [Value<'a>],
    /// Where values are that this image leaves out since they have not changed.
    before: &'a [Value<'a>],
}

impl<'a> Image<'a> {
    /// The value of a column, which is called so but for the case of letters; if there are several, it is the one that is called exactly so.
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
