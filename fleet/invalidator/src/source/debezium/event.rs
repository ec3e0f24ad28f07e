//! Reads a change event: its `payload`, or the event itself if it has no schema.

use super::json::{Json, Number};
use crate::source::{Changes, Row, TableNames, Value};
use guira_sync::clock::wall_clock;
use guira_sync::stop::Stopped;
use std::borrow::Cow;

/// The placeholder for a long value of PostgreSQL that has not changed.
const UNAVAILABLE: &[u8] = b"__debezium_unavailable_value";
/// Fields of events without a row: heartbeats, transactions, and statements that change tables.
const OF_NO_ROW: [&str; 3] = ["status", "ddl", "databaseName"];

/// The reason that a line was not reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreported {
    /// It is no change event, or an incomplete one.
    Wrong(String),
    Stopped(Stopped),
}

impl From<Stopped> for Unreported {
    fn from(stopped: Stopped) -> Self {
        Unreported::Stopped(stopped)
    }
}

/// Reports the changes of an event; returns its time in seconds since 1970.
pub(super) fn report(line: &[u8], changes: &mut dyn Changes) -> Result<u64, Unreported> {
    if line.trim_ascii().is_empty() {
        return Ok(wall_clock());
    }
    let wrong = |why: &str| Unreported::Wrong(why.to_owned());
    let event = Json::read(line).ok_or_else(|| wrong("not JSON"))?;
    let payload = match event.get("payload") {
        Some(payload) if event.get("schema").is_some() => payload,
        _ => event,
    };
    // The end of a deleted row in a compacted topic.
    if payload.is_null() {
        return Ok(wall_clock());
    }
    let source = payload.get("source");
    let when = source.and_then(millis).or_else(|| millis(payload));
    let when = when.map_or_else(wall_clock, |millis| millis / 1000);
    let op = payload.get("op").and_then(Json::text);
    match op.as_deref() {
        Some(op @ (b"c" | b"u" | b"d")) => {
            let reported = source.and_then(|source| report_row(op, payload, source, when, changes));
            reported.ok_or_else(|| wrong("no source with db or schema and table, or no row images"))??;
        }
        Some(b"t") => changes.unseen(&source.and_then(place).unwrap_or_default(), "TRUNCATE"),
        // Rows that were there before, and messages.
        Some(b"r" | b"m") => {}
        Some(op) => return Err(wrong(&format!("unknown op {}", op.escape_ascii()))),
        None if is_of_no_row(payload) => {}
        None => return Err(wrong("no op, so the event may be flattened")),
    }
    Ok(when)
}

fn millis(of: Json<'_>) -> Option<u64> {
    match of.get("ts_ms")?.number()? {
        Number::Signed(millis) => millis.try_into().ok(),
        Number::Unsigned(millis) => Some(millis),
        Number::Other => None,
    }
}

fn is_of_no_row(payload: Json<'_>) -> bool {
    OF_NO_ROW.iter().any(|name| payload.get(name).is_some())
        || payload.get("ts_ms").is_some() && payload.members().is_some_and(|members| members.len() == 1)
}

/// The schema of a table, or, of databases without schemas, its database.
fn place(source: Json<'_>) -> Option<Cow<'_, [u8]>> {
    let text = |name| source.get(name).and_then(Json::text).filter(|text| !text.is_empty());
    text("schema").or_else(|| text("db"))
}

/// Columns and their values, of which the last one of a name counts.
type Columns<'a> = Vec<(Cow<'a, [u8]>, Cell<'a>)>;

#[derive(Debug)]
enum Cell<'a> {
    Text(Cow<'a, [u8]>),
    Value(Value<'static>),
}

fn report_row(
    op: &[u8],
    payload: Json<'_>,
    source: Json<'_>,
    when: u64,
    changes: &mut dyn Changes,
) -> Option<Result<(), Stopped>> {
    let (database, table) = (place(source)?, source.get("table")?.text()?);
    if !changes.wants(&database, &table) {
        return Some(Ok(()));
    }
    let image = |name: &str| payload.get(name).and_then(columns);
    let (before, after) = match op {
        b"c" => (None, Some(image("after")?)),
        // The old values are unknown then.
        b"u" => (Some(image("before").unwrap_or_default()), Some(image("after")?)),
        _ => (Some(image("before").unwrap_or_default()), None),
    };
    let mut names: Vec<&[u8]> = before.iter().chain(&after).flatten().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.dedup();
    let old = before.as_ref().map(|image| values(&names, image));
    let new = after.as_ref().map(|image| values(&names, image));
    let table = TableNames {
        database: database.into_owned(),
        table: table.into_owned(),
        columns: names.iter().map(|name| name.to_vec()).collect(),
    };
    Some(changes.row(&Row { table: &table, old: old.as_deref(), new: new.as_deref(), when }))
}

/// The columns of an image. A name that is no text is that of no column that a template could have.
fn columns(image: Json<'_>) -> Option<Columns<'_>> {
    let members = image.members()?;
    Some(members.into_iter().filter_map(|(name, value)| Some((name.text()?, cell(value)))).collect())
}

fn cell(json: Json<'_>) -> Cell<'_> {
    if json.is_text() {
        return match json.text() {
            Some(text) if *text == *UNAVAILABLE => Cell::Value(Value::Absent),
            Some(text) => Cell::Text(text),
            None => Cell::Value(Value::Other),
        };
    }
    Cell::Value(match (json.boolean(), json.number()) {
        (Some(true), _) => Value::Bytes(b"true"),
        (Some(false), _) => Value::Bytes(b"false"),
        (None, Some(Number::Signed(number))) => Value::Signed(number),
        (None, Some(Number::Unsigned(number))) => Value::Unsigned(number),
        (None, None) if json.is_null() => Value::Null,
        (None, _) => Value::Other,
    })
}

fn values<'a>(names: &[&[u8]], image: &'a Columns<'_>) -> Vec<Value<'a>> {
    let value = |name: &&[u8]| {
        let cell = image.iter().rev().find(|(of, _)| **of == **name).map(|(_, cell)| cell);
        match cell {
            Some(Cell::Text(text)) => Value::Bytes(text),
            Some(Cell::Value(value)) => *value,
            None => Value::Absent,
        }
    };
    names.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Image;
    use guira_sync::stop::Stopped;
    use std::fmt::Display;

    /// Notes the changes of the table `users`.
    #[derive(Debug, Default)]
    struct Notes(Vec<String>);

    fn shown(image: Option<Image<'_>>) -> String {
        let text = |value: Value<'_>| match value {
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Signed(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        let value =
            |image: Image<'_>| ["id", "name", "is_good"].map(|name| text(image.value(name))).join(" ");
        image.map_or("-".to_owned(), value)
    }

    impl Changes for Notes {
        fn wants(&self, database: &[u8], table: &[u8]) -> bool {
            (database, table) == (b"shop", b"users")
        }
        fn statement(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
            panic!("there are none")
        }
        fn message(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
            panic!("they are not read")
        }
        fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped> {
            self.0.push(format!("{} => {}", shown(row.before()), shown(row.after())));
            Ok(())
        }
        fn unseen(&mut self, database: &[u8], verb: &str) {
            self.0.push(format!("{verb} in {}", database.escape_ascii()));
        }
        fn committed(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
        fn reached(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
        fn pause(&mut self) -> Result<(), Stopped> {
            Ok(())
        }
        fn skipped(&mut self, _: &str, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
    }

    const SOURCE: &str = r#""source":{"connector":"mariadb","ts_ms":7999,"db":"shop","table":"users"}"#;

    fn reported(line: &str) -> Result<Vec<String>, String> {
        let mut notes = Notes::default();
        report(line.as_bytes(), &mut notes).map_err(|error| format!("{error:?}"))?;
        Ok(notes.0)
    }

    #[test]
    fn images_of_changes_are_told() {
        let event =
            |op: &str, images: &str| reported(&format!(r#"{{"op":"{op}",{SOURCE},{images}}}"#)).unwrap();
        assert_eq!(
            event("c", r#""before":null,"after":{"id":1,"name":"Zo\u00eb","is_good":true}"#),
            ["- => 1 Zoë true"]
        );
        assert_eq!(
            event(
                "u",
                r#""before":{"id":1,"name":"old"},"after":{"id":1,"name":"__debezium_unavailable_value"}"#
            ),
            ["1 old Absent => 1 old Absent"]
        );
        assert_eq!(
            event("u", r#""before":null,"after":{"id":1,"name":null}"#),
            ["Absent Absent Absent => 1 Null Absent"]
        );
        assert_eq!(event("d", r#""before":{"id":1,"name":1.5},"after":null"#), ["1 Other Absent => -"]);
        assert_eq!(event("r", r#""before":null,"after":{"id":1}"#), [""; 0], "it was there before");
        assert_eq!(event("t", r#""before":null"#), ["TRUNCATE in shop"]);
    }

    #[test]
    fn a_change_may_have_its_schema_beside_it() {
        let mut notes = Notes::default();
        let line = format!(r#"{{"schema":{{}},"payload":{{"op":"c",{SOURCE},"after":{{"id":1}}}}}}"#);
        assert_eq!(report(line.as_bytes(), &mut notes).unwrap(), 7);
        let postgres = line.replace(r#""db":"shop""#, r#""db":"any","schema":"shop""#);
        report(postgres.as_bytes(), &mut notes).unwrap();
        report(line.replace("users", "others").as_bytes(), &mut notes).unwrap();
        assert_eq!(notes.0, ["- => 1 Absent Absent"; 2]);
    }

    #[test]
    fn what_a_change_has_beside_its_keys_need_not_be_understood() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let line = format!(
            r#"{{"op":"c",{SOURCE},"after":{{"id":1,"note":"\ud800","is_good":"\ud800","deep":{deep}}},"x":[{deep},NaN,-Infinity]}}"#
        );
        assert_eq!(reported(&line).unwrap(), ["- => 1 Absent Other"]);
        let mut notes = Notes::default();
        let line = [br#"{"note":"#, &b"\"\xff\xfe\","[..], line.trim_start_matches('{').as_bytes()].concat();
        report(&line, &mut notes).unwrap();
        assert_eq!(notes.0, ["- => 1 Absent Other"]);
    }

    #[test]
    fn what_is_about_no_row_is_skipped_and_what_is_no_event_is_refused() {
        for line in [
            "",
            " ",
            "null",
            r#"{"schema":null,"payload":null}"#,
            r#"{"ts_ms":7}"#,
            r#"{"status":"END","id":"1"}"#,
        ] {
            assert_eq!(reported(line).unwrap(), [""; 0], "{line}");
        }
        let without_table = SOURCE.replace("table", "tables");
        for (line, expected) in [
            ("{", "not JSON"),
            ("{} {}", "not JSON"),
            ("7", "no op"),
            (r#"{"id":1,"name":"flat"}"#, "may be flattened"),
            (r#"{"op":"x"}"#, "unknown op x"),
            (&format!(r#"{{"op":"c",{without_table},"after":{{"id":1}}}}"#), "no source"),
            (&format!(r#"{{"op":"c",{SOURCE},"after":null}}"#), "no row images"),
        ] {
            let error = reported(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
