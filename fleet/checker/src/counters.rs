//! The counters other than the results. Each is a row with its name in `/metrics`.

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};

guira_sync::counters! {
    pub(crate) enum Count {
        Queries = "queries", Count, "Queries of the database: one per sampled hint, and one per delay at which a cached value differs from the database." as "guira_checker_queries_total";
        QueryFailures = "query_failures", Count, "Queries that failed." as "guira_checker_query_failures_total";
        Refused = "refused_hints", Count, "Malformed or unknown lines of senders of hints." as "guira_checker_refused_hints_total";
        Flushes = "flushes", Count, "Flushes by the invalidator. The changes before a flush are unknown." as "guira_checker_flushes_total";
        Crowded = "crowded_connections", Count, "Connections of senders of hints closed because 64 are open." as "guira_checker_crowded_connections_total";
    }
}

guira_sync::counters! {
    pub(crate) enum ClusterCount {
        Reads = "reads", Count, "Keys read from the cluster." as "guira_checker_reads_total";
        Failures = "read_failures", Count, "Reads that the cluster did not answer." as "guira_checker_read_failures_total";
        GivenBack = "wins_given_back", Count, "Reads that won the right to fill a stale or missing item and returned it." as "guira_checker_wins_given_back_total";
    }
}

/// The counters of the database or of a cluster, and whether it was reachable when last used.
#[derive(Debug)]
pub(crate) struct Tallies<const N: usize> {
    /// Relaxed: they are only printed.
    values: [AtomicU64; N],
    /// Relaxed: it is only printed.
    is_up: AtomicBool,
}

impl<const N: usize> Default for Tallies<N> {
    fn default() -> Self {
        Tallies { values: std::array::from_fn(|_| AtomicU64::new(0)), is_up: AtomicBool::new(false) }
    }
}

impl<const N: usize> Tallies<N> {
    fn add_at(&self, at: usize, count: u64) -> u64 {
        self.values[at].fetch_add(count, Ordering::Relaxed)
    }

    fn get_at(&self, at: usize) -> u64 {
        self.values[at].load(Ordering::Relaxed)
    }

    /// Returns what it was before.
    pub(crate) fn set_up(&self, health: Health) -> Health {
        if self.is_up.swap(health == Health::Up, Ordering::Relaxed) { Health::Up } else { Health::Down }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    Down,
}

pub(crate) type Counts = Tallies<{ Count::COUNT }>;
pub(crate) type ClusterCounts = Tallies<{ ClusterCount::COUNT }>;

impl Counts {
    pub(crate) fn add(&self, counter: Count) {
        self.add_at(counter as usize, 1);
    }

    pub(crate) fn get(&self, counter: Count) -> u64 {
        self.get_at(counter as usize)
    }
}

impl ClusterCounts {
    pub(crate) fn add(&self, counter: ClusterCount, count: u64) {
        self.add_at(counter as usize, count);
    }

    pub(crate) fn get(&self, counter: ClusterCount) -> u64 {
        self.get_at(counter as usize)
    }
}
