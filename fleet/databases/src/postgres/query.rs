//! Statements, their results, and errors.

use super::message::Messages;
use crate::SourceError;
use crate::bytes::Bytes;
use std::io;

/// Classes of errors that another connection may not have: connections, resources, and an operator's intervention.
const PASSING_CLASSES: [&str; 3] = ["08", "53", "57"];
/// The class of errors that say who it is, or the password, is wrong.
const LOGIN_CLASS: &str = "28";
/// An object is in use: the slot, by a connection whose end the database has not noticed yet, or by another invalidator.
const OBJECT_IN_USE: &str = "55006";
/// A file of the log is not there any more.
const UNDEFINED_FILE: &str = "58P01";

/// A row of texts; NULL is none.
pub type Row = Vec<Option<String>>;

/// What an error says, in one line.
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
            b'Z' => return Err(SourceError::Malformed("its answer to START_REPLICATION")),
            _ => {}
        }
    }
}

fn send(messages: &Messages, statement: &str) -> io::Result<()> {
    messages.write(b'Q', &[statement.as_bytes(), &[0]].concat())
}

fn row(body: &[u8]) -> Option<Row> {
    let mut bytes = Bytes(body);
    let count = bytes.big(2)?;
    let value = |_| {
        let length = bytes.big(4)? as u32;
        // -1 is NULL.
        if length == u32::MAX {
            return Some(None);
        }
        bytes.take(length as usize).map(|value| Some(String::from_utf8_lossy(value).into_owned()))
    };
    (0..count).map(value).collect()
}

/// A text of a statement.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name of a statement.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::super::message::testing::{says, told};
    use super::*;

    #[test]
    fn statements_are_sent_and_rows_read() {
        let row = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let answers: [(u8, &[u8]); 4] = [(b'T', b"\0\x03"), (b'D', row), (b'C', b"SELECT 1\0"), (b'Z', b"I")];
        let (mut messages, server) = says(&answers);
        let rows = query(&mut messages, "SELECT 1").unwrap();
        assert_eq!(rows, [[Some("ab".to_owned()), None, Some(String::new())]]);
        assert_eq!(told(messages, server), b"Q\0\0\0\x0dSELECT 1\0");
        for length in 1..row.len() {
            let cut = [(b'D', &row[..length])];
            assert!(query(&mut says(&cut).0, "SELECT 1").is_err(), "{length} bytes");
        }
    }

    #[test]
    fn errors_are_told_apart_by_what_can_be_done_about_them() {
        let error = |code: &str| refusal(format!("SERROR\0C{code}\0Mno\nway\0Dit is late\0\0").as_bytes());
        assert_eq!(error("42704").to_string(), "the database refuses: no way: it is late (42704)");
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
