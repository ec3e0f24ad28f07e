//! Servers that are registered.

use crate::etcd::Entry;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The pool that it is for.
    #[serde(skip)]
    pub pool: String,
    #[serde(skip)]
    pub server: String,
    /// The zone whose servers fail together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// It was emptied since it last served a slot: it may take another one.
    #[serde(default)]
    pub is_empty: bool,
    /// Its member has a command to upgrade it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_upgrade: bool,
    /// When it was registered.
    #[serde(skip)]
    pub(crate) revision: i64,
    #[serde(skip)]
    pub(crate) lease: i64,
}

impl Registration {
    /// Reads an entry; `None` if it has another form: a later version may have written it.
    pub(crate) fn read(pool: &str, server: &str, entry: &Entry) -> Option<Self> {
        let read: Registration = serde_json::from_slice(&entry.value).ok()?;
        let (revision, lease) = (entry.revision, entry.lease);
        Some(Registration { pool: pool.to_owned(), server: server.to_owned(), revision, lease, ..read })
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
