//! Turns the messages of a replication stream into changes.

use super::pgoutput::{self, Change, Old, Relation, RowChange, Tuple, seconds};
use super::position::{Lsn, Position};
use crate::source::{Changes, Row, SourceError, Value};
use guira_sql::Bytes;
use guira_sql::postgres::Message;
use std::collections::HashMap;

/// The prefix of messages with keys.
const PREFIX: &[u8] = b"mc";

/// The state of reading a log.
#[derive(Debug)]
pub(super) struct Stream {
    /// All changes before this position were reported.
    position: Position,
    /// The commit time of the current transaction.
    transaction: Option<u64>,
    /// The position of the last transaction's commit.
    commit: Lsn,
    /// Tables by their numbers; `None` for tables whose rows are not wanted.
    relations: HashMap<u32, Option<Relation>>,
}

impl Stream {
    pub(super) fn new(position: Position) -> Self {
        Stream { position, transaction: None, commit: Lsn(0), relations: HashMap::new() }
    }

    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// Whether all transactions that were committed before `last` were reported.
    pub(super) fn has_reached(&self, last: Lsn) -> bool {
        self.position.lsn >= last || self.transaction.is_some() && self.commit >= last
    }

    /// Takes the data of a CopyData message.
    pub(super) fn take(
        &mut self,
        message: Message<'_>,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        let mut bytes = Bytes(message.body);
        let wrong = || SourceError::Malformed("a message of the log");
        match bytes.byte().ok_or_else(wrong)? {
            b'w' => {
                let (start, end, time) = (bytes.big(8), bytes.big(8), bytes.big(8));
                let (Some(_), Some(_), Some(time)) = (start, end, time) else { return Err(wrong()) };
                if message.is_whole {
                    let change = pgoutput::read(bytes.0).ok_or_else(wrong)?;
                    self.report(change, seconds(time), changes)
                } else {
                    self.refuse(bytes.0)
                }
            }
            b'k' => {
                let (Some(end), Some(time)) = (bytes.big(8), bytes.big(8)) else { return Err(wrong()) };
                self.reach(Lsn(end), seconds(time), changes)
            }
            _ => Err(wrong()),
        }
    }

    /// The database has sent everything before `end`. Within a transaction this says nothing about
    /// the transaction itself.
    fn reach(&mut self, end: Lsn, when: u64, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if self.transaction.is_some() || end <= self.position.lsn {
            return Ok(());
        }
        self.position.lsn = end;
        Ok(changes.reached(&self.position, when)?)
    }

    fn report(
        &mut self,
        change: Change<'_>,
        sent: u64,
        changes: &mut dyn Changes,
    ) -> Result<(), SourceError> {
        match change {
            Change::Begin { commit, when } => {
                self.transaction = Some(when);
                self.commit = commit;
            }
            Change::Commit { end, when } => {
                self.transaction = None;
                self.position.lsn = self.position.lsn.max(end);
                changes.committed(&self.position, when)?;
            }
            Change::Relation(id, relation) => {
                let is_wanted = changes.wants(&relation.names.database, &relation.names.table);
                self.relations.insert(id, is_wanted.then_some(relation));
            }
            Change::Row(id, change) => {
                let when = self.transaction.ok_or(SourceError::Malformed("a row of no transaction"))?;
                if let Some(relation) = self.relation(id)? {
                    report_row(relation, change, when, changes)?;
                }
            }
            Change::Truncate(relations) => {
                for id in relations {
                    if let Some(relation) = self.relation(id)? {
                        changes.unseen(&relation.names.database, "TRUNCATE");
                    }
                }
            }
            Change::Message { prefix, content } => {
                if prefix == PREFIX {
                    changes.message(content, self.transaction.unwrap_or(sent))?;
                }
            }
            Change::Neutral => {}
            Change::Unknown(kind) => {
                let kind = [kind];
                let text =
                    format!("the log has a message of kind {}, which is not known here", kind.escape_ascii());
                return Err(SourceError::Unsuitable(text));
            }
        }
        Ok(())
    }

    fn relation(&self, id: u32) -> Result<Option<&Relation>, SourceError> {
        let known = self.relations.get(&id).ok_or(SourceError::Malformed("rows of no table"))?;
        Ok(known.as_ref())
    }

    /// Fails for a message of over 64 MiB that begins with `data`, unless it is of no interest.
    fn refuse(&self, data: &[u8]) -> Result<(), SourceError> {
        let what = match (pgoutput::row_relation(data), pgoutput::message_prefix(data)) {
            (Some(id), _) => match self.relation(id)? {
                Some(relation) => format!("row of {}", relation.names.table.escape_ascii()),
                None => return Ok(()),
            },
            (None, Some(prefix)) if prefix != PREFIX => return Ok(()),
            _ => "message".to_owned(),
        };
        Err(SourceError::Unsuitable(format!("the log has a {what} of over 64 MiB")))
    }
}

fn report_row(
    relation: &Relation,
    change: RowChange<'_>,
    when: u64,
    changes: &mut dyn Changes,
) -> Result<(), SourceError> {
    let (old, new) = match change {
        RowChange::Insert(new) => (None, Some(values(new, relation)?)),
        RowChange::Delete(old) => (Some(before(old, relation)?), None),
        RowChange::Update(Some(old), new) => (Some(before(old, relation)?), Some(values(new, relation)?)),
        // The key did not change; the other old values are unknown.
        RowChange::Update(None, new) => {
            let new = values(new, relation)?;
            (Some(of_key(&new, relation)), Some(new))
        }
    };
    Ok(changes.row(&Row { table: &relation.names, old: old.as_deref(), new: new.as_deref(), when })?)
}

fn values<'a>(tuple: Tuple<'a>, relation: &Relation) -> Result<Vec<Value<'a>>, SourceError> {
    tuple.values(relation).ok_or(SourceError::Malformed("a row"))
}

fn before<'a>(old: Old<'a>, relation: &Relation) -> Result<Vec<Value<'a>>, SourceError> {
    match old {
        Old::Whole(tuple) => values(tuple, relation),
        Old::Key(tuple) => Ok(of_key(&values(tuple, relation)?, relation)),
    }
}

/// The values of the key's columns, without the others.
fn of_key<'a>(values: &[Value<'a>], relation: &Relation) -> Vec<Value<'a>> {
    let value = |(value, is_key): (&Value<'a>, &bool)| if *is_key { *value } else { Value::Absent };
    values.iter().zip(&relation.is_key).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pgoutput::tests::{row_of, tuple_of, users};
    use super::*;
    use crate::source::Image;
    use guira_sync::stop::Stopped;
    use std::fmt::Display;

    /// Records the changes of the log.
    #[derive(Debug, Default)]
    struct Notes(Vec<String>);

    fn shown(image: Option<Image<'_>>) -> String {
        let text = |value| match value {
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        image.map_or("-".to_owned(), |image| {
            format!("{} {}", text(image.value("id")), text(image.value("name")))
        })
    }

    impl Changes for Notes {
        fn wants(&self, database: &[u8], table: &[u8]) -> bool {
            (database, table) == (b"shop", b"users")
        }
        fn statement(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
            panic!("the log has none")
        }
        fn message(&mut self, keys: &[u8], when: u64) -> Result<(), Stopped> {
            self.0.push(format!("message {} at {when}", keys.escape_ascii()));
            Ok(())
        }
        fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped> {
            self.0.push(format!("{} => {}", shown(row.before()), shown(row.after())));
            Ok(())
        }
        fn unseen(&mut self, database: &[u8], verb: &str) {
            self.0.push(format!("{verb} in {}", database.escape_ascii()));
        }
        fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
            self.0.push(format!("committed {position} at {when}"));
            Ok(())
        }
        fn reached(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
            self.0.push(format!("reached {position} at {when}"));
            Ok(())
        }
        fn pause(&mut self) -> Result<(), Stopped> {
            Ok(())
        }
        fn skipped(&mut self, _: &str, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
    }

    /// This many seconds after 2000, in the log's encoding.
    fn time(seconds: u64) -> [u8; 8] {
        (seconds * 1_000_000).to_be_bytes()
    }

    fn begin(when: u64) -> Vec<u8> {
        begin_at(0, when)
    }

    fn begin_at(commit: u64, when: u64) -> Vec<u8> {
        [&b"B"[..], &commit.to_be_bytes(), &time(when), &[0; 4]].concat()
    }

    fn commit(end: u64, when: u64) -> Vec<u8> {
        [&b"C\0"[..], &[0; 8], &end.to_be_bytes(), &time(when)].concat()
    }

    fn keepalive(end: u64, when: u64) -> Vec<u8> {
        [&b"k"[..], &end.to_be_bytes(), &time(when), &[0]].concat()
    }

    fn data(change: &[u8]) -> Vec<u8> {
        [&b"w"[..], &[0; 16], &time(9), change].concat()
    }

    fn message_of(prefix: &str, content: &str) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&b"M\x01"[..], &[0; 8], prefix.as_bytes(), &[0], &length, content.as_bytes()].concat()
    }

    fn stream() -> Stream {
        Stream::new(Position { system: 7, timeline: 1, lsn: Lsn(100) })
    }

    fn report(stream: &mut Stream, messages: &[Vec<u8>]) -> Result<Vec<String>, SourceError> {
        let mut notes = Notes::default();
        for body in messages {
            stream.take(Message { kind: b'd', body, is_whole: true }, &mut notes)?;
        }
        Ok(notes.0)
    }

    #[test]
    fn rows_are_told_with_what_the_log_has_of_them() {
        let change = |kind, tuples: &[Vec<u8>]| data(&row_of(kind, 9, tuples));
        let (new, key) = (tuple_of(b'N', &["2", "new"]), tuple_of(b'K', &["1", "\0"]));
        let reported = report(
            &mut stream(),
            &[
                data(&begin(5)),
                data(&users(9)),
                change(b'I', &[tuple_of(b'N', &["1", "\0"])]),
                change(b'U', &[tuple_of(b'O', &["1", "old"]), new.clone()]),
                change(b'U', &[key.clone(), new.clone()]),
                change(b'U', &[new]),
                change(b'U', &[tuple_of(b'O', &["1", "long"]), tuple_of(b'N', &["1", "\u{1}"])]),
                change(b'D', &[key]),
                data(&commit(200, 5)),
            ],
        );
        assert_eq!(
            reported.unwrap(),
            [
                "- => 1 Null",
                "1 old => 2 new",
                "1 Absent => 2 new",
                "2 Absent => 2 new",
                "1 long => 1 long",
                "1 Absent => -",
                "committed 7-1-0/C8 at 946684805",
            ]
        );
    }

    #[test]
    fn a_place_is_reached_behind_it_and_by_a_transaction_that_commits_behind_it() {
        let mut stream = stream();
        assert!(stream.has_reached(Lsn(100)) && !stream.has_reached(Lsn(101)));
        report(&mut stream, &[data(&begin_at(150, 5))]).unwrap();
        assert!(stream.has_reached(Lsn(150)) && !stream.has_reached(Lsn(151)));
        report(&mut stream, &[data(&commit(160, 5))]).unwrap();
        assert!(stream.has_reached(Lsn(160)) && !stream.has_reached(Lsn(161)));
    }

    #[test]
    fn a_table_has_the_names_that_it_was_told_last() {
        let mut other = users(9);
        let at = other.windows(4).position(|name| name == b"name").unwrap();
        other[at..at + 4].copy_from_slice(b"mail");
        let row = data(&row_of(b'I', 9, &[tuple_of(b'N', &["1", "x"])]));
        let reported = report(
            &mut stream(),
            &[data(&begin(5)), data(&users(9)), row.clone(), data(&other), row.clone()],
        );
        assert_eq!(reported.unwrap(), ["- => 1 x", "- => 1 Absent"]);
        assert!(report(&mut stream(), &[data(&begin(5)), row]).is_err(), "rows of no table");
    }

    #[test]
    fn messages_are_told_within_and_without_transactions() {
        let reported = report(
            &mut stream(),
            &[
                data(&message_of("mc", "a b")),
                data(&message_of("mcx", "c")),
                data(&begin(5)),
                data(&message_of("mc", "d")),
                data(&commit(200, 5)),
            ],
        );
        let reported = reported.unwrap();
        assert_eq!(reported[..2], ["message a b at 946684809", "message d at 946684805"]);
        assert_eq!(reported.len(), 3);
    }

    #[test]
    fn truncated_tables_are_unseen_if_anybody_wants_them() {
        let mut other = users(10);
        other[5..9].copy_from_slice(b"city");
        let truncate = [&b"T\0\0\0\x02\0"[..], &9_u32.to_be_bytes(), &10_u32.to_be_bytes()].concat();
        let reported =
            report(&mut stream(), &[data(&begin(5)), data(&users(9)), data(&other), data(&truncate)]);
        assert_eq!(reported.unwrap(), ["TRUNCATE in shop"]);
    }

    #[test]
    fn a_position_is_reached_outside_transactions_only() {
        let mut stream = stream();
        let reported = report(
            &mut stream,
            &[
                keepalive(100, 5),
                keepalive(150, 5),
                data(&begin(6)),
                keepalive(180, 6),
                data(&commit(200, 6)),
                keepalive(190, 7),
                keepalive(300, 7),
            ],
        );
        assert_eq!(
            reported.unwrap(),
            [
                "reached 7-1-0/96 at 946684805",
                "committed 7-1-0/C8 at 946684806",
                "reached 7-1-0/12C at 946684807"
            ]
        );
        assert_eq!(stream.position().lsn, Lsn(300));
    }

    #[test]
    fn a_message_that_was_cut_is_skipped_only_if_nobody_wants_it() {
        let mut stream = stream();
        let mut other = users(10);
        other[5..9].copy_from_slice(b"city");
        report(&mut stream, &[data(&begin(5)), data(&users(9)), data(&other)]).unwrap();
        let mut cut = |change: &[u8]| {
            let body = data(change);
            stream.take(Message { kind: b'd', body: &body, is_whole: false }, &mut Notes::default())
        };
        let row = |id| row_of(b'I', id, &[b"N\0\x02t".to_vec()]);
        assert!(cut(&row(10)).is_ok() && cut(&message_of("other", "x")).is_ok());
        let error = cut(&row(9)).unwrap_err().to_string();
        assert_eq!(error, "the log has a row of users of over 64 MiB");
        assert!(cut(&message_of("mc", "x")).is_err() && cut(&users(11)).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let unknown = report(&mut stream(), &[data(b"S\0\0\0\x01\x01")]).unwrap_err();
        assert!(unknown.to_string().contains("a message of kind S"), "{unknown}");
        for body in [&b""[..], b"x", b"k\0", b"w\0"] {
            assert!(report(&mut stream(), &[body.to_vec()]).is_err(), "{body:?}");
        }
    }
}
