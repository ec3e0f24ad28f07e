//! Reads typed values. An error has the place, the member and the expected type.

use std::ops::RangeInclusive;
use std::time::Duration;

use std::sync::Arc;

use super::json::{ConfigError, Json, Value};

/// The longest timeout: mcrouter's.
const TIMEOUT_MAX_MS: i64 = 1_000_000;

/// `name` is that of the member, for messages.
impl Json {
    pub fn object(&self, name: &str) -> Result<Object<'_>, ConfigError> {
        match &self.value {
            Value::Object(members) => {
                Ok(Object { json: self, members, name: name.into(), is_read: vec![false; members.len()] })
            }
            _ => Err(self.expected(name, "an object")),
        }
    }

    pub fn list(&self, name: &str) -> Result<&[Json], ConfigError> {
        match &self.value {
            Value::Array(items) => Ok(items),
            _ => Err(self.expected(name, "an array")),
        }
    }

    pub fn text(&self, name: &str) -> Result<&str, ConfigError> {
        self.shared_text(name).map(|text| &**text)
    }

    /// The text as a shared pointer.
    pub fn shared_text(&self, name: &str) -> Result<&Arc<str>, ConfigError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.expected(name, "a string")),
        }
    }

    pub fn boolean(&self, name: &str) -> Result<bool, ConfigError> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.expected(name, "true or false")),
        }
    }

    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<i64, ConfigError> {
        match self.value {
            Value::Integer(value) if range.contains(&value) => Ok(value),
            Value::Integer(value) => Err(self.out_of_range(name, value, &range)),
            _ => Err(self.expected(name, "an integer")),
        }
    }

    /// An integer counts as a number.
    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<f64, ConfigError> {
        let value = match self.value {
            Value::Integer(value) => value as f64,
            Value::Number(value) => value,
            _ => return Err(self.expected(name, "a number")),
        };
        if range.contains(&value) { Ok(value) } else { Err(self.out_of_range(name, value, &range)) }
    }

    /// A time to live in seconds; what 0 means, the member says.
    pub fn seconds(&self, name: &str) -> Result<u32, ConfigError> {
        let seconds = self.integer(name, 0..=i64::from(i32::MAX))?;
        Ok(u32::try_from(seconds).expect("the range is within 32 bits"))
    }

    /// A timeout: an integer of milliseconds, at least 1.
    pub fn milliseconds(&self, name: &str) -> Result<Duration, ConfigError> {
        let milliseconds = self.integer(name, 1..=TIMEOUT_MAX_MS)?;
        Ok(Duration::from_millis(milliseconds.unsigned_abs()))
    }

    /// The error of a value of another kind.
    pub fn expected(&self, name: &str, what: &str) -> ConfigError {
        self.error(format!("'{name}' is {}, {what} expected", self.kind()))
    }

    fn out_of_range<T: std::fmt::Debug>(
        &self,
        name: &str,
        value: T,
        range: &RangeInclusive<T>,
    ) -> ConfigError {
        self.error(format!("'{name}' is {value:?}, {:?} to {:?} expected", range.start(), range.end()))
    }
}

/// An object that records which members were read, so that the others can be reported: real
/// configurations have unused and mistyped members.
#[derive(Debug)]
pub struct Object<'a> {
    json: &'a Json,
    members: &'a [(Arc<str>, Json)],
    name: String,
    is_read: Vec<bool>,
}

impl<'a> Object<'a> {
    pub fn json(&self) -> &'a Json {
        self.json
    }

    pub fn optional(&mut self, name: &str) -> Option<&'a Json> {
        let at = self.members.iter().position(|(known, _)| **known == *name)?;
        self.is_read[at] = true;
        Some(&self.members[at].1)
    }

    pub fn required(&mut self, name: &str) -> Result<&'a Json, ConfigError> {
        self.optional(name).ok_or_else(|| self.missing(name))
    }

    /// Read by an accessor of [`Json`]: `object.optional_as("exptime", Json::seconds)`.
    pub fn optional_as<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a Json, &str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.optional(name).map(|json| read(json, name)).transpose()
    }

    /// Read by an accessor of [`Json`]: `object.required_as("pool", Json::text)`.
    pub fn required_as<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a Json, &str) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        read(self.required(name)?, name)
    }

    /// All members, which now count as read: for objects whose names are the user's.
    pub fn members(&mut self) -> &'a [(Arc<str>, Json)] {
        self.is_read.fill(true);
        self.members
    }

    /// Warns of each member that was never read.
    pub fn finish(self, warnings: &mut Vec<ConfigError>) {
        let unread = self.members.iter().zip(&self.is_read).filter(|(_, is_read)| !**is_read);
        warnings.extend(unread.map(|((member, json), _)| {
            json.error(format!("{member:?} is not known in '{}' and has no effect", self.name))
        }));
    }

    fn missing(&self, name: &str) -> ConfigError {
        self.json.error(format!("'{}' has no '{name}'", self.name))
    }
}
