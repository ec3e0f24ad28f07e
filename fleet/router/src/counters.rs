//! The counters of each worker for its clients' requests.

use crate::upstream::{OUTCOMES, averaged};
use guira_routing::{CountedPool, Group, Op, Outcome};
use guira_sync::counters;
use guira_sync::histogram::{Histogram, Times};
use std::sync::Arc;
use std::time::Duration;

/// The counters are operations, then outcomes, then events,
const OPS: usize = Op::FlushAll as usize + 1;
const EVENTS: usize = OPS + OUTCOMES;
/// and then averages of times, as the bits of a float; 0 without any time.
const AVERAGES: usize = EVENTS + Event::COUNT;
const COUNTERS: usize = AVERAGES + Average::COUNT;

/// The counters other than operations and outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Round,
    Datagram,
    /// A request or a reply was held back.
    Delay,
    /// A client has to wait since too many requests are in flight,
    Held,
    /// until it may continue.
    Released,
    /// A client is refused at once.
    Throttled,
    /// An empty value is requested again.
    Doubt,
    LeaseRefused,
    /// A connection to a server failed for lack of a resource of this host.
    Shortage,
}

impl Event {
    const COUNT: usize = Event::Shortage as usize + 1;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Average {
    All,
    Get,
    Update,
}

impl Average {
    const COUNT: usize = Average::Update as usize + 1;
}

/// The groups of operations and their names.
pub(crate) const GROUPS: [(Group, &str); 6] = [
    (Group::Get, "get"),
    (Group::Update, "update"),
    (Group::Delete, "delete"),
    (Group::Arithmetic, "arithmetic"),
    (Group::Touch, "touch"),
    (Group::Flush, "flush"),
];

/// The weight of a new time in an average is one part of this many, as in mcrouter.
const WINDOW: f64 = 64.0;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    worker: usize,
    counts: counters::Counters<COUNTERS>,
    /// The latencies of servers by the group of operations.
    times: [Times; GROUPS.len()],
    /// For each counted pool: failed client requests, and the bits of an average time.
    pools: Box<[counters::Counters<2>]>,
}

const POOL_FAILURES: usize = 0;
const POOL_TIME: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
}

impl Counters {
    pub(crate) fn of(worker: usize) -> Self {
        Counters { worker, ..Self::default() }
    }

    /// Counters of a worker, with a given number of counted pools.
    pub(crate) fn counting(worker: usize, pools: usize) -> Self {
        Counters { pools: (0..pools).map(|_| counters::Counters::default()).collect(), ..Self::of(worker) }
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// A client has requested one key.
    #[inline]
    pub(crate) fn count_request(&self, op: Op) {
        self.counts.add(op as usize, 1);
    }

    #[inline]
    pub(crate) fn answered(&self, outcome: Outcome) {
        self.counts.add(OPS + outcome as usize, 1);
    }

    pub(crate) fn add(&self, event: Event) {
        self.counts.add(EVENTS + event as usize, 1);
    }

    fn of_event(&self, event: Event) -> u64 {
        self.counts.get(EVENTS + event as usize)
    }

    /// A server replied after this many microseconds.
    pub(crate) fn took(&self, group: Group, micros: u64) {
        if let Some(at) = GROUPS.iter().position(|(known, _)| *known == group) {
            self.times[at].note(1, Duration::from_micros(micros));
        }
        let part = match group {
            Group::Get => Some(Average::Get),
            Group::Update => Some(Average::Update),
            _ => None,
        };
        for counter in [Some(Average::All), part].into_iter().flatten() {
            let average = averaged(self.average(counter), micros as f64, WINDOW);
            self.counts.set(AVERAGES + counter as usize, average.to_bits());
        }
    }

    /// A client's request that counts for this pool has ended after this many microseconds.
    pub(crate) fn ended(&self, pool: CountedPool, end: End, micros: u64) {
        let Some(counts) = self.pools.get(pool.0 as usize) else { return };
        counts.add(POOL_FAILURES, u64::from(end == End::Failure));
        let average = averaged(self.pool_average(pool), micros as f64, WINDOW);
        counts.set(POOL_TIME, average.to_bits());
    }

    fn pool_average(&self, pool: CountedPool) -> Option<f64> {
        let bits = self.pools.get(pool.0 as usize).map(|counts| counts.get(POOL_TIME));
        bits.filter(|bits| *bits != 0).map(f64::from_bits)
    }

    fn average(&self, counter: Average) -> Option<f64> {
        Some(self.counts.get(AVERAGES + counter as usize)).filter(|bits| *bits != 0).map(f64::from_bits)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums<'a>(pub(crate) &'a [Arc<Counters>]);

impl Sums<'_> {
    /// The number of rounds of each worker.
    pub(crate) fn rounds(self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|counters| counters.of_event(Event::Round))
    }

    pub(crate) fn of_event(self, event: Event) -> u64 {
        self.sum(EVENTS + event as usize)
    }

    fn sum(self, index: usize) -> u64 {
        self.0.iter().map(|counters| counters.counts.get(index)).sum()
    }

    pub(crate) fn of_op(self, op: Op) -> u64 {
        self.sum(op as usize)
    }

    pub(crate) fn of_outcome(self, outcome: Outcome) -> u64 {
        self.sum(OPS + outcome as usize)
    }

    pub(crate) fn requests(self) -> u64 {
        (0..OPS).map(|index| self.sum(index)).sum()
    }

    pub(crate) fn answered(self) -> u64 {
        (OPS..EVENTS).map(|index| self.sum(index)).sum()
    }

    /// The mean of the workers' averages in microseconds; a worker without any counts as 0, as in
    /// mcrouter.
    pub(crate) fn average(self, counter: Average) -> f64 {
        let known = self.0.iter().filter_map(|counters| counters.average(counter));
        // An empty sum of floats is a negative zero.
        known.fold(0.0, |sum, average| sum + average) / self.0.len() as f64
    }

    /// The number of failed requests that count for a pool.
    pub(crate) fn failures_of_pool(self, pool: CountedPool) -> u64 {
        let counts = self.0.iter().filter_map(|counters| counters.pools.get(pool.0 as usize));
        counts.map(|counts| counts.get(POOL_FAILURES)).sum()
    }

    /// The mean of the workers' averages for a pool in microseconds, without workers that have
    /// none; 0 if no worker has one.
    pub(crate) fn average_of_pool(self, pool: CountedPool) -> f64 {
        let known: Vec<f64> = self.0.iter().filter_map(|counters| counters.pool_average(pool)).collect();
        known.iter().sum::<f64>() / known.len().max(1) as f64
    }

    /// The latencies of servers, by the index of the group in [`GROUPS`].
    pub(crate) fn times(self, group: usize) -> Histogram {
        Histogram::sum(self.0.iter().map(|counters| &counters.times[group]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_averaged_by_what_was_asked() {
        let workers = [Arc::new(Counters::of(0)), Arc::new(Counters::of(1))];
        let sums = Sums(&workers);
        assert_eq!(sums.average(Average::All), 0.0);
        workers[0].took(Group::Get, 100);
        workers[0].took(Group::Update, 740);
        workers[0].took(Group::Delete, 110);
        assert_eq!(sums.average(Average::All) * 2.0, 110.0, "one sixty-fourth of what is new");
        assert_eq!((sums.average(Average::Get), sums.average(Average::Update)), (50.0, 370.0));
        let counts: Vec<u64> = (0..GROUPS.len()).map(|group| sums.times(group).count()).collect();
        assert_eq!(counts, [1, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn requests_are_counted_for_pools() {
        let workers = [0, 1, 2].map(|worker| Arc::new(Counters::counting(worker, 2)));
        let sums = Sums(&workers);
        let [one, other] = [CountedPool(0), CountedPool(1)];
        workers[0].ended(one, End::Failure, 100);
        workers[0].ended(one, End::Success, 740);
        workers[2].ended(one, End::Failure, 20);
        assert_eq!((sums.failures_of_pool(one), sums.average_of_pool(one)), (2, (110.0 + 20.0) / 2.0));
        assert_eq!((sums.failures_of_pool(other), sums.average_of_pool(other)), (0, 0.0));
    }
}
