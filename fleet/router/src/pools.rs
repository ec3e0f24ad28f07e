//! The counters of pools: sums over their servers. They keep their values when a configuration
//! gives a pool other servers, since a falling counter looks like a restart.

use crate::config::Plan;
use crate::upstream::{Server, ServerCount};
use guira_routing::{BuiltPool, Outcome};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolCounts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Requests that were not sent, since their server is out of service.
    pub(crate) refused: u64,
}

impl PoolCounts {
    fn of_servers(plan: &Plan, pool: &BuiltPool) -> Self {
        let sum = |value: &dyn Fn(&Server) -> u64| plan.servers_of(pool).map(value).sum();
        PoolCounts {
            requests: sum(&|server| server.meters().count(ServerCount::Requests)),
            errors: sum(&Server::errors),
            refused: sum(&|server| server.meters().outcome(Outcome::Tko)),
        }
    }

    /// Combines two sets of counts field by field.
    fn with(self, other: Self, both: fn(u64, u64) -> u64) -> Self {
        PoolCounts {
            requests: both(self.requests, other.requests),
            errors: both(self.errors, other.errors),
            refused: both(self.refused, other.refused),
        }
    }
}

/// The counts of all pools from before the current configuration, by name. The counts that their
/// current servers already had at that time are subtracted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    before: HashMap<Box<str>, PoolCounts>,
}

impl Pools {
    pub(crate) fn counts(&self, plan: &Plan, pool: &BuiltPool) -> PoolCounts {
        let before = self.before.get(&*pool.name).copied().unwrap_or_default();
        before.with(PoolCounts::of_servers(plan, pool), u64::wrapping_add)
    }

    pub(crate) fn carried_over(&self, from: &Plan, to: &Plan) -> Self {
        let mut before = self.before.clone();
        before.extend(from.pools.iter().map(|pool| (Box::from(&*pool.name), self.counts(from, pool))));
        for pool in &to.pools {
            if let Some(counts) = before.get_mut(&*pool.name) {
                *counts = counts.with(PoolCounts::of_servers(to, pool), u64::wrapping_sub);
            }
        }
        Pools { before }
    }
}
