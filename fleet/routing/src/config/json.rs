//! JSON that knows where it came from, so that whatever is wrong with it is reported with its file and line.

use std::fmt::{self, Write as _};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, or another name of the source.
    pub source: Arc<str>,
    /// From 1 on.
    pub line: u32,
}

impl Place {
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        let mut reason = reason.into();
        if let Some(end) = (REASON_MAX..reason.len()).find(|&at| reason.is_char_boundary(at)) {
            reason.truncate(end);
            reason.push('…');
        }
        ConfigError { place: self.clone(), reason }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.line)
    }
}

/// The longest reason in bytes: a quotation from a configuration may be long.
const REASON_MAX: usize = 1000;

/// A value and its place. After preprocessing, the place is that of the text from which the value
/// was made.
#[derive(Clone, Debug)]
pub struct Json {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    /// Always finite.
    Number(f64),
    Text(Arc<str>),
    Array(Vec<Json>),
    /// In the order of the text. A name that comes twice is an error.
    Object(Vec<(Arc<str>, Json)>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ConfigError {
    pub place: Place,
    pub reason: String,
}

impl Json {
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        self.place.error(reason)
    }

    /// The member with this name, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match &self.value {
            Value::Object(members) => {
                members.iter().find(|(known, _)| **known == *name).map(|(_, json)| json)
            }
            _ => None,
        }
    }

    /// What kind of value this is, with its article: for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) => "an integer",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

/// JSON on one line, as any parser reads it.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Number(value) => write!(f, "{value:?}"),
            Value::Text(text) => write_text(f, text),
            Value::Array(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Value::Object(members) => {
                f.write_char('{')?;
                for (index, (name, json)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    write_text(f, name)?;
                    f.write_char(':')?;
                    json.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            control if u32::from(control) < 0x20 => write!(f, "\\u{:04x}", u32::from(control))?,
            other => f.write_char(other)?,
        }
    }
    f.write_char('"')
}
