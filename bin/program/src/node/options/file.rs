//! Configuration files.

use super::{CliOptions, row};
use guira_server::{Form, GivenOptions, OPTIONS, OptionRow, Options, read_file};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};

/// The longest configuration file, in bytes.
const FILE_MAX: usize = 1 << 20;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {message}")]
    File { path: PathBuf, message: String },
}

impl CliOptions {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read, is no TOML, or has names or values that do not exist; the error has the line.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = read_file(path, FILE_MAX).map_err(unreadable)?;
        let text = String::from_utf8(text).map_err(|error| unreadable(io::Error::other(error)))?;
        Self::from_toml(&text).map_err(|message| ConfigError::File { path: path.to_owned(), message })
    }

    pub(super) fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }
}

impl<'de> Deserialize<'de> for CliOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

/// Reads all options of a file.
struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = CliOptions;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CliOptions, A::Error> {
        let mut given = GivenOptions::new();
        while let Some(row) = map.next_key_seed(NameVisitor)? {
            given.insert(row.name, map.next_value_seed(ValueVisitor(row))?);
        }
        Ok(CliOptions(given))
    }
}

/// Reads the name of an option.
struct NameVisitor;

impl<'de> DeserializeSeed<'de> for NameVisitor {
    type Value = &'static OptionRow;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameVisitor {
    type Value = &'static OptionRow;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of an option")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        row(name).ok_or_else(|| E::custom(format!("unknown option {name}")))
    }
}

/// Reads the values of an option.
#[derive(Clone, Copy)]
struct ValueVisitor(&'static OptionRow);

impl ValueVisitor {
    fn checked<E: Error>(self, text: String) -> Result<Vec<String>, E> {
        match self.0.check(&text) {
            Ok(()) => Ok(vec![text]),
            Err(problem) => Err(E::custom(format!("{}: {problem}", self.0.name))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueVisitor {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Vec<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0.form {
            Form::Text if self.0.is_list => "text in quotes, or a list of them in brackets",
            Form::Text => "text in quotes",
            Form::Size => "a size in quotes, such as \"64MiB\", or a number of bytes",
            Form::Whole => "a whole number, 0 or more",
            Form::Number => "a number",
            Form::Switch => "true or false",
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match self.0.form {
            Form::Text | Form::Size => self.checked(text.to_owned()),
            _ => Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match self.0.form {
            Form::Size | Form::Whole | Form::Number => self.checked(number.to_string()),
            _ => Err(E::invalid_type(serde::de::Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        match self.0.form {
            Form::Number => self.checked(number.to_string()),
            _ => Err(E::invalid_type(serde::de::Unexpected::Float(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, is_on: bool) -> Result<Self::Value, E> {
        match self.0.form {
            Form::Switch => self.checked(is_on.to_string()),
            _ => Err(E::invalid_type(serde::de::Unexpected::Bool(is_on), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        if !self.0.is_list {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut texts = Vec::new();
        while let Some(text) = all.next_element_seed(self)? {
            texts.extend(text);
        }
        Ok(texts)
    }
}

/// An option as a line of a configuration file.
pub(crate) fn line(row: &OptionRow, values: &[String]) -> String {
    let value = |text: &String| match row.form {
        Form::Text | Form::Size => toml::Value::from(text.as_str()).to_string(),
        Form::Whole | Form::Number | Form::Switch => text.clone(),
    };
    let values = values.iter().map(value).collect::<Vec<_>>().join(", ");
    if row.is_list { format!("{} = [{values}]", row.name) } else { format!("{} = {values}", row.name) }
}

/// All options as a configuration file, with a comment for each that has no value.
pub(crate) fn to_toml(options: &Options) -> String {
    let (mut text, mut comments) = (String::new(), String::new());
    for row in OPTIONS {
        let values = row.written(options);
        let _ = if let Some(why) = options.refusal(row) {
            writeln!(comments, "# {}: not with the engine {}: {why}", row.name, options.engine)
        } else if values.is_empty() && !row.is_list {
            writeln!(comments, "# {}: {}", row.name, row.default_text())
        } else {
            writeln!(text, "{}", line(row, &values))
        };
    }
    format!("{text}\n# Without a value:\n{comments}")
}
