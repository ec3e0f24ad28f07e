//! Turns the events of a log, in their order, into changes.

use super::compressed::{Flaw, inflate};
use super::event::{Checksum, Event, Query, kind, query};
use super::gtid;
use super::gtid_set;
use super::log_file;
use super::payload::{Payload, PayloadFlaw};
use super::position::{Gtid, Position, Start};
use super::rows::RowEvent;
use super::statement::{first_words, is_unseen};
use super::table::{self, Table};
use super::xa::{KeptEvents, Preparation, PreparedTransactions, named};
use crate::source::{Changes, Place, Row, SourceError};
use guira_sql::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;

/// Flags of MariaDB's GTID event: the transaction is one statement without an event at its end; it
/// is the first part of an XA transaction.
const STANDALONE: u8 = 0x01;
const PREPARED_XA: u8 = 0x40;

/// Keys are passed on after this many events even when the log always has more to read, as in a
/// long transaction on other tables.
const EVENTS_MAX: u32 = 1024;

/// The state of reading a log.
#[derive(Debug)]
pub(super) struct Dump {
    /// The end of the last transaction that was read.
    position: Position,
    /// The position that was read already, when `position` had to go back for a prepared transaction.
    read: Option<Position>,
    /// The end of the last event.
    place: Place,
    checksum: Checksum,
    transaction: Option<Transaction>,
    /// The tables of the transaction by their numbers; `None` for tables whose rows are not wanted.
    tables: HashMap<u64, Option<Table>>,
    prepared: PreparedTransactions,
    /// Events since keys were last passed on.
    events: u32,
}

#[derive(Debug)]
struct Transaction {
    gtid: Gtid,
    /// Whether it ends with its first statement.
    is_one_statement: bool,
    /// The events read so far of a transaction that will be prepared.
    kept: Option<KeptEvents>,
}

impl Dump {
    pub(super) fn new(start: Start<'_>) -> Self {
        Dump {
            position: start.from.into_owned(),
            read: start.read.map(Cow::into_owned),
            place: Place::default(),
            checksum: Checksum::None,
            transaction: None,
            tables: HashMap::new(),
            prepared: PreparedTransactions::default(),
            events: 0,
        }
    }

    /// The position at which the log is read after a restart.
    pub(super) fn position(&self) -> Start<'_> {
        match self.prepared.held_back(&self.position) {
            Some(held) => {
                let read = self.position.joined(self.read.as_ref());
                Start { from: Cow::Owned(held), read: read.map(Cow::Owned) }
            }
            None => {
                let read = self.read.as_ref().filter(|read| !self.position.has_reached(read));
                Start { from: Cow::Borrowed(&self.position), read: read.map(Cow::Borrowed) }
            }
        }
    }

    /// Whether everything in `last` was read.
    pub(super) fn has_reached(&self, last: &Position) -> bool {
        self.position.has_reached(last)
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Takes the next event. `is_whole` is false for a truncated one.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let event = Event::read(bytes, self.checksum, is_whole)?;
        if event.kind == kind::TRANSACTION_PAYLOAD {
            self.unpack(&event, is_whole, changes)?;
        } else {
            self.take_event(&event, is_whole, changes)?;
        }
        // The offset of a rotation is that of the next file.
        if event.end > 0 && event.kind != kind::ROTATE {
            self.place.offset = u64::from(event.end);
        }
        Ok(())
    }

    /// Takes the events of a compressed transaction.
    fn unpack(
        &mut self,
        event: &Event<'_>,
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let wrong = |flaw: PayloadFlaw| SourceError::Unsuitable(format!("a compressed transaction: {flaw}"));
        is_whole.then_some(()).ok_or_else(cut)?;
        let mut payload = Payload::read(event.body).map_err(wrong)?;
        while let Some(unpacked) = payload.next().map_err(wrong)? {
            let event = Event::read(unpacked.bytes, Checksum::None, unpacked.is_whole)?;
            self.take_event(&event, unpacked.is_whole, changes)?;
        }
        Ok(())
    }

    fn take_event(
        &mut self,
        event: &Event<'_>,
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        self.events += 1;
        if self.events >= EVENTS_MAX {
            self.events = 0;
            changes.pause()?;
        }
        match event.kind {
            kind::FORMAT => {
                self.checksum = event.checksum()?;
                // The next file begins. A transaction that the end of the file has cut off did not
                // commit.
                self.tables.clear();
            }
            kind::GTID => self.begin_of_mariadb(event)?,
            kind::MYSQL_GTID => self.begin_of_mysql(gtid_set::Gtid::read(event.body))?,
            kind::MYSQL_GTID_TAGGED => self.begin_of_mysql(gtid_set::Gtid::read_tagged(event.body))?,
            kind::MYSQL_ANONYMOUS => {
                return Err(SourceError::Gap("a transaction has no GTID".to_owned()));
            }
            kind::TABLE_MAP | kind::ANNOTATE_ROWS | kind::ROWS_QUERY => {
                self.report(event, is_whole, changes)?
            }
            rows if kind::is_of_rows(rows) => self.report(event, is_whole, changes)?,
            kind::QUERY | kind::QUERY_COMPRESSED | kind::EXECUTE_LOAD_QUERY => {
                is_whole.then_some(()).ok_or_else(cut)?;
                self.report_statement(event, changes)?;
            }
            kind::XID => self.end(event, changes)?,
            kind::INCIDENT => {
                return Err(SourceError::Gap("the database reports missing changes (INCIDENT)".to_owned()));
            }
            kind::XA_PREPARE => self.prepare(event, changes)?,
            kind::ROTATE => self.rotate(event),
            kind::HEARTBEAT => {}
            other if kind::NEUTRAL.contains(&other) || event.is_ignorable => {}
            other => {
                let text = format!("the log has an event of the unsupported kind {other}");
                return Err(SourceError::Unsuitable(text));
            }
        }
        Ok(())
    }

    /// The next file begins, or the first one. If its name has no number, the length of the log is
    /// unknown.
    fn rotate(&mut self, event: &Event<'_>) {
        let mut bytes = Bytes(event.body);
        if let (Some(offset), Some(file)) = (bytes.number(8), log_file::number(bytes.0)) {
            self.place = Place { file, offset };
        }
    }

    fn begin_of_mariadb(&mut self, event: &Event<'_>) -> Result<(), SourceError> {
        let mut bytes = Bytes(event.body);
        let (sequence, domain, flags) = (bytes.number(8), bytes.u32(), bytes.byte());
        let (Some(sequence), Some(domain), Some(flags)) = (sequence, domain, flags) else {
            return Err(SourceError::Malformed("a GTID"));
        };
        self.begin(Transaction {
            gtid: Gtid::MariaDb(gtid::Gtid { domain, server: event.server, sequence }),
            is_one_statement: flags & STANDALONE != 0,
            kept: (flags & PREPARED_XA != 0).then(KeptEvents::default),
        });
        Ok(())
    }

    fn begin_of_mysql(&mut self, gtid: Option<gtid_set::Gtid>) -> Result<(), SourceError> {
        let gtid = Gtid::MySql(gtid.ok_or(SourceError::Malformed("a GTID"))?);
        // A longer transaction begins with a BEGIN statement, which clears `is_one_statement`.
        self.begin(Transaction { gtid, is_one_statement: true, kept: None });
        Ok(())
    }

    /// Begins a transaction. One without an end was cut off by a crash of the database, and changed
    /// nothing.
    fn begin(&mut self, transaction: Transaction) {
        self.transaction = Some(transaction);
        self.tables.clear();
    }

    fn ended(&mut self) -> Result<Transaction, SourceError> {
        self.tables.clear();
        self.transaction.take().ok_or(SourceError::Malformed("a transaction without a GTID"))
    }

    fn end(&mut self, event: &Event<'_>, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let ended = self.ended()?;
        self.position.advance(&ended.gtid)?;
        Ok(changes.committed(&self.position(), event.when)?)
    }

    /// Ends a transaction that is prepared, or committed in one phase.
    fn prepare(&mut self, event: &Event<'_>, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let read = Preparation::read(event.body).ok_or(SourceError::Malformed("an XA transaction"))?;
        let kept = self.transaction.as_mut().and_then(|transaction| transaction.kept.take());
        let kept = kept.ok_or(SourceError::Malformed("an XA transaction without a beginning"))?;
        if read.is_committed {
            return self.report_kept(kept, event, changes);
        }
        let Transaction { gtid, .. } = self.ended()?;
        let before = self.position.clone();
        self.position.advance(&gtid)?;
        self.prepared.prepare(read.xid, gtid, before, kept);
        Ok(())
    }

    /// Reports the kept events of a transaction that `event` commits.
    fn report_kept(
        &mut self,
        kept: KeptEvents,
        event: &Event<'_>,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        self.tables.clear();
        if let Some(transaction) = &mut self.transaction {
            transaction.is_one_statement = false;
        }
        for kept in kept {
            let (kind, body) = (kept.kind, &*kept.body);
            self.take_event(&Event { kind, body, ..*event }, true, changes)?;
        }
        self.end(event, changes)
    }

    /// Commits or rolls back a prepared transaction.
    fn complete(
        &mut self,
        statement: &[u8],
        is_commit: bool,
        event: &Event<'_>,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let xid = named(statement).ok_or(SourceError::Malformed("an XA transaction"))?;
        let gtid = self.transaction.as_ref().map(|transaction| &transaction.gtid);
        let was_read = self.read.as_ref().zip(gtid).is_some_and(|(read, gtid)| read.contains(gtid));
        match self.prepared.end(&xid) {
            Some(kept) if is_commit => self.report_kept(kept, event, changes),
            None if is_commit && !was_read => {
                let gtid = self.transaction.as_ref().map(|it| format!(" by {}", it.gtid)).unwrap_or_default();
                Err(SourceError::Gap(format!(
                    "XA transaction {xid} was committed{gtid}, but prepared before the position where reading started"
                )))
            }
            _ => self.end(event, changes),
        }
    }

    /// Reports the changes of an event, or keeps the event until its transaction is committed.
    fn report(
        &mut self,
        event: &Event<'_>,
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        match event.kind {
            kind::TABLE_MAP => {
                let is_wanted = self.add_table(event, changes)?;
                if is_wanted {
                    self.keep(event)?;
                }
                Ok(())
            }
            kind::ANNOTATE_ROWS | kind::ROWS_QUERY => {
                is_whole.then_some(()).ok_or_else(cut)?;
                if self.keep(event)? {
                    return Ok(());
                }
                // MySQL puts a length byte before the text, which is not used.
                let length = usize::from(event.kind == kind::ROWS_QUERY);
                let text = event.body.get(length..).ok_or(SourceError::Malformed("a statement"))?;
                Ok(changes.statement(text, event.when)?)
            }
            _ => self.report_rows(event, is_whole, changes),
        }
    }

    /// Keeps an event of a transaction that will be prepared; returns whether it did.
    fn keep(&mut self, event: &Event<'_>) -> Result<bool, SourceError> {
        let kept = self.transaction.as_mut().and_then(|transaction| transaction.kept.as_mut());
        kept.map_or(Ok(false), |kept| self.prepared.keep(kept, event).map(|()| true))
    }

    /// Records a table; returns whether its rows are wanted.
    fn add_table(&mut self, event: &Event<'_>, changes: &dyn Changes) -> Result<bool, SourceError> {
        let wrong = || SourceError::Malformed("a table");
        let head = table::head(event.body).ok_or_else(wrong)?;
        let is_wanted = changes.wants(head.database, head.table);
        let table = if is_wanted { Some(head.table().ok_or_else(wrong)?) } else { None };
        self.tables.insert(head.id, table);
        Ok(is_wanted)
    }

    fn report_rows(
        &mut self,
        event: &Event<'_>,
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let wrong = || SourceError::Malformed("a row");
        let rows = RowEvent::read(event.kind, event.body).ok_or_else(wrong)?;
        let table = match self.tables.get(&rows.table) {
            Some(Some(table)) => table,
            Some(None) => return Ok(()),
            None if rows.may_lack_table() => return Ok(()),
            None => return Err(SourceError::Malformed("rows of no table")),
        };
        let long = || {
            let name = table.names.table.escape_ascii();
            SourceError::Unsuitable(format!("the log has a row of {name} of over 64 MiB"))
        };
        is_whole.then_some(()).ok_or_else(long)?;
        if let Some(kept) = self.transaction.as_mut().and_then(|transaction| transaction.kept.as_mut()) {
            return self.prepared.keep(kept, event);
        }
        let reported = rows
            .each(table, |old, new| changes.row(&Row { table: &table.names, old, new, when: event.when }));
        Ok(reported.map_err(|flaw| if flaw == Flaw::Long { long() } else { wrong() })??)
    }

    fn report_statement(&mut self, event: &Event<'_>, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let mut query = query(event).ok_or(SourceError::Malformed("a statement"))?;
        let inflated;
        if event.kind == kind::QUERY_COMPRESSED {
            inflated = inflate(query.text).map_err(|flaw| match flaw {
                Flaw::Long => cut(),
                Flaw::Malformed => SourceError::Malformed("a statement"),
            })?;
            query.text = &inflated;
        }
        self.report_query(query, event, changes)
    }

    fn report_query(
        &mut self,
        query: Query<'_>,
        event: &Event<'_>,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let [verb, object] = first_words(query.text);
        match &*verb {
            // The server writes BEGIN and COMMIT itself, without comments.
            "BEGIN" => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.is_one_statement = false;
                }
                return Ok(());
            }
            "SAVEPOINT" => return Ok(()),
            "COMMIT" => return self.end(event, changes),
            "ROLLBACK" if query.text.eq_ignore_ascii_case(b"ROLLBACK") => return self.end(event, changes),
            "ROLLBACK" => return Ok(()),
            "XA" => match &*object {
                "START" => {
                    if let Some(transaction) = &mut self.transaction {
                        transaction.is_one_statement = false;
                        transaction.kept = Some(KeptEvents::default());
                    }
                    return Ok(());
                }
                "COMMIT" | "ROLLBACK" => {
                    return self.complete(query.text, object == "COMMIT", event, changes);
                }
                _ => return Ok(()),
            },
            _ => {
                if self.keep(event)? {
                    return Ok(());
                }
                changes.statement(query.text, event.when)?;
                if is_unseen(&verb, &object, query.text) {
                    changes.unseen(query.database, &verb);
                }
            }
        }
        let is_over = self.transaction.as_ref().is_some_and(|transaction| transaction.is_one_statement);
        if is_over { self.end(event, changes) } else { Ok(()) }
    }
}

fn cut() -> SourceError {
    SourceError::Unsuitable("the log has a statement or row of over 64 MiB".to_owned())
}

#[cfg(test)]
mod tests;
