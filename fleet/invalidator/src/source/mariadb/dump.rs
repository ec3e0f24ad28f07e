//! What events mean, one after the other.

use super::compressed::{Flaw, inflate};
use super::event::{Checksum, Event, kind, query};
use super::gtid::{Gtid, Position};
use super::rows::RowEvent;
use super::table::{self, Table};
use super::watch::number;
use crate::source::{Changes, Place, Row, SourceError};
use std::collections::HashMap;

/// Flags of a GTID event: its transaction has one statement, and no event at its end; it is the first or the second part of an XA transaction.
const STANDALONE: u8 = 0x01;
const PREPARED_XA: u8 = 0x40;
const COMPLETED_XA: u8 = 0x80;

/// What statements begin with that change no data, whatever they say behind.
const HARMLESS: [&str; 12] = [
    "GRANT",
    "REVOKE",
    "FLUSH",
    "ANALYZE",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "INSTALL",
    "UNINSTALL",
    "PURGE",
    "RESET",
    "CHANGE",
];
/// What those are that remove or rename whole tables.
const OF_TABLES: [&str; 4] = ["TABLE", "TABLES", "DATABASE", "SCHEMA"];
/// Words of an `ALTER TABLE` that changes rows.
const OF_ROWS: [&[u8]; 2] = [b"PARTITION", b"TABLESPACE"];

/// Keys that were found are passed on after so many events, also if there is always more to be read, such as a long transaction of others.
const EVENTS_MAX: u32 = 1024;

/// A log that is read from a position on.
#[derive(Debug)]
pub(super) struct Dump {
    /// The end of the last transaction that was read.
    position: Position,
    /// The end of the last event.
    place: Place,
    checksum: Checksum,
    transaction: Option<Transaction>,
    /// Tables of the transaction by their numbers; nothing of those whose rows nobody wants.
    tables: HashMap<u64, Option<Table>>,
    /// Events since keys were passed on last.
    events: u32,
}

#[derive(Clone, Copy, Debug)]
struct Transaction {
    gtid: Gtid,
    flags: u8,
}

impl Dump {
    pub(super) fn new(position: Position) -> Self {
        Dump {
            position,
            place: Place::default(),
            checksum: Checksum::None,
            transaction: None,
            tables: HashMap::new(),
            events: 0,
        }
    }

    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Takes the next event. One that was cut has `is_whole` not set.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        is_whole: bool,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        self.events += 1;
        if self.events >= EVENTS_MAX {
            self.events = 0;
            changes.pause()?;
        }
        let event = Event::read(bytes, self.checksum, is_whole)?;
        match event.kind {
            kind::FORMAT => {
                self.checksum = event.checksum()?;
                // Another file begins. What it was cut off from did not commit.
                self.tables.clear();
            }
            kind::GTID => self.begin(&event)?,
            kind::TABLE_MAP => self.add_table(&event, changes)?,
            kind::WRITE_ROWS_1..=kind::DELETE_ROWS_1
            | kind::WRITE_ROWS_2..=kind::DELETE_ROWS_2
            | kind::WRITE_ROWS_COMPRESSED_1..=kind::DELETE_ROWS_COMPRESSED_2 => {
                self.tell_rows(&event, is_whole, changes)?;
            }
            kind::ANNOTATE_ROWS => {
                is_whole.then_some(()).ok_or_else(cut)?;
                changes.statement(event.body, event.when)?;
            }
            kind::QUERY | kind::QUERY_COMPRESSED | kind::EXECUTE_LOAD_QUERY => {
                is_whole.then_some(()).ok_or_else(cut)?;
                self.tell_statement(&event, changes)?;
            }
            kind::XID => self.end(&event, changes)?,
            kind::INCIDENT => {
                return Err(SourceError::Gap("the database says that changes are missing in it".to_owned()));
            }
            kind::XA_PREPARE => return Err(xa(self.transaction)),
            kind::ROTATE => {
                self.rotate(&event);
                return Ok(());
            }
            kind::HEARTBEAT => {}
            other if kind::NEUTRAL.contains(&other) || event.is_ignorable => {}
            other => {
                let text = format!("the log has an event of kind {other}, which is not known here");
                return Err(SourceError::Unsuitable(text));
            }
        }
        if event.end > 0 {
            self.place.offset = u64::from(event.end);
        }
        Ok(())
    }

    /// Another file begins, or the first one. If it is called otherwise than files are, nobody knows how long the log is.
    fn rotate(&mut self, event: &Event<'_>) {
        let mut bytes = guira_databases::Bytes(event.body);
        if let (Some(offset), Some(file)) = (bytes.number(8), number(bytes.0)) {
            self.place = Place { file, offset };
        }
    }

    fn begin(&mut self, event: &Event<'_>) -> Result<(), SourceError> {
        let mut bytes = guira_databases::Bytes(event.body);
        let (sequence, domain, flags) = (bytes.number(8), bytes.u32(), bytes.byte());
        let (Some(sequence), Some(domain), Some(flags)) = (sequence, domain, flags) else {
            return Err(SourceError::Malformed("a GTID"));
        };
        // One that did not end was cut off by a crash of the database, and has changed nothing.
        let transaction = Some(Transaction { gtid: Gtid { domain, server: event.server, sequence }, flags });
        self.transaction = transaction;
        self.tables.clear();
        if flags & PREPARED_XA != 0 { Err(xa(transaction)) } else { Ok(()) }
    }

    fn end(&mut self, event: &Event<'_>, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let ended = self.transaction.take().ok_or(SourceError::Malformed("a transaction without a GTID"))?;
        self.position.advance(ended.gtid);
        self.tables.clear();
        Ok(changes.committed(&self.position, event.when)?)
    }

    fn add_table(&mut self, event: &Event<'_>, changes: &dyn Changes) -> Result<(), SourceError> {
        let wrong = || SourceError::Malformed("a table");
        let head = table::head(event.body).ok_or_else(wrong)?;
        let is_wanted = changes.wants(head.database, head.table);
        let table = if is_wanted { Some(head.table().ok_or_else(wrong)?) } else { None };
        self.tables.insert(head.id, table);
        Ok(())
    }

    fn tell_rows(
        &self,
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
        let told = rows
            .each(table, |old, new| changes.row(&Row { table: &table.names, old, new, when: event.when }));
        Ok(told.map_err(|flaw| if flaw == Flaw::Long { long() } else { wrong() })??)
    }

    fn tell_statement(&mut self, event: &Event<'_>, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let mut query = query(event).ok_or(SourceError::Malformed("a statement"))?;
        let inflated;
        if event.kind == kind::QUERY_COMPRESSED {
            inflated = inflate(query.text).map_err(|flaw| match flaw {
                Flaw::Long => cut(),
                Flaw::Malformed => SourceError::Malformed("a statement"),
            })?;
            query.text = &inflated;
        }
        let [verb, object] = first_words(query.text);
        match &*verb {
            // Beginnings and ends have no comments: the server itself writes them.
            "BEGIN" | "SAVEPOINT" => return Ok(()),
            "COMMIT" => return self.end(event, changes),
            "ROLLBACK" if query.text.eq_ignore_ascii_case(b"ROLLBACK") => return self.end(event, changes),
            "ROLLBACK" => return Ok(()),
            "XA" => {
                if self.flags() & COMPLETED_XA != 0 && object != "ROLLBACK" {
                    return Err(xa(self.transaction));
                }
            }
            _ => {
                changes.statement(query.text, event.when)?;
                if is_unseen(&verb, &object, query.text) {
                    changes.unseen(query.database, &verb);
                }
            }
        }
        if self.flags() & STANDALONE != 0 { self.end(event, changes) } else { Ok(()) }
    }

    fn flags(&self) -> u8 {
        self.transaction.map_or(0, |transaction| transaction.flags)
    }
}

fn cut() -> SourceError {
    SourceError::Unsuitable("the log has a statement or row of over 64 MiB".to_owned())
}

/// The changes of an XA transaction become visible at another time than they are in the log.
fn xa(transaction: Option<Transaction>) -> SourceError {
    let gtid = transaction.map(|it| format!(" {}", it.gtid)).unwrap_or_default();
    SourceError::Gap(format!(
        "the changes of XA transactions cannot be followed, and transaction{gtid} is part of one"
    ))
}

/// Whether a statement, of which these are the first words, may change data and has no rows in the log. One that is not known may.
fn is_unseen(verb: &str, object: &str, text: &[u8]) -> bool {
    let names = |word: &[u8]| text.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    match verb {
        "DROP" | "RENAME" => OF_TABLES.contains(&object),
        "ALTER" => object == "TABLE" && OF_ROWS.iter().any(|word| names(word)),
        "CREATE" => object == "OR",
        // SET STATEMENT … FOR may be before any other.
        "SET" => object == "STATEMENT",
        verb => !HARMLESS.contains(&verb),
    }
}

/// The first two words of a statement, in capitals, without the blanks and comments before them. What MariaDB executes of comments is none.
fn first_words(text: &[u8]) -> [String; 2] {
    let mut rest = text;
    [(); 2].map(|()| {
        rest = behind_comments(rest);
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, behind) = rest.split_at(length);
        rest = behind;
        String::from_utf8_lossy(word).to_ascii_uppercase()
    })
}

fn behind_comments(mut rest: &[u8]) -> &[u8] {
    loop {
        rest = rest.trim_ascii_start();
        let is_line = rest.starts_with(b"#") || rest.starts_with(b"--");
        rest = if is_line {
            let end = rest.iter().position(|byte| *byte == b'\n');
            end.map_or(&[], |end| &rest[end..])
        } else if let Some(executed) = rest.strip_prefix(b"/*!").or_else(|| rest.strip_prefix(b"/*M!")) {
            let version = executed.iter().take_while(|byte| byte.is_ascii_digit()).count();
            &executed[version..]
        } else if let Some(comment) = rest.strip_prefix(b"/*") {
            let end = comment.windows(2).position(|two| two == b"*/");
            end.map_or(&[], |end| &comment[end + 2..])
        } else if let Some(behind) = rest.strip_prefix(b"*/") {
            behind
        } else {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests;
