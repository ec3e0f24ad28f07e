//! Collects the failure domains of servers during the build of a tree.

use crate::config::FailureDomain;
use crate::failure_domains::FailureDomains;
use crate::step::{DestinationId, NodeId};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(super) struct Domains {
    numbers: HashMap<FailureDomain, u32>,
    nodes: HashMap<NodeId, u32>,
    /// The failure domain of each server. A server of several pools has the domain that the first of them sets.
    servers: BTreeMap<DestinationId, u32>,
}

impl Domains {
    /// Puts the server that a handle leads to into a failure domain.
    pub(super) fn put(&mut self, node: NodeId, domain: &FailureDomain) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(domain.clone()).or_insert(next);
        self.nodes.insert(node, number);
    }

    /// Records which server a handle leads to, so that replies of the server have the handle's domain.
    pub(super) fn name(&mut self, node: NodeId, server: DestinationId) {
        if let Some(domain) = self.of(node) {
            self.servers.entry(server).or_insert(domain);
        }
    }

    /// Gives a handle the failure domain of another handle.
    pub(super) fn share(&mut self, node: NodeId, other: NodeId) {
        if let Some(domain) = self.of(other) {
            self.nodes.insert(node, domain);
        }
    }

    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        self.nodes.get(&node).copied()
    }

    pub(super) fn finish(self) -> FailureDomains {
        FailureDomains::new(self.servers)
    }
}
