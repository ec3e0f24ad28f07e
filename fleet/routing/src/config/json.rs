//! JSON that knows where it came from, so that whatever is wrong with it is reported with its file and line.

use std::sync::Arc;

/// Where a value stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, or another name of the source.
    pub source: Arc<str>,
    /// From 1 on.
    pub line: u32,
}

/// A value and its place. After preprocessing, the place is that of the text that it was made of.
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
    Number(f64),
    Text(Arc<str>),
    Array(Vec<Json>),
    /// In the order of the text. A name that comes twice is an error.
    Object(Vec<(Arc<str>, Json)>),
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {reason}", place.source, place.line)]
pub struct ConfigError {
    pub place: Place,
    pub reason: String,
}

impl Json {
    /// An error at this value.
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError { place: self.place.clone(), reason: reason.into() }
    }

    /// The member with this name, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match &self.value {
            Value::Object(members) => members.iter().find(|(known, _)| **known == *name).map(|(_, json)| json),
            _ => None,
        }
    }
}
