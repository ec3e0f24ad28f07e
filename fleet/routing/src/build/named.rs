//! The meaning of route names.

use crate::config::{ConfigError, Json, Place};
use crate::handle::Children;
use crate::step::NodeId;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) type Named<'c> = HashMap<Arc<str>, Meaning<'c>>;

#[derive(Debug)]
pub(super) enum Meaning<'c> {
    /// A member of `named_handles` that no route has named so far; it may stand behind those that
    /// do.
    Waiting(&'c Json),
    UnderWay,
    /// The fault of a handle that was left out of a shadow: it is not read again.
    Failed(ConfigError),
    Routes(Children, Place),
}

impl Meaning<'_> {
    pub(super) fn is_elsewhere(&self, json: &Json) -> bool {
        matches!(self, Meaning::Routes(_, place) if *place != json.place)
    }
}

/// The one route that a name stands for.
pub(super) fn only(json: &Json, nodes: &[NodeId]) -> Result<NodeId, ConfigError> {
    match *nodes {
        [node] => Ok(node),
        _ => Err(json.error(format!("{} routes in place of one", nodes.len()))),
    }
}
