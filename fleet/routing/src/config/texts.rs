//! The texts of a configuration, once they were read.

use super::sources::Sources;
use std::collections::BTreeMap;

/// The texts that a configuration is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub main: String,
    /// The imported texts by the names in the configuration, or why a text could not be read.
    pub others: BTreeMap<String, Result<String, String>>,
}

impl Sources for Texts {
    fn read(&self, name: &str) -> Result<String, String> {
        self.others
            .get(name)
            .cloned()
            .unwrap_or_else(|| Err("not part of the saved configuration".to_owned()))
    }
}

/// A configuration that imports nothing.
impl From<&str> for Texts {
    fn from(main: &str) -> Self {
        Texts { main: main.to_owned(), others: BTreeMap::new() }
    }
}
