//! `NAME[:key=value,…]`

use crate::OptionError;
use std::fmt;
use std::ops::RangeInclusive;

/// A name with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name.
    pub name: String,
    /// The options, in the order in which they were written.
    pub options: Vec<(String, String)>,
}

impl Spec {
    /// Reads a name and its options.
    ///
    /// # Errors
    /// If an option is not `key=value`.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut options = Vec::new();
        for option in rest.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').ok_or_else(|| OptionError::Value {
                name: name.to_owned(),
                value: option.to_owned(),
                expected: "of the form key=value",
            })?;
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Spec { name: name.to_owned(), options })
    }

    /// Reads a name and its options as words of their own: `NAME key=value …`. The name may come with options, as it is printed.
    ///
    /// # Errors
    /// If an option is not `key=value`.
    pub fn of_words(name: &str, options: &[&str]) -> Result<Self, OptionError> {
        let separator = if name.contains(':') { ',' } else { ':' };
        Self::parse(&format!("{name}{separator}{}", options.join(",")))
    }

    /// Refuses all options but these.
    ///
    /// # Errors
    /// If there is another. The error lists those that are allowed.
    pub fn allow(&self, keys: &[&str]) -> Result<(), OptionError> {
        match self.options.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => {
                let known = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
                Err(OptionError::Unknown { what: "option", name: key.clone(), known })
            }
        }
    }

    /// What an option is set to.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The same with another value of an option, or without it.
    #[must_use]
    pub fn with(mut self, key: &str, value: Option<String>) -> Self {
        self.options.retain(|(name, _)| name != key);
        self.options.extend(value.map(|value| (key.to_owned(), value)));
        self
    }

    /// The error that says that the value of an option is not what was expected.
    pub fn not(&self, key: &str, value: &str, expected: &'static str) -> OptionError {
        OptionError::Value { name: format!("{}:{key}", self.name), value: value.to_owned(), expected }
    }

    /// The number that an option is set to.
    ///
    /// # Errors
    /// If it is no number or out of range.
    pub fn number(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, OptionError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(OptionError::Range {
                name: format!("{}:{key}", self.name),
                value: value.to_owned(),
                from: *range.start(),
                to: *range.end(),
            }),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            write!(formatter, "{}{key}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}
