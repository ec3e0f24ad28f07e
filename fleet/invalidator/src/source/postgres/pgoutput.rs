//! Messages of logical replication, as pgoutput writes them (version 1).

use super::position::Lsn;
use crate::source::{TableNames, Value};
use guira_sql::Bytes;

/// Seconds from 1970 to 2000, where times in the log begin.
const EPOCH: i64 = 946_684_800;

/// Seconds since 1970 of a time in the log.
pub(super) fn seconds(time: u64) -> u64 {
    let since = (time as i64).div_euclid(1_000_000) + EPOCH;
    since.try_into().unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change<'a> {
    Begin {
        commit: Lsn,
        when: u64,
    },
    Commit {
        end: Lsn,
        when: u64,
    },
    Relation(u32, Relation),
    Row(u32, RowChange<'a>),
    Truncate(Vec<u32>),
    Message {
        prefix: &'a [u8],
        content: &'a [u8],
    },
    /// A message without data, such as the origin of a transaction, or a type.
    Neutral,
    Unknown(u8),
}

/// The definition of a table when its rows were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relation {
    pub(super) names: TableNames,
    /// Whether each column belongs to the replica identity.
    pub(super) is_key: Vec<bool>,
}

/// The change of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowChange<'a> {
    Insert(Tuple<'a>),
    /// Without the row before if its key is the same, and no more than the key is requested.
    Update(Option<Old<'a>>, Tuple<'a>),
    Delete(Old<'a>),
}

/// The old values of a row, as far as the log has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Old<'a> {
    /// The columns of the key; others are NULL here, whatever they were.
    Key(Tuple<'a>),
    Whole(Tuple<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tuple<'a>(&'a [u8]);

/// Reads a message. `None` says that it is too short.
pub(super) fn read(data: &[u8]) -> Option<Change<'_>> {
    let mut bytes = Bytes(data);
    Some(match bytes.byte()? {
        b'B' => Change::Begin { commit: Lsn(bytes.big(8)?), when: seconds(bytes.big(8)?) },
        b'C' => {
            let (_flags, _commit) = (bytes.byte()?, bytes.big(8)?);
            Change::Commit { end: Lsn(bytes.big(8)?), when: seconds(bytes.big(8)?) }
        }
        b'R' => {
            let id = bytes.big(4)? as u32;
            Change::Relation(id, relation(bytes)?)
        }
        kind @ (b'I' | b'U' | b'D') => row(kind, bytes)?,
        b'T' => {
            let (count, _options) = (bytes.big(4)?, bytes.byte()?);
            Change::Truncate((0..count).map(|_| bytes.big(4).map(|id| id as u32)).collect::<Option<_>>()?)
        }
        b'M' => {
            let (_flags, _position) = (bytes.byte()?, bytes.big(8)?);
            let prefix = bytes.until_zero()?;
            let length = bytes.big(4)? as usize;
            Change::Message { prefix, content: bytes.take(length)? }
        }
        b'O' | b'Y' => Change::Neutral,
        other => Change::Unknown(other),
    })
}

/// Which table a message is about, of which only the beginning may be there.
pub(super) fn row_relation(data: &[u8]) -> Option<u32> {
    let mut bytes = Bytes(data);
    matches!(bytes.byte()?, b'I' | b'U' | b'D').then(|| bytes.big(4).map(|id| id as u32)).flatten()
}

/// The prefix of a message, of which only the beginning may be there.
pub(super) fn message_prefix(data: &[u8]) -> Option<&[u8]> {
    let mut bytes = Bytes(data);
    (bytes.byte()? == b'M').then_some(())?;
    bytes.take(9)?;
    bytes.until_zero()
}

fn relation(mut bytes: Bytes<'_>) -> Option<Relation> {
    let namespace = match bytes.until_zero()? {
        b"" => b"pg_catalog",
        named => named,
    };
    let table = bytes.until_zero()?;
    let _identity = bytes.byte()?;
    let count = bytes.big(2)?;
    let (mut columns, mut is_key) = (Vec::new(), Vec::new());
    for _ in 0..count {
        is_key.push(bytes.byte()? & 1 == 1);
        columns.push(bytes.until_zero()?.to_vec());
        let (_kind, _modifier) = (bytes.big(4)?, bytes.big(4)?);
    }
    let names = TableNames { database: namespace.into(), table: table.into(), columns };
    Some(Relation { names, is_key })
}

fn row(kind: u8, mut bytes: Bytes<'_>) -> Option<Change<'_>> {
    let relation = bytes.big(4)? as u32;
    let (mut old, mut new) = (None, None);
    while !bytes.is_empty() {
        let which = bytes.byte()?;
        let tuple = tuple(&mut bytes)?;
        match which {
            b'K' => old = Some(Old::Key(tuple)),
            b'O' => old = Some(Old::Whole(tuple)),
            b'N' => new = Some(tuple),
            _ => return None,
        }
    }
    let change = match (kind, old, new) {
        (b'I', None, Some(new)) => RowChange::Insert(new),
        (b'U', old, Some(new)) => RowChange::Update(old, new),
        (b'D', Some(old), None) => RowChange::Delete(old),
        _ => return None,
    };
    Some(Change::Row(relation, change))
}

/// The next tuple, whose values are only skipped.
fn tuple<'a>(bytes: &mut Bytes<'a>) -> Option<Tuple<'a>> {
    let whole = bytes.0;
    for _ in 0..bytes.big(2)? {
        value(bytes)?;
    }
    Some(Tuple(&whole[..whole.len() - bytes.0.len()]))
}

fn value<'a>(bytes: &mut Bytes<'a>) -> Option<Value<'a>> {
    Some(match bytes.byte()? {
        b'n' => Value::Null,
        // A long value that has not changed is not in the log again.
        b'u' => Value::Absent,
        b't' => {
            let length = bytes.big(4)? as usize;
            Value::Bytes(bytes.take(length)?)
        }
        b'b' => {
            let length = bytes.big(4)? as usize;
            bytes.take(length)?;
            Value::Other
        }
        _ => return None,
    })
}

impl<'a> Tuple<'a> {
    /// The values. `None` if they are not as many as the table has columns.
    pub(super) fn values(self, relation: &Relation) -> Option<Vec<Value<'a>>> {
        let mut bytes = Bytes(self.0);
        let count = bytes.big(2)? as usize;
        (count == relation.is_key.len()).then(|| (0..count).map(|_| value(&mut bytes)).collect())?
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    /// `shop.users (id bigint primary key, name text)`, as PostgreSQL 15 writes it.
    pub(in super::super) fn users(id: u32) -> Vec<u8> {
        let head = [&b"R"[..], &id.to_be_bytes(), b"shop\0users\0d\0\x02"].concat();
        let columns =
            [&b"\x01id\0\0\0\0\x14\xff\xff\xff\xff"[..], b"\0name\0\0\0\0\x19\xff\xff\xff\xff"].concat();
        [head, columns].concat()
    }

    /// A tuple; "\0" is NULL, "\u{1}" a long value that has not changed.
    pub(in super::super) fn tuple_of(which: u8, values: &[&str]) -> Vec<u8> {
        let mut bytes = vec![which, 0, values.len() as u8];
        for value in values {
            match *value {
                "\0" => bytes.push(b'n'),
                "\u{1}" => bytes.push(b'u'),
                text => {
                    bytes.push(b't');
                    bytes.extend((text.len() as u32).to_be_bytes());
                    bytes.extend(text.bytes());
                }
            }
        }
        bytes
    }

    pub(in super::super) fn row_of(kind: u8, relation: u32, tuples: &[Vec<u8>]) -> Vec<u8> {
        [&[kind][..], &relation.to_be_bytes(), &tuples.concat()].concat()
    }

    #[test]
    fn transactions_begin_and_end() {
        let begin = unhex("42 0000000001a2b3c8 0002bf20f0c0e0d0 000002f1");
        assert_eq!(
            read(&begin),
            Some(Change::Begin { commit: Lsn(0x1a2_b3c8), when: seconds(0x0002_bf20_f0c0_e0d0) })
        );
        let commit = unhex("43 00 0000000001a2b3c8 0000000001a2b3f8 0000000000000000");
        assert_eq!(read(&commit), Some(Change::Commit { end: Lsn(0x1a2_b3f8), when: 946_684_800 }));
        assert_eq!(seconds(1_999_999), 946_684_801);
        assert_eq!(seconds(-1_i64 as u64), 946_684_799, "before 2000");
        assert_eq!(seconds(i64::MIN as u64), 0);
    }

    #[test]
    fn a_table_is_read_with_its_key() {
        let Some(Change::Relation(9, relation)) = read(&users(9)) else { panic!("a table") };
        assert_eq!((&*relation.names.database, &*relation.names.table), (&b"shop"[..], &b"users"[..]));
        assert_eq!(relation.names.columns, [b"id".to_vec(), b"name".to_vec()]);
        assert_eq!(relation.is_key, [true, false]);
    }

    #[test]
    fn rows_have_the_values_that_the_log_has() {
        let Some(Change::Relation(_, relation)) = read(&users(9)) else { panic!("a table") };
        let data = row_of(b'U', 9, &[tuple_of(b'O', &["1", "old"]), tuple_of(b'N', &["2", "\u{1}"])]);
        let Some(Change::Row(9, RowChange::Update(Some(Old::Whole(old)), new))) = read(&data) else {
            panic!("a row")
        };
        assert_eq!(old.values(&relation).unwrap(), [Value::Bytes(b"1"), Value::Bytes(b"old")]);
        assert_eq!(new.values(&relation).unwrap(), [Value::Bytes(b"2"), Value::Absent]);
        let narrow = row_of(b'I', 9, &[tuple_of(b'N', &["1"])]);
        let Some(Change::Row(9, RowChange::Insert(new))) = read(&narrow) else { panic!("a row") };
        assert_eq!(new.values(&relation), None, "of another table");
        assert_eq!(
            (row_relation(&data[..5]), row_relation(b"I\0"), row_relation(b"T\0\0\0\0")),
            (Some(9), None, None)
        );
    }

    #[test]
    fn messages_have_a_prefix() {
        let data = [&b"M\x01\0\0\0\0\0\0\0\x07mc\0\0\0\0\x05"[..], b"a b c"].concat();
        assert_eq!(read(&data), Some(Change::Message { prefix: b"mc", content: b"a b c" }));
        assert_eq!((message_prefix(&data[..13]), message_prefix(&data[..12])), (Some(&b"mc"[..]), None));
        let truncate = unhex("54 00000002 00 00000009 0000000a");
        assert_eq!(read(&truncate), Some(Change::Truncate(vec![9, 10])));
        assert_eq!((read(b"Ox"), read(b"Z")), (Some(Change::Neutral), Some(Change::Unknown(b'Z'))));
    }

    #[test]
    fn what_is_cut_or_does_not_fit_is_not_read() {
        let update = row_of(b'U', 9, &[tuple_of(b'K', &["1", "\0"]), tuple_of(b'N', &["2", "b"])]);
        for whole in [users(9), update.clone(), unhex("54 00000001 00 00000009")] {
            // Behind its old row an update could end, if it were a delete.
            assert!((0..whole.len()).all(|length| read(&whole[..length]).is_none()), "{whole:?}");
        }
        assert_eq!(read(&[b"I", &update[1..]].concat()), None, "an insert has no old row");
        assert_eq!(read(&[b"D", &update[1..]].concat()), None, "a delete has no new row");
    }
}
