//! Connects to PostgreSQL, checks its settings, and requests the log.

use super::position::{Lsn, Position};
use super::slot;
use super::status::{Confirmed, Status};
use super::stream::Stream;
use crate::source::{Changes, Log, Place, SourceError, Until};
use guira_sql::Server;
use guira_sql::postgres::{Messages, Purpose, Row, connect, identifier, literal, query, refusal, start_copy};
use guira_sync::stop::Stop;
use std::io;
use std::time::Duration;

/// The connection fails after this silence, the timeout of PostgreSQL's own subscribers: a database
/// that decodes a long transaction replies late.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The first version whose pgoutput sends messages: 14.
const VERSION_MIN: u32 = 140_000;

/// The database, the slot and the publication to read.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) server: Server,
    pub(crate) database: String,
    pub(crate) slot: String,
    pub(crate) slot_creation: SlotCreation,
    pub(crate) publication: String,
    /// The schemas and names of tables with templates.
    pub(crate) tables: Vec<(String, String)>,
    pub(crate) confirmed: Confirmed,
    pub(crate) until: Until,
}

/// Whether a missing slot is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotCreation {
    Allowed,
    Forbidden,
}

/// The connection over which the log is read.
#[derive(Debug)]
pub(super) struct Postgres {
    messages: Messages,
    stream: Stream,
    status: Status,
    /// The end of the part to read; `None` has no end.
    last: Option<Lsn>,
}

impl Postgres {
    /// Connects, and requests the log from `position`, or from the start of the slot.
    pub(super) fn open(options: &Options, position: Option<&str>, stop: &Stop) -> Result<Self, SourceError> {
        let mut messages = connect(&options.server, &options.database, Purpose::Replication, stop)?;
        let end = identify(&mut messages)?;
        check(&mut messages, options)?;
        let lsn = match position {
            Some(position) => follow(&mut messages, options, position, end)?,
            None => begin(&mut messages, options)?,
        };
        let start = Position { lsn, ..end };
        let last = last(&options.until, end)?;
        // A slot has one reader and moves with it, so a replay uses a copy that ends with the
        // connection.
        let slot = match last {
            Some(_) => slot::copy(&mut messages, &options.slot)?,
            None => options.slot.clone(),
        };
        let publication = literal(&identifier(&options.publication));
        start_copy(
            &mut messages,
            &format!(
                "START_REPLICATION SLOT {} LOGICAL {lsn} (proto_version '1', publication_names {publication}, messages 'true')",
                identifier(&slot)
            ),
        )?;
        messages.set_patience(SILENCE_MAX);
        let status = Status::start(messages.writer(), options.confirmed.clone(), start)?;
        Ok(Postgres { messages, stream: Stream::new(start), status, last })
    }
}

/// The end of the part to read, from a log that ends at `end`.
fn last(until: &Until, end: Position) -> Result<Option<Lsn>, SourceError> {
    Ok(match until {
        Until::Forever => None,
        Until::End => Some(end.lsn),
        Until::Position(last) => Some(last.parse::<Position>()?.lsn),
    })
}

/// The present end of the log.
fn identify(messages: &mut Messages) -> Result<Position, SourceError> {
    let read = |row: Row| {
        let mut values = row.into_iter().flatten();
        let (system, timeline, lsn) = (values.next()?, values.next()?, values.next()?);
        Some(Position {
            system: system.parse().ok()?,
            timeline: timeline.parse().ok()?,
            lsn: Lsn::read(&lsn)?,
        })
    };
    let row = query(messages, "IDENTIFY_SYSTEM")?.into_iter().next();
    row.and_then(read).ok_or(SourceError::Malformed("the reply to IDENTIFY_SYSTEM"))
}

/// Checks that the settings of the database make its log usable.
fn check(messages: &mut Messages, options: &Options) -> Result<(), SourceError> {
    let unsuitable = |text: String| Err(SourceError::Unsuitable(text));
    let settings =
        "SELECT current_setting('server_version_num'), current_setting('wal_level'), pg_is_in_recovery()";
    let row = query(messages, settings)?.into_iter().next().unwrap_or_default();
    let [version, level, is_standby] = <[Option<String>; 3]>::try_from(row)
        .map_err(|_| SourceError::Malformed("its settings"))?
        .map(Option::unwrap_or_default);
    if version.parse().is_ok_and(|version: u32| version < VERSION_MIN) {
        return unsuitable(format!("PostgreSQL {version} is too old: version 14 or later is needed"));
    }
    if is_standby == "t" {
        // The error is temporary: the standby may become the primary, or the name may be
        // redirected.
        return Err(io::Error::other("the database is a standby: connect to the primary").into());
    }
    if level != "logical" {
        return unsuitable(format!("the log has no rows (wal_level = {level}): set wal_level = logical"));
    }
    let publication = &options.publication;
    let rows = query(
        messages,
        &format!(
            "SELECT pubinsert AND pubupdate AND pubdelete, pubtruncate FROM pg_catalog.pg_publication WHERE pubname = {}",
            literal(publication)
        ),
    )?;
    let Some(row) = rows.into_iter().next() else {
        let name = identifier(publication);
        return unsuitable(format!(
            "publication {publication} does not exist: run CREATE PUBLICATION {name} FOR TABLE … or FOR ALL TABLES before the slot is created"
        ));
    };
    if options.tables.is_empty() {
        return Ok(());
    }
    let is_true = |at: usize| row.get(at).is_some_and(|value| value.as_deref() == Some("t"));
    if !is_true(0) {
        return unsuitable(format!(
            "publication {publication} does not publish all of insert, update and delete"
        ));
    }
    if !is_true(1) {
        // Operator: Create the publication with `publish = 'insert, update, delete, truncate'`.
        tracing::warn!(
            "publication {publication} does not publish TRUNCATE: truncated tables keep their cached \
                 values"
        );
    }
    options.tables.iter().try_for_each(|(schema, table)| check_table(messages, publication, schema, table))
}

/// Checks that the rows of a table with templates are published.
fn check_table(
    messages: &mut Messages,
    publication: &str,
    schema: &str,
    table: &str,
) -> Result<(), SourceError> {
    let (publication_text, schema_text, table_text) = (literal(publication), literal(schema), literal(table));
    let rows = query(
        messages,
        &format!(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = {schema_text} AND tablename = {table_text}), \
             EXISTS (SELECT FROM pg_catalog.pg_publication_tables \
             WHERE pubname = {publication_text} AND schemaname = {schema_text} AND tablename = {table_text})"
        ),
    )?;
    let row = rows.into_iter().next().unwrap_or_default();
    let is_true = |at: usize| row.get(at).is_some_and(|value| value.as_deref() == Some("t"));
    match (is_true(0), is_true(1)) {
        (_, true) => Ok(()),
        (true, false) => Err(SourceError::Unsuitable(format!(
            "table {schema}.{table} has templates but is not in publication {publication}: add the table, or set publish_via_partition_root for a partitioned table"
        ))),
        (false, false) => {
            // Operator: Correct the name in the template, or create the table.
            tracing::warn!("a template names table {schema}.{table}, which does not exist");
            Ok(())
        }
    }
}

/// The start of reading after `position`, if the log has everything behind it.
fn follow(
    messages: &mut Messages,
    options: &Options,
    position: &str,
    end: Position,
) -> Result<Lsn, SourceError> {
    let position: Position = position.parse()?;
    let slot = slot::find(messages, &options.slot)?;
    slot::check(slot.as_ref(), &options.slot, position, end)?;
    if options.until == Until::Forever {
        slot.iter().try_for_each(slot::Slot::check_reader)?;
    }
    if position.timeline != end.timeline {
        let row = query(messages, &format!("TIMELINE_HISTORY {}", end.timeline))?.into_iter().next();
        let history = row.and_then(|row| row.into_iter().nth(1).flatten()).unwrap_or_default();
        slot::check_timeline(&history, position)?;
    }
    Ok(position.lsn)
}

/// The start of the slot, which is created if it is missing.
fn begin(messages: &mut Messages, options: &Options) -> Result<Lsn, SourceError> {
    let name = &options.slot;
    let begins = match slot::find(messages, name)? {
        Some(slot) => slot::begin(messages, slot, options.slot_creation)?,
        None => None,
    };
    match (begins, options.slot_creation) {
        (Some(lsn), _) => Ok(lsn),
        (None, SlotCreation::Allowed) => slot::create(messages, name),
        (None, SlotCreation::Forbidden) => {
            Err(SourceError::Unsuitable(format!("slot {name} is missing or lost, and create-slot is false")))
        }
    }
}

impl Log for Postgres {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if self.last.is_some_and(|last| self.stream.has_reached(last)) {
            changes.pause()?;
            return Err(SourceError::Ended);
        }
        let message = self.messages.read()?;
        match message.kind {
            b'd' => {
                self.stream.take(message, changes)?;
                self.status.read(self.stream.position().lsn);
            }
            b'E' => return Err(refusal(message.body)),
            // The end of the COPY, and of the command.
            b'c' | b'C' => return Err(io::Error::other("the database ended the log").into()),
            // Notices and settings.
            b'N' | b'S' => {}
            _ => return Err(SourceError::Malformed("a message that is not part of the log")),
        }
        if self.messages.is_drained() { Ok(changes.pause()?) } else { Ok(()) }
    }

    fn position(&self) -> String {
        self.stream.position().to_string()
    }

    fn place(&self) -> Place {
        Place { file: 0, offset: self.stream.position().lsn.0 }
    }
}
