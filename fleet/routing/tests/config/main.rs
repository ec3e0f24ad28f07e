//! Configurations: their results and their faults.

mod accessors;
mod built_ins;
mod errors;
mod language;
mod limits;
mod pools;
mod random;

use std::collections::HashMap;

use guira_routing::config::{ConfigError, Globals, Json, Loaded, Sources, Value, load};

#[derive(Default)]
struct Files(HashMap<String, String>);

impl Files {
    fn with(mut self, name: &str, text: &str) -> Self {
        self.0.insert(name.into(), text.into());
        self
    }
}

impl Sources for Files {
    fn read(&self, name: &str) -> Result<String, String> {
        self.0.get(name).cloned().ok_or_else(|| "no such file".into())
    }
}

fn globals() -> Globals {
    Globals::new()
        .with("default-route", Value::Text("/here/a/".into()))
        .with("hostid", Value::Integer(17))
        .with("odd", Value::Text("@%\\".into()))
        .with_local_addresses(vec!["::1".parse().unwrap(), "10.1.2.3".parse().unwrap()])
}

fn read_with(files: &Files, text: &str) -> Result<Loaded, ConfigError> {
    load("main", text, files, &globals())
}

fn read(text: &str) -> Result<Loaded, ConfigError> {
    read_with(&Files::default(), text)
}

/// What `value` comes to in a configuration with these macros.
fn expanded_with(macros: &str, value: &str) -> Result<Json, ConfigError> {
    let loaded = read(&format!("{{\"macros\": {macros},\n\"ret\": {value}}}"))?;
    Ok(loaded.json.get("ret").unwrap().clone())
}

fn expanded(value: &str) -> Result<Json, ConfigError> {
    expanded_with("{}", value)
}

/// Each value and what it comes to, both as JSON.
fn check(macros: &str, cases: &[(&str, &str)]) {
    for (value, result) in cases {
        let found = expanded_with(macros, value).unwrap_or_else(|error| panic!("{value}: {error}"));
        let expected = read(&format!("{{\"ret\": {}}}", escaped(result))).unwrap().json;
        assert_eq!(found.to_string(), expected.get("ret").unwrap().to_string(), "{value}");
    }
}

/// JSON of which nothing is expanded: backslashes are doubled, and the characters with a meaning have one.
fn escaped(json: &str) -> String {
    json.replace("\\\\", "\\\\\\\\").replace('@', "\\\\@").replace('%', "\\\\%")
}

/// Each value, and a part of the error that it leads to.
fn check_errors(macros: &str, cases: &[(&str, &str)]) {
    for (value, reason) in cases {
        let error = expanded_with(macros, value).map(|json| json.to_string()).expect_err(value);
        assert!(error.reason.contains(reason), "{value}: {error}");
    }
}
