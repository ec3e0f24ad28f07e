//! Keys that are made of a row: `user:{id}`.

use crate::source::{Image, Value};
use guira_sql::{BracesError, Part, parts};
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Text, and names of columns whose values take their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error(transparent)]
    Braces(#[from] BracesError),
    #[error("'{0}' has no column: each change would delete the same key")]
    Constant(String),
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let parts = parts(text)?;
        if !parts.iter().any(|part| matches!(part, Part::Name(_))) {
            return Err(TemplateError::Constant(text.to_owned()));
        }
        Ok(Template(parts))
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The result of filling a template from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled<'a> {
    Key,
    /// A column is NULL: there is no key.
    Null,
    /// This column is not in the image, or has no text.
    Missing(&'a str),
}

impl Template {
    /// Puts the key of a row image into `key`.
    pub(crate) fn fill(&self, image: &Image<'_>, key: &mut Vec<u8>) -> Filled<'_> {
        key.clear();
        for part in &self.0 {
            match part {
                Part::Text(text) => key.extend_from_slice(text),
                Part::Name(name) => match image.value(name) {
                    Value::Signed(number) => {
                        key.extend_from_slice(itoa::Buffer::new().format(number).as_bytes())
                    }
                    Value::Unsigned(number) => {
                        key.extend_from_slice(itoa::Buffer::new().format(number).as_bytes())
                    }
                    Value::Bytes(bytes) => key.extend_from_slice(bytes),
                    Value::Null => return Filled::Null,
                    Value::Absent | Value::Other => return Filled::Missing(name),
                },
            }
        }
        Filled::Key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::{image, table};

    #[test]
    fn columns_take_their_places() {
        let table = table("shop", "users", &["id", "name", "balance", "note"]);
        let values =
            [Value::Unsigned(u64::MAX), Value::Bytes("Zoë".as_bytes()), Value::Signed(-5), Value::Null];
        let image = image(&table, &values);
        let mut key = Vec::new();
        let mut fill = |template: &str| {
            let template: Template = template.parse().unwrap();
            assert_eq!(template.fill(&image, &mut key), Filled::Key);
            String::from_utf8(key.clone()).unwrap()
        };
        assert_eq!(fill("user:{id}"), "user:18446744073709551615");
        assert_eq!(fill("{name}{balance}"), "Zoë-5");
        assert_eq!(fill("{{{name}}}:"), "{Zoë}:");
    }

    #[test]
    fn a_null_has_no_key_and_a_missing_column_is_told() {
        let table = table("shop", "users", &["id", "note", "shape"]);
        let values = [Value::Absent, Value::Null, Value::Other];
        let image = image(&table, &values);
        let mut key = Vec::new();
        let mut fill = |template: &str| {
            let template: Template = template.parse().unwrap();
            match template.fill(&image, &mut key) {
                Filled::Missing(name) => name.to_owned(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(fill("{note}"), "Null");
        assert_eq!(fill("{id}"), "id");
        assert_eq!(fill("{shape}"), "shape");
        assert_eq!(fill("{nothing}"), "nothing");
    }

    #[test]
    fn wrong_templates_are_refused() {
        assert!(matches!("a{".parse::<Template>(), Err(TemplateError::Braces(_))));
        for text in ["", "users", "{{id}}"] {
            assert_eq!(text.parse::<Template>(), Err(TemplateError::Constant(text.to_owned())), "{text}");
        }
    }
}
