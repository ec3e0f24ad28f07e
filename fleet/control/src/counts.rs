//! The counters of membership, a row each.

use guira_sync::atomic::{AtomicU64, Ordering};

guira_sync::counters! {
    /// Counters of a process that follows pools.
    pub enum ControlCount {
        EtcdCalls = "etcd_calls", Count, "Requests to etcd";
        EtcdFailures = "etcd_failures", Count, "Requests to etcd without a reply, or refused";
        PoolChanges = "etcd_pool_changes", Count, "Pools in etcd found changed";
        PoolFaults = "etcd_pool_faults", Count, "Pools in etcd found missing or invalid; the router kept the last valid ones";
    }
}

/// Counters, and the state that was seen last. Relaxed: they are only printed.
#[derive(Debug, Default)]
pub struct ControlCounts {
    counts: [AtomicU64; ControlCount::COUNT],
    revision: AtomicU64,
}

impl ControlCounts {
    pub fn get(&self, count: ControlCount) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// The revision of etcd that was seen last: routers that have the same one have the same pools.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: ControlCount) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_revision(&self, revision: i64) {
        self.revision.store(revision.unsigned_abs(), Ordering::Relaxed);
    }
}
