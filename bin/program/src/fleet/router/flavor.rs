//! A flavor: options of mcrouter in a JSON file, by the names of its fields. A second file beside it, with `-standalone`
//! in its name, has those of the server.

use super::flags::Flags;
use super::table::{Field, Kind, Manner, ROWS, Row};
use guira_cli::failure::Failure;
use guira_routing::config::{Globals, Json, Sources, Value, load};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The members of the files, each an object of fields.
const MEMBERS: [&str; 3] = ["options", "libmcrouter_options", "standalone_options"];
const ROUTER_NAME: &str = "router_name";

#[derive(Debug)]
pub(super) struct Flavor {
    path: PathBuf,
    fields: Vec<(String, String)>,
    notes: Vec<String>,
}

struct NoImports;

impl Sources for NoImports {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("a flavor imports nothing".to_owned())
    }
}

impl Flavor {
    /// Reads both files, of which one may be missing. mcrouter starts without both: the argument may be the value of an
    /// option that is unknown.
    pub(super) fn read(argument: &str, manner: Manner) -> Result<Self, Failure> {
        let path = PathBuf::from(argument.strip_prefix("file:").unwrap_or(argument));
        let first = std::fs::read_to_string(&path);
        let second = std::fs::read_to_string(standalone(&path));
        let mut notes = Vec::new();
        if let (Err(error), Err(_)) = (&first, &second) {
            let why = format!("cannot read the flavor {}: {error}", path.display());
            match manner {
                Manner::Guira => return Err(Failure::usage(why)),
                Manner::Mcrouter => notes.push(why),
            }
        }
        let mut fields = vec![(ROUTER_NAME.to_owned(), stem(&path))];
        for text in [first, second].into_iter().flatten() {
            let read = fields_of(&path, &text);
            fields.extend(read.map_err(|error| Failure::usage(format!("flavor {error}")))?);
        }
        Ok(Flavor { path, fields, notes })
    }

    /// The words of a command line that the flavor stands for, without those that `given` has, and notes.
    pub(super) fn words(&self, given: &Flags) -> (Vec<OsString>, Vec<String>) {
        let (mut words, mut notes) = (Vec::new(), self.notes.clone());
        for (name, value) in &self.fields {
            match ROWS.iter().find(|row| row.kind != Kind::Action && row.field_name() == *name) {
                Some(row) if given.is_given(row) => {}
                Some(row) => words.push(word(row, value)),
                None => notes.push(format!("{}: Unrecognized option: {name}", self.path.display())),
            }
        }
        (words, notes)
    }
}

fn word(row: &Row, value: &str) -> OsString {
    let value = match (row.field, value) {
        (Field::Negated(_), "0" | "false") => "1",
        (Field::Negated(_), "1" | "true") => "0",
        (_, value) => value,
    };
    format!("--{}={value}", row.long).into()
}

fn fields_of(path: &Path, text: &str) -> Result<Vec<(String, String)>, guira_routing::config::ConfigError> {
    let json = load(&path.display().to_string(), text, &NoImports, &Globals::new())?.json;
    let mut fields = Vec::new();
    for member in MEMBERS.iter().filter_map(|name| json.get(name)) {
        let Value::Object(members) = &member.value else {
            return Err(member.error("an object of options expected"));
        };
        for (name, value) in members {
            fields.push((name.to_string(), text_of(value)?));
        }
    }
    Ok(fields)
}

fn text_of(value: &Json) -> Result<String, guira_routing::config::ConfigError> {
    match &value.value {
        Value::Text(text) => Ok(text.to_string()),
        Value::Bool(_) | Value::Integer(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err(value.error("an option is a string, a number or a boolean")),
    }
}

/// `a/b.json` → `a/b-standalone.json`.
fn standalone(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("-standalone");
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_options_and_a_second_file_is_beside_the_first() {
        let text =
            r#"{"options": {"server_timeout_ms": 77, "miss_on_get_errors": false, "x": "y"}} // A comment."#;
        let path = Path::new("/etc/mcrouter/web.json");
        let fields = fields_of(path, text).unwrap();
        assert_eq!(fields[..2], [("server_timeout_ms", "77"), ("miss_on_get_errors", "false")].map(owned));
        let row = |field: &str| ROWS.iter().find(|row| row.field_name() == field).unwrap();
        assert_eq!(word(row("server_timeout_ms"), "77"), "--server-timeout-ms=77");
        assert_eq!(word(row("miss_on_get_errors"), "false"), "--disable-miss-on-get-errors=1");
        assert_eq!(standalone(path), Path::new("/etc/mcrouter/web-standalone.json"));
        assert_eq!(stem(path), "web");
        assert!(fields_of(path, r#"{"options": {"a": []}}"#).is_err());
    }

    fn owned((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }
}
