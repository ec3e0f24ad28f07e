//! The counts of users.

use std::collections::BTreeMap;
use std::time::Duration;

use guira_client::lookaside::{Counters, LookAside};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::histogram::{Histogram, Times};

guira_sync::counters! {
    pub(crate) enum Count {
        Reads = "reads", Count, "Reads with a reply." as "guira_demo_reads_total";
        Writes = "writes", Count, "Writes acknowledged by the database." as "guira_demo_writes_total";
        Failed = "failed", Count, "Reads and writes that failed because the database did not answer." as "guira_demo_failed_total";
        Retries = "retries", Count, "Times a user switched to the other router because its own failed." as "guira_demo_retries_total";
        Stale = "stale", Count, "Reads that were older than the last commit when they began." as "guira_demo_stale_total";
        Judged = "judged", Count, "Reads of a row for which the delete of a write had reached all caches." as "guira_demo_judged_total";
        Wrong = "wrong", Count, "Reads that were older than the documented bounds allow, or of another row." as "guira_demo_wrong_total";
    }
}

#[derive(Debug)]
pub(crate) struct Counts {
    /// Relaxed: they are only printed.
    values: [AtomicU64; Count::COUNT],
}

impl Default for Counts {
    fn default() -> Self {
        Counts { values: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Counts {
    pub(crate) fn add(&self, count: Count) {
        self.values[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, count: Count) -> u64 {
        self.values[count as usize].load(Ordering::Relaxed)
    }
}

/// The state of one user: its clients of both routers, and its latencies.
#[derive(Debug)]
pub(crate) struct UserState {
    pub(crate) caches: [LookAside; 2],
    pub(crate) reads: Times,
    pub(crate) writes: Times,
}

/// How far everything was counted at one time.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) counts: Vec<u64>,
    /// The counters of the users' clients, by the names of [`Counters`].
    pub(crate) clients: Vec<(&'static str, u64)>,
    pub(crate) reads: Histogram,
    pub(crate) writes: Histogram,
}

impl Sums {
    pub(crate) fn of(counts: &Counts, user_states: &[UserState]) -> Self {
        let mut clients = Counters::default().named();
        for named in user_states.iter().flat_map(|state| &state.caches).map(|cache| cache.counters().named())
        {
            clients.iter_mut().zip(named).for_each(|(sum, (_, value))| sum.1 += value);
        }
        Sums {
            counts: Count::ALL.map(|count| counts.get(count)).to_vec(),
            clients,
            reads: Histogram::sum(user_states.iter().map(|state| &state.reads)),
            writes: Histogram::sum(user_states.iter().map(|state| &state.writes)),
        }
    }

    pub(crate) fn client(&self, name: &str) -> u64 {
        self.clients.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }
}

/// The experience of users between two times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) failed: u64,
    pub(crate) misses: u64,
    pub(crate) retries: u64,
    pub(crate) stale: u64,
    pub(crate) wrong: u64,
    /// Latencies of reads: the median, and the 99th percentile.
    pub(crate) median: Option<Duration>,
    pub(crate) p99: Option<Duration>,
}

impl Seen {
    pub(crate) fn between(then: &Sums, now: &Sums) -> Self {
        let count = |count: Count| now.counts[count as usize] - then.counts[count as usize];
        let client = |name| now.client(name) - then.client(name);
        let before: BTreeMap<u64, u64> = then.reads.buckets().collect();
        let times: Vec<(u64, u64)> = now
            .reads
            .buckets()
            .map(|(bound, times)| (bound, times - before.get(&bound).copied().unwrap_or(0)))
            .collect();
        let all: u64 = times.iter().map(|(_, times)| times).sum();
        let quantile = |percent: u64| {
            let (wanted, mut passed) = ((all * percent).div_ceil(100), 0);
            let found = times.iter().find(|(_, times)| {
                passed += times;
                all > 0 && passed >= wanted
            });
            found.map(|(bound, _)| Duration::from_nanos(*bound))
        };
        Seen {
            reads: count(Count::Reads),
            writes: count(Count::Writes),
            failed: count(Count::Failed),
            // A request that the cache did not answer costs a query too.
            misses: client("misses") + client("failures") + client("unleased"),
            retries: count(Count::Retries),
            stale: count(Count::Stale),
            wrong: count(Count::Wrong),
            median: quantile(50),
            p99: quantile(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Counts, Seen, Sums, UserState};
    use guira_client::lookaside::LookAside;
    use guira_client::text::{Endpoint, Target};
    use guira_sync::histogram::Times;
    use std::time::Duration;

    #[test]
    fn what_was_seen_lies_between_two_times() {
        let unreachable = || {
            let target = Target::new(Endpoint::Unix("nowhere".into()), Duration::from_millis(1));
            LookAside::new(target)
        };
        let caches = [unreachable(), unreachable()];
        let (counts, user_states) =
            (Counts::default(), [UserState { caches, reads: Times::default(), writes: Times::default() }]);
        user_states[0].reads.note(5, Duration::from_secs(1));
        counts.add(Count::Failed);
        let then = Sums::of(&counts, &user_states);
        user_states[0].reads.note(98, Duration::from_micros(1));
        user_states[0].reads.note(2, Duration::from_millis(1));
        counts.add(Count::Failed);
        let seen = Seen::between(&then, &Sums::of(&counts, &user_states));
        assert_eq!((seen.failed, seen.wrong), (1, 0));
        assert!(seen.median < Some(Duration::from_micros(2)), "{seen:?}");
        assert!(seen.p99 > Some(Duration::from_micros(900)), "{seen:?}");
        assert_eq!(Seen::between(&then, &then).p99, None);
    }
}
