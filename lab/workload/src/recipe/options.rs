//! `NAME[:key=value,…]` with numbers that have units.

use crate::units::scaled;

/// A workload's name and options as they were written.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) text: String,
    pub(super) name: String,
    list: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// It is not `key=value`.
    #[error("'{0}' is not of the form key=value")]
    Form(String),
    /// It is not known.
    #[error("{workload} has no option '{name}'; use one of: {known}")]
    Unknown { workload: String, name: String, known: String },
    /// Its value is not what it should be.
    #[error("{name}={value}: not {expected}")]
    Value { name: &'static str, value: String, expected: String },
}

impl Options {
    pub(super) fn parse(text: &str) -> Result<Self, OptionError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let option = |part: &str| {
            let (key, value) = part.split_once('=').ok_or_else(|| OptionError::Form(part.to_owned()))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        let list = rest.split(',').filter(|part| !part.is_empty()).map(option).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), name: name.to_owned(), list })
    }

    pub(super) fn allow(&self, known: &[&str]) -> Result<(), OptionError> {
        match self.list.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(OptionError::Unknown {
                workload: self.name.clone(),
                name: key.clone(),
                known: known.join(", "),
            }),
        }
    }

    /// The last value that `name` was given.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.list.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &'static str, min: f64, max: f64) -> Result<Option<f64>, OptionError> {
        self.parsed(name, &format!("a number from {min} to {max}"), |text| {
            text.parse().ok().filter(|number| (min..=max).contains(number))
        })
    }

    /// A count, in which `k`, `m` and `g` are powers of 1000.
    pub(super) fn count(&self, name: &'static str) -> Result<Option<u64>, OptionError> {
        self.parsed(name, "a count such as 500k, 10m or 1g", |text| scaled(text, 1000.0))
    }

    /// A number of seconds.
    pub(super) fn seconds(&self, name: &'static str) -> Result<Option<u32>, OptionError> {
        self.parsed(name, "a number of seconds", |text| text.parse().ok())
    }

    /// A length in bytes or a range of them, in which `k` and `m` are powers of 1024.
    pub(super) fn lengths(&self, name: &'static str) -> Result<Option<(u32, u32)>, OptionError> {
        self.parsed(name, "a length in bytes such as 32 or 100-2k", |text| {
            let len = |text| scaled(text, 1024.0).and_then(|len| u32::try_from(len).ok());
            let (min, max) = text.split_once('-').unwrap_or((text, text));
            Some((len(min)?, len(max)?))
        })
    }

    fn parsed<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, OptionError> {
        let Some(text) = self.text_of(name) else { return Ok(None) };
        let value = || OptionError::Value { name, value: text.to_owned(), expected: expected.to_owned() };
        parse(text).ok_or_else(value).map(Some)
    }
}
