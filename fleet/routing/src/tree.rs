//! A configuration that requests can be sent through.

use crate::failure_domains::FailureDomains;
use crate::handle::AnyHandle;
use crate::prefix::Prefixes;
use crate::step::{DestinationId, LogName, NodeId};
use std::collections::HashMap;

/// A tree of handles. Each worker has its own, since handles may count.
#[derive(Debug)]
pub struct Tree {
    handles: Box<[AnyHandle]>,
    prefixes: Prefixes,
    everywhere: NodeId,
    /// The first handle that logs under each name.
    logs: HashMap<LogName, NodeId>,
    /// Whether it has a pool that is counted.
    has_counted_pools: bool,
    domains: FailureDomains,
}

impl Tree {
    pub(crate) fn new(
        handles: Vec<AnyHandle>,
        prefixes: Prefixes,
        everywhere: NodeId,
        logs: HashMap<LogName, NodeId>,
        domains: FailureDomains,
    ) -> Self {
        let has_counted_pools = handles.iter().any(|handle| matches!(handle, AnyHandle::Counted(_)));
        Tree { handles: handles.into(), prefixes, everywhere, logs, has_counted_pools, domains }
    }

    /// Whether it has a pool that is counted.
    #[inline]
    pub(crate) fn has_counted_pools(&self) -> bool {
        self.has_counted_pools
    }

    pub(crate) fn everywhere(&self) -> NodeId {
        self.everywhere
    }

    /// Requests go through it from this time on, of [`crate::Facts::now_ms`]. Without it, limits of rates begin with their first request.
    pub fn begin(&self, now_ms: u64) {
        for handle in &self.handles {
            if let AnyHandle::RateLimit(limit) = handle {
                limit.begin(now_ms);
            }
        }
    }

    /// The servers that requests may come to.
    pub fn destinations(&self) -> impl Iterator<Item = DestinationId> {
        self.handles.iter().filter_map(AnyHandle::destination)
    }

    #[inline]
    pub(crate) fn domains(&self) -> &FailureDomains {
        &self.domains
    }

    pub(crate) fn log(&self, log: LogName) -> Option<NodeId> {
        self.logs.get(&log).copied()
    }

    #[inline]
    pub(crate) fn handle(&self, node: NodeId) -> &AnyHandle {
        &self.handles[node.0 as usize]
    }

    /// The root for a request with this key, and the length of its routing prefix.
    #[inline]
    pub(crate) fn root(&self, key: &[u8]) -> Option<(NodeId, usize)> {
        self.prefixes.root(key)
    }
}
