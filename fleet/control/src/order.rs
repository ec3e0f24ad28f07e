//! Orders to a member about its server, and their results.

use crate::etcd::Entry;
use serde::{Deserialize, Serialize};

/// An order to upgrade a server by the command that its member is configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    #[serde(skip)]
    pub(crate) pool: String,
    #[serde(skip)]
    pub(crate) server: String,
    pub state: OrderState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
    #[serde(skip)]
    pub(crate) revision: i64,
    /// The lease of the program that gave the order.
    #[serde(skip)]
    pub(crate) lease: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderState {
    /// The member has not started it.
    #[serde(rename = "asked")]
    Requested,
    Running,
    Done,
    Failed,
}

impl Order {
    pub(crate) fn requested(pool: &str, server: &str) -> Self {
        let (pool, server, state) = (pool.to_owned(), server.to_owned(), OrderState::Requested);
        Order { pool, server, state, said: String::new(), revision: 0, lease: 0 }
    }

    pub(crate) fn read(pool: &str, server: &str, entry: &Entry) -> Option<Self> {
        let read: Order = serde_json::from_slice(&entry.value).ok()?;
        let (pool, server) = (pool.to_owned(), server.to_owned());
        Some(Order { pool, server, revision: entry.revision, lease: entry.lease, ..read })
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
