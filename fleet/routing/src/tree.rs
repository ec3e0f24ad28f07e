//! A configuration that requests can be sent through.

use crate::handle::AnyHandle;
use crate::prefix::Prefixes;
use crate::step::NodeId;

/// A tree of handles. Each worker has its own, since handles may count.
#[derive(Debug)]
pub struct Tree {
    handles: Box<[AnyHandle]>,
    prefixes: Prefixes,
}

impl Tree {
    pub(crate) fn new(handles: Vec<AnyHandle>, prefixes: Prefixes) -> Self {
        Tree { handles: handles.into(), prefixes }
    }

    #[inline]
    pub(crate) fn handle(&self, node: NodeId) -> &AnyHandle {
        &self.handles[node.0 as usize]
    }

    /// Where a request with this key begins, and how much of the key is its routing prefix.
    #[inline]
    pub(crate) fn root(&self, key: &[u8]) -> Option<(NodeId, usize)> {
        self.prefixes.root(key)
    }
}
