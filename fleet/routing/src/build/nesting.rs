//! Limits the depth of routes within routes.

use crate::config::{ConfigError, Json};
use crate::step::NodeId;
use std::collections::HashMap;

/// Routes within routes, by whatever names: a worker's stack has to have room for a request on its way through them.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// The depth of the current route, and the largest depth that it and its children have reached.
    depth: usize,
    deepest: usize,
    /// The depth of the routes below each route, in case a name refers to the route again.
    heights: HashMap<NodeId, usize>,
}

impl Nesting {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Begins a route. Returns the depth that the route's parent has reached, for [`Self::end`].
    pub(super) fn begin(&mut self) -> usize {
        self.depth += 1;
        std::mem::replace(&mut self.deepest, 0)
    }

    /// Ends a route. `node` is its handle, if the route is valid.
    pub(super) fn end(&mut self, outside: usize, node: Option<NodeId>) {
        if let Some(node) = node {
            self.heights.insert(node, self.deepest - self.depth);
        }
        self.deepest = self.deepest.max(outside);
        self.depth -= 1;
    }

    /// Notes that routes are nested this deep at `json`.
    pub(super) fn reach(&mut self, json: &Json, depth: usize) -> Result<(), ConfigError> {
        self.deepest = self.deepest.max(depth);
        if depth > DEPTH_MAX {
            return Err(json.error(format!("more than {DEPTH_MAX} routes within each other")));
        }
        Ok(())
    }

    /// Notes that a route at this depth refers to other routes by name, which have routes within them.
    pub(super) fn reach_again(
        &mut self,
        json: &Json,
        nodes: &[NodeId],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let height = nodes.iter().filter_map(|node| self.heights.get(node)).max().copied();
        self.reach(json, depth + height.unwrap_or(0))
    }
}
