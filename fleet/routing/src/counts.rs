//! Counters of route handles, for all workers together.

use guira_sync::lock::{Mutex, MutexGuard};
use std::sync::Arc;

/// An event that route handles count. FailoverRoute counts its events exactly as mcrouter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteCount {
    /// The first child failed, and the route has another child that it could try.
    Failover,
    /// The last child failed too, or the only one.
    AllFailed,
    /// `failover_limit` allowed no other child after a failure.
    RateLimited,
    /// A child that is not the last failed, and its server is reachable.
    ResultError,
    /// A child that is not the last failed, and its server is marked as failed, unreachable or shutting down.
    TkoError,
    /// DeterministicOrderPolicy selected a child that the route had tried already.
    Collision,
    /// DeterministicOrderPolicy selected a child in a failed failure domain.
    FailedDomainCollision,
    /// A replacement server replied that is in the failure domain of the first server.
    SameDomain,
    DevNull,
}

type Counts = [u64; RouteCount::DevNull as usize + 1];

#[derive(Debug, Default)]
pub struct RouteCounts {
    /// LOCK: route_counts. Before the locks of parts.
    trees: Mutex<Trees>,
}

#[derive(Debug, Default)]
struct Trees {
    parts: Vec<Arc<Part>>,
    before: Counts,
}

/// The counters of one tree, that is of one worker. Only statistics contend for the lock.
#[derive(Debug, Default)]
struct Part {
    /// LOCK: route_counts_part. Leaf.
    counts: Mutex<Counts>,
}

impl RouteCounts {
    /// The number of events of all trees since the start. It never decreases.
    pub fn count(&self, what: RouteCount) -> u64 {
        let trees = lock(&self.trees);
        let now: u64 = trees.parts.iter().map(|part| lock(&part.counts)[what as usize]).sum();
        now + trees.before[what as usize]
    }

    /// Adds the counters of a new tree.
    pub(crate) fn tally(self: &Arc<Self>) -> Arc<Tally> {
        let part = Arc::<Part>::default();
        lock(&self.trees).parts.push(part.clone());
        Arc::new(Tally { all: self.clone(), part })
    }
}

/// The counters of a tree, which its handles share.
#[derive(Debug)]
pub(crate) struct Tally {
    all: Arc<RouteCounts>,
    part: Arc<Part>,
}

impl Tally {
    pub(crate) fn add(&self, what: RouteCount, count: u64) {
        lock(&self.part.counts)[what as usize] += count;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut trees = lock(&self.all.trees);
        trees.parts.retain(|part| !Arc::ptr_eq(part, &self.part));
        let counts = *lock(&self.part.counts);
        trees.before.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_trees_that_are_gone_stay() {
        let all = Arc::<RouteCounts>::default();
        let (one, other) = (all.tally(), all.tally());
        one.add(RouteCount::DevNull, 2);
        other.add(RouteCount::DevNull, 3);
        other.add(RouteCount::Failover, 1);
        let counts = || (all.count(RouteCount::DevNull), all.count(RouteCount::Failover));
        assert_eq!(counts(), (5, 1));
        drop(other);
        assert_eq!((counts(), lock(&all.trees).parts.len()), ((5, 1), 1));
        one.add(RouteCount::Failover, 1);
        drop(one);
        assert_eq!((counts(), lock(&all.trees).parts.len()), ((5, 2), 0));
    }
}
