//! What a change event says: its `payload`, or the event itself if it has no schema.

use crate::source::{Changes, Row, SourceError, TableNames, Value};
use guira_sync::clock::wall_clock;
use serde_json::{Map, Value as Json};
use std::io;

/// What stands in the place of a long value of PostgreSQL that has not changed.
const UNAVAILABLE: &str = "__debezium_unavailable_value";
/// Fields of events that are about no row: of heartbeats, transactions, and statements that change tables.
const OF_NO_ROW: [&str; 3] = ["status", "ddl", "databaseName"];

/// Tells what an event says; returns when that was, in seconds since 1970.
///
/// # Errors
/// When it is no change event: the sender may send another one the next time.
pub(super) fn tell(line: &[u8], changes: &mut dyn Changes) -> Result<u64, SourceError> {
    if line.trim_ascii().is_empty() {
        return Ok(wall_clock());
    }
    let event: Json =
        serde_json::from_slice(line).map_err(|error| wrong(line, &format!("it is no JSON: {error}")))?;
    let payload = match event.get("payload") {
        Some(payload) if event.get("schema").is_some() => payload,
        _ => &event,
    };
    // The end of a deleted row in a compacted topic.
    if payload.is_null() {
        return Ok(wall_clock());
    }
    let source = payload.get("source").unwrap_or(&Json::Null);
    let millis = |of: &Json| of.get("ts_ms").and_then(Json::as_u64);
    let when = millis(source).or(millis(payload)).map_or_else(wall_clock, |millis| millis / 1000);
    match payload.get("op").and_then(Json::as_str) {
        Some(op @ ("c" | "u" | "d")) => tell_row(op, payload, source, when, changes).ok_or_else(|| {
            wrong(
                line,
                "a change has no source with db or schema and table, or not the images that it should",
            )
        })??,
        Some("t") => {
            let database = place(source).unwrap_or_default();
            changes.unseen(database.as_bytes(), "TRUNCATE");
        }
        // Rows that were there before, and messages.
        Some("r" | "m") => {}
        Some(op) => return Err(wrong(line, &format!("its op is {op}"))),
        None if is_of_no_row(payload) => {}
        None => return Err(wrong(line, "it has no op: is it flattened?")),
    }
    Ok(when)
}

fn wrong(line: &[u8], why: &str) -> SourceError {
    let shown = line[..line.len().min(200)].escape_ascii();
    io::Error::new(io::ErrorKind::InvalidData, format!("a line is no change event, {why}: {shown}")).into()
}

fn is_of_no_row(payload: &Json) -> bool {
    payload.as_object().is_some_and(|fields| {
        OF_NO_ROW.iter().any(|name| fields.contains_key(*name)) || fields.keys().eq(["ts_ms"])
    })
}

/// The schema of a table, or, of databases without schemas, its database.
fn place(source: &Json) -> Option<&str> {
    let text = |name: &str| source.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
    text("schema").or(text("db"))
}

fn tell_row(
    op: &str,
    payload: &Json,
    source: &Json,
    when: u64,
    changes: &mut dyn Changes,
) -> Option<Result<(), SourceError>> {
    let (database, table) = (place(source)?, source.get("table")?.as_str()?);
    if !changes.wants(database.as_bytes(), table.as_bytes()) {
        return Some(Ok(()));
    }
    let image = |name: &str| payload.get(name).and_then(Json::as_object);
    let none = Map::new();
    let (before, after) = match op {
        "c" => (None, Some(image("after")?)),
        // What has changed is not known then.
        "u" => (Some(image("before").unwrap_or(&none)), Some(image("after")?)),
        _ => (Some(image("before").unwrap_or(&none)), None),
    };
    let mut columns: Vec<&String> = before.iter().chain(&after).flat_map(|image| image.keys()).collect();
    columns.sort_unstable();
    columns.dedup();
    let old = before.map(|image| values(&columns, image));
    let new = after.map(|image| values(&columns, image));
    let names = TableNames {
        database: database.into(),
        table: table.into(),
        columns: columns.iter().map(|name| name.as_bytes().to_vec()).collect(),
    };
    let told = changes.row(&Row { table: &names, old: old.as_deref(), new: new.as_deref(), when });
    Some(told.map_err(SourceError::from))
}

fn values<'a>(columns: &[&String], image: &'a Map<String, Json>) -> Vec<Value<'a>> {
    columns.iter().map(|name| value(image.get(*name))).collect()
}

fn value(json: Option<&Json>) -> Value<'_> {
    match json {
        None => Value::Absent,
        Some(Json::Null) => Value::Null,
        Some(Json::Bool(true)) => Value::Bytes(b"true"),
        Some(Json::Bool(false)) => Value::Bytes(b"false"),
        Some(Json::Number(number)) => match (number.as_i64(), number.as_u64()) {
            (Some(signed), _) => Value::Signed(signed),
            (None, Some(unsigned)) => Value::Unsigned(unsigned),
            (None, None) => Value::Other,
        },
        Some(Json::String(text)) if text == UNAVAILABLE => Value::Absent,
        Some(Json::String(text)) => Value::Bytes(text.as_bytes()),
        Some(Json::Array(_) | Json::Object(_)) => Value::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Image;
    use guira_databases::Stopped;
    use std::fmt::Display;

    /// Takes note of what it is told of the table `users`.
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

    fn told(line: &str) -> Result<Vec<String>, String> {
        let mut notes = Notes::default();
        tell(line.as_bytes(), &mut notes).map_err(|error| error.to_string())?;
        Ok(notes.0)
    }

    #[test]
    fn images_of_changes_are_told() {
        let event = |op: &str, images: &str| told(&format!(r#"{{"op":"{op}",{SOURCE},{images}}}"#)).unwrap();
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
        assert_eq!(tell(line.as_bytes(), &mut notes).unwrap(), 7);
        let postgres = line.replace(r#""db":"shop""#, r#""db":"any","schema":"shop""#);
        tell(postgres.as_bytes(), &mut notes).unwrap();
        tell(line.replace("users", "others").as_bytes(), &mut notes).unwrap();
        assert_eq!(notes.0, ["- => 1 Absent Absent"; 2]);
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
            assert_eq!(told(line).unwrap(), [""; 0], "{line}");
        }
        let without_table = SOURCE.replace("table", "tables");
        for (line, expected) in [
            ("{", "it is no JSON"),
            ("7", "it has no op"),
            (r#"{"id":1,"name":"flat"}"#, "is it flattened?"),
            (r#"{"op":"x"}"#, "its op is x"),
            (&format!(r#"{{"op":"c",{without_table},"after":{{"id":1}}}}"#), "has no source"),
            (&format!(r#"{{"op":"c",{SOURCE},"after":null}}"#), "not the images"),
        ] {
            let error = told(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
