//! Failure domains: the groups of servers that fail together.

use crate::ids::DestinationId;
use std::collections::BTreeMap;

/// The failure domain of each server of a tree, as a number.
#[derive(Debug, Default)]
pub(crate) struct FailureDomains {
    /// The domain of each server, sorted by server.
    by_server: Box<[(DestinationId, u32)]>,
}

impl FailureDomains {
    pub(crate) fn new(by_server: BTreeMap<DestinationId, u32>) -> Self {
        FailureDomains { by_server: by_server.into_iter().collect() }
    }

    /// The failure domain of a server, if the configuration sets one.
    pub(crate) fn of(&self, server: DestinationId) -> Option<u32> {
        let at = self.by_server.binary_search_by_key(&server, |(known, _)| *known).ok()?;
        Some(self.by_server[at].1)
    }
}
