//! Statements, their results, and errors.

use super::message::{Messages, framed};
use crate::SourceError;
use crate::bytes::Bytes;
use std::io;

/// Classes of errors that another connection may not have: connections, resources, and an operator's intervention.
const PASSING_CLASSES: [&str; 3] = ["08", "53", "57"];
/// The class of errors that say who it is, or the password, is wrong.
const LOGIN_CLASS: &str = "28";
/// An object is in use: the slot, by a connection whose end the database has not noticed yet, or by another invalidator.
const OBJECT_IN_USE: &str = "55006";
/// A file of the log no longer exists.
const UNDEFINED_FILE: &str = "58P01";

/// The type of columns of bytes.
const BYTEA: u64 = 17;

/// A row of texts; NULL is `None`.
pub type Row = Vec<Option<String>>;

/// The text of an error message, in one line.
pub fn refusal(body: &[u8]) -> SourceError {
    let mut bytes = Bytes(body);
    let (mut code, mut text) = (String::new(), String::new());
    while let Some(field) = bytes.byte().filter(|field| *field != 0) {
        let value = bytes.until_zero().unwrap_or_default();
        let value = String::from_utf8_lossy(value).replace(char::is_control, " ");
        match field {
            b'C' => code = value,
            b'M' => text.insert_str(0, &value),
            b'D' => text += &format!(": {value}"),
            _ => {}
        }
    }
    let said = format!("{text} ({code})");
    if code == UNDEFINED_FILE {
        return SourceError::Gap(said);
    }
    if code == OBJECT_IN_USE || PASSING_CLASSES.iter().any(|class| code.starts_with(class)) {
        return SourceError::Connection(io::Error::other(said));
    }
    if code.starts_with(LOGIN_CLASS) {
        return SourceError::Login(said);
    }
    SourceError::Refused(said)
}

/// Executes a statement, and returns its rows.
pub fn query(messages: &mut Messages, statement: &str) -> Result<Vec<Row>, SourceError> {
    send(messages, statement)?;
    let mut rows = Vec::new();
    loop {
        let message = messages.read()?;
        match message.kind {
            b'D' => rows.push(row(message.body).ok_or(SourceError::Malformed("a row of a result"))?),
            b'E' => return Err(refusal(message.body)),
            b'Z' => return Ok(rows),
            // Descriptions, the end of the result, notices and settings.
            _ => {}
        }
    }
}

/// Begins a COPY in both directions.
pub fn start_copy(messages: &mut Messages, statement: &str) -> Result<(), SourceError> {
    send(messages, statement)?;
    loop {
        let message = messages.read()?;
        match message.kind {
            b'W' => return Ok(()),
            b'E' => return Err(refusal(message.body)),
            b'Z' => return Err(SourceError::Malformed("the reply to START_REPLICATION")),
            _ => {}
        }
    }
}

fn send(messages: &Messages, statement: &str) -> io::Result<()> {
    messages.write(b'Q', &[statement.as_bytes(), &[0]].concat())
}

/// Executes a statement whose `$1`, `$2`, … are these values, and returns its first row.
pub fn first_row(
    messages: &mut Messages,
    statement: &str,
    values: &[&[u8]],
) -> Result<Option<Vec<Option<Vec<u8>>>>, SourceError> {
    send_query(messages, statement, values)?;
    let (mut found, mut kinds, mut refused) = (None, Vec::new(), None);
    loop {
        let message = messages.read()?;
        let wrong = || SourceError::Malformed("a row of a result");
        match message.kind {
            b'T' => kinds = types(message.body).ok_or_else(wrong)?,
            b'D' if found.is_none() => {
                let row = values_of(message.body).ok_or_else(wrong)?;
                let value = |(at, value): (usize, Option<&[u8]>)| match (value, kinds.get(at)) {
                    (Some(value), Some(&BYTEA)) => unhex(value).map(Some),
                    (value, _) => Some(value.map(<[u8]>::to_vec)),
                };
                found =
                    Some(row.into_iter().enumerate().map(value).collect::<Option<_>>().ok_or_else(wrong)?);
            }
            b'E' => refused = Some(refusal(message.body)),
            // The next statement may be sent.
            b'Z' => return refused.map_or(Ok(found), Err),
            _ => {}
        }
    }
}

/// Sends a statement with its values, and that its first row is wanted.
fn send_query(messages: &Messages, statement: &str, values: &[&[u8]]) -> io::Result<()> {
    let count = u16::try_from(values.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_be_bytes();
    // Neither the statement nor the portal has a name; the types of values are what the statement makes of them.
    let parse = [&[0], statement.as_bytes(), &[0, 0, 0]].concat();
    let mut bind = [&[0, 0, 0, 0], &count[..]].concat();
    for value in values {
        let length = u32::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        bind.extend(length.to_be_bytes());
        bind.extend_from_slice(value);
    }
    // All columns as text.
    bind.extend([0, 0]);
    let mut all = Vec::new();
    for (kind, body) in
        [(b'P', &parse[..]), (b'B', &bind), (b'D', b"P\0"), (b'E', b"\0\0\0\0\x01"), (b'S', b"")]
    {
        all.extend(framed(kind, body)?);
    }
    messages.writer().write(&all)
}

/// The types of the columns of a result.
fn types(body: &[u8]) -> Option<Vec<u64>> {
    let mut bytes = Bytes(body);
    let count = bytes.big(2)?;
    let of_column = |_| {
        bytes.until_zero()?;
        // The table and the number of the column; behind the type its length, its modifier and its format.
        bytes.take(6)?;
        let kind = bytes.big(4);
        bytes.take(8)?;
        kind
    };
    (0..count).map(of_column).collect()
}

/// Bytes that are written as \x and hex digits.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (pairs, rest) = text.strip_prefix(b"\\x")?.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8));
    bytes.collect::<Option<_>>().filter(|_| rest.is_empty())
}

fn row(body: &[u8]) -> Option<Row> {
    let text = |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
    values_of(body).map(|values| values.into_iter().map(text).collect())
}

fn values_of(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut bytes = Bytes(body);
    let count = bytes.big(2)?;
    let value = |_| {
        let length = bytes.big(4)? as u32;
        // -1 is NULL.
        if length == u32::MAX {
            return Some(None);
        }
        bytes.take(length as usize).map(Some)
    };
    (0..count).map(value).collect()
}

pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::super::message::testing::{says, sent};
    use super::*;

    #[test]
    fn statements_are_sent_and_rows_read() {
        let row = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let answers: [(u8, &[u8]); 4] = [(b'T', b"\0\x03"), (b'D', row), (b'C', b"SELECT 1\0"), (b'Z', b"I")];
        let (mut messages, server) = says(&answers);
        let rows = query(&mut messages, "SELECT 1").unwrap();
        assert_eq!(rows, [[Some("ab".to_owned()), None, Some(String::new())]]);
        assert_eq!(sent(messages, server), b"Q\0\0\0\x0dSELECT 1\0");
        for length in 1..row.len() {
            let cut = [(b'D', &row[..length])];
            assert!(query(&mut says(&cut).0, "SELECT 1").is_err(), "{length} bytes");
        }
    }

    #[test]
    fn values_of_a_statement_are_sent_beside_it() {
        let column = |name: &str, kind: u32| {
            let (name, kind) = (name.as_bytes(), kind.to_be_bytes());
            [name, &[0; 7], &kind, &[0; 8]].concat()
        };
        let described = [&[0, 3][..], &column("name", 25), &column("note", 25), &column("raw", 17)].concat();
        let row = b"\0\x03\0\0\0\x02\0\xff\xff\xff\xff\xff\0\0\0\x06\\x00fF";
        let answers: [(u8, &[u8]); 6] =
            [(b'1', b""), (b'2', b""), (b'T', &described), (b'D', row), (b's', b""), (b'Z', b"I")];
        let (mut messages, server) = says(&answers);
        let found = first_row(&mut messages, "SELECT $1", &[b"it's", b""]).unwrap();
        assert_eq!(found, Some(vec![Some(vec![0, 255]), None, Some(vec![0, 255])]));
        let expected = b"P\0\0\0\x11\0SELECT $1\0\0\0B\0\0\0\x18\0\0\0\0\0\x02\0\0\0\x04it's\0\0\0\0\0\0D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\x01S\0\0\0\x04";
        assert_eq!(sent(messages, server).escape_ascii().to_string(), expected.escape_ascii().to_string());
        for cut in 1..row.len() {
            let answers: [(u8, &[u8]); 2] = [(b'T', &described), (b'D', &row[..cut])];
            assert!(first_row(&mut says(&answers).0, "", &[]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn a_statement_that_is_refused_leaves_the_connection_for_the_next() {
        let refused = b"SERROR\0C22P02\0Mno number\0\0";
        let answers: [(u8, &[u8]); 5] =
            [(b'E', refused), (b'Z', b"I"), (b'1', b""), (b'C', b"SELECT 0\0"), (b'Z', b"I")];
        let (mut messages, _server) = says(&answers);
        let error = first_row(&mut messages, "SELECT $1::int", &[b"x"]).unwrap_err();
        assert!(error.to_string().contains("no number (22P02)"), "{error}");
        assert_eq!(first_row(&mut messages, "SELECT 1 WHERE false", &[]).unwrap(), None);
    }

    #[test]
    fn errors_are_told_apart_by_what_can_be_done_about_them() {
        let error = |code: &str| refusal(format!("SERROR\0C{code}\0Mno\nway\0Dit is late\0\0").as_bytes());
        assert_eq!(error("42704").to_string(), "the database returned an error: no way: it is late (42704)");
        for code in ["57P01", "57P03", "53300", "55006", "08006"] {
            assert!(error(code).is_passing(), "{code}");
        }
        assert!(matches!(error("58P01"), SourceError::Gap(_)));
        assert!(matches!(error("28P01"), SourceError::Login(_)));
        assert!(matches!(refusal(b""), SourceError::Refused(_)));
    }

    #[test]
    fn texts_and_names_are_quoted() {
        assert_eq!((&*literal("it's"), &*identifier("a\"b")), ("'it''s'", "\"a\"\"b\""));
    }
}
