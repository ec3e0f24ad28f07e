//! A pool that becomes larger or smaller: most keys stay where they are, and the others move.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::Selector;
use crate::request::Request;
use crate::step::{Cx, Hop, NodeId, Step};

#[derive(Debug)]
pub(crate) struct Resize {
    before: Selector,
    after: Selector,
    /// The pool as it will be, for keys whose server is the same in both.
    same: NodeId,
    moved: NodeId,
}

impl Resize {
    pub(crate) fn new(before: Selector, after: Selector, same: NodeId, moved: NodeId) -> Self {
        Resize { before, after, same, moved }
    }

    pub(crate) fn selection(&self) -> &Selector {
        &self.before
    }

    #[inline]
    fn node(&self, request: &Request<'_>) -> NodeId {
        let key = request.routing_key();
        if self.before.pick(key) == self.after.pick(key) { self.same } else { self.moved }
    }
}

impl Handle for Resize {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("Resize is part of a pool with 'resize'"))
    }

    fn reason(&self, request: &Request<'_>) -> Option<String> {
        let key = request.routing_key();
        let (before, after) = (self.before.pick(key), self.after.pick(key));
        Some(format!("hash of {:?}: {before} before, {after} after", String::from_utf8_lossy(key)))
    }

    #[inline]
    fn hop(&self, request: &Request<'_>) -> Option<Hop> {
        Some(Hop::To(self.node(request)))
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Tail(self.node(request))
    }
}
