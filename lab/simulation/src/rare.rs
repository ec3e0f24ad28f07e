//! Rare branches of the product that runs must reach (`guira_sync::simulated::sometimes`).

use guira_world::hooks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Each is reached in a long run; one that no seed reaches is not tested.
const BRANCHES: [&str; 29] = [
    "client-probe-sent",
    "delete-cannot-be-logged",
    "delete-log-is-written-to",
    "delete-logged",
    "deletes-spooled",
    "delivery-failed",
    "etcd-lease-expired",
    "etcd-watch-failed",
    "fill-without-a-lease",
    "gap-in-the-log",
    "keys-move",
    "lease-set-refused",
    "log-connection-failed",
    "logged-deletes-delivered",
    "lost-server-replies",
    "node-still-out-after-the-faults",
    "own-write-read",
    "pool-changed-by-another",
    "probe-sent",
    "read-from-the-master",
    "replica-stopped",
    "server-out-of-service",
    "slot-drained",
    "spool-cannot-be-written",
    "spool-ends-in-a-torn-write",
    "void-lease-refused",
    "wait-for-a-fill",
    "write-unmarked-or-not-deleted",
    "request-of-a-user-failed",
];

/// How often each branch was reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reached(BTreeMap<String, u64>);

impl Reached {
    /// The counts of this world.
    pub(crate) fn of_world() -> Self {
        Reached(hooks::reached().into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
    }

    pub(crate) fn add(&mut self, other: &Reached) {
        for (name, count) in &other.0 {
            *self.0.entry(name.clone()).or_default() += count;
        }
    }

    /// The counts, for a person.
    pub(crate) fn table(&self) -> String {
        let count = |name: &&str| format!("\n  {:>10} {name}", self.0.get(*name).copied().unwrap_or(0));
        format!("rare branches reached:{}", BRANCHES.iter().map(count).collect::<String>())
    }

    /// Branches that no seed has reached, or that are not listed here.
    pub(crate) fn faults(&self) -> Vec<String> {
        let missed = BRANCHES.iter().filter(|name| !self.0.contains_key(**name));
        let missed = missed.map(|name| format!("no seed has reached {name}"));
        let unknown = self.0.keys().filter(|name| !BRANCHES.contains(&name.as_str()));
        missed.chain(unknown.map(|name| format!("{name} is not listed in rare.rs"))).collect()
    }
}
