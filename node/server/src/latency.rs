//! How long requests take: histograms for each worker, of a sample of its batches and rounds.
//!
//! Three times are measured. The *service* time of a request: from when its batch was begun until all of the batch was executed,
//! which is when its reply can leave. The time in the *queue*: from when the worker has looked at its sockets until the connection
//! has its turn. And that of a *round* of the worker: input that arrives during one waits until it is over, and no longer.
//!
//! One batch in [`GAP`] is measured, and one round, about: asking for the time costs as much as a get.

use crate::sampler::Sampler;
use guira_commands::Item;
use guira_protocol::binary::ItemOperation;
use guira_protocol::{GetForm, Meta, Verb};
use guira_sync::clock::Stopwatch;
use guira_sync::counters::Counters;
use std::sync::Arc;
use std::time::Duration;

/// What is measured: commands by what they do, in any protocol, and the worker itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    Get,
    /// touch, gat.
    Touch,
    Set,
    Delete,
    Arithmetic,
    /// lease-get and lease-set.
    Lease,
    /// What has no key, and me.
    Other,
    Queue,
    Round,
}

impl Series {
    pub(crate) const COMMANDS: [Series; 7] = [
        Series::Get,
        Series::Touch,
        Series::Set,
        Series::Delete,
        Series::Arithmetic,
        Series::Lease,
        Series::Other,
    ];
    const COUNT: usize = Series::Round as usize + 1;

    pub(crate) fn name(self) -> &'static str {
        match self {
            Series::Get => "get",
            Series::Touch => "touch",
            Series::Set => "set",
            Series::Delete => "delete",
            Series::Arithmetic => "arithmetic",
            Series::Lease => "lease",
            Series::Other => "other",
            Series::Queue => "queue",
            Series::Round => "round",
        }
    }

    pub(crate) fn of_form(form: GetForm) -> Self {
        match form {
            GetForm::Plain(_) => Series::Get,
            GetForm::Touch(..) => Series::Touch,
            GetForm::Lease => Series::Lease,
        }
    }

    /// What a request is counted as.
    pub(crate) fn of(item: &Item<'_>) -> Self {
        match item {
            Item::Get(get) | Item::KeyOfGet(get) => Self::of_form(get.form),
            Item::Store(store, _) if matches!(store.verb, Verb::Lease(_)) => Series::Lease,
            Item::Store(..) | Item::Meta(Meta::Set(_), _) => Series::Set,
            Item::Delete(_) | Item::Meta(Meta::Delete(_), _) => Series::Delete,
            Item::Arithmetic(_) | Item::Meta(Meta::Arithmetic(..), _) => Series::Arithmetic,
            Item::Touch(_) => Series::Touch,
            Item::Meta(Meta::Get(_), _) => Series::Get,
            Item::MetaDebug(_) => Series::Other,
            Item::Packet(packet) => match packet.operation {
                ItemOperation::Get { touch: None, .. } => Series::Get,
                ItemOperation::Get { touch: Some(_), .. } => Series::Touch,
                ItemOperation::Store(_) => Series::Set,
                ItemOperation::Delete => Series::Delete,
                ItemOperation::Arithmetic { .. } => Series::Arithmetic,
            },
        }
    }
}

/// Buckets are log-linear: [`PARTS`] for each power of two nanoseconds from [`FIRST`] to [`LAST`], one below and one above.
const PARTS_LOG: u32 = 2;
const PARTS: usize = 1 << PARTS_LOG;
const FIRST: u32 = 7;
const LAST: u32 = 34;
pub(crate) const BUCKETS: usize = (LAST - FIRST) as usize * PARTS + 2;

/// The bucket of a time.
fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST {
        return 0;
    }
    let log = ns.ilog2();
    let part = (ns >> (log - PARTS_LOG)) as usize & (PARTS - 1);
    (1 + (log - FIRST) as usize * PARTS + part).min(BUCKETS - 1)
}

/// Times in a bucket are below this, in nanoseconds. There is no such number for the last.
fn bound(bucket: usize) -> Option<u64> {
    match bucket {
        0 => Some(1 << FIRST),
        bucket if bucket + 1 < BUCKETS => {
            let (octave, part) = ((bucket - 1) / PARTS, (bucket - 1) % PARTS);
            Some(((PARTS + part + 1) as u64) << (FIRST + octave as u32 - PARTS_LOG))
        }
        _ => None,
    }
}

/// What one worker has measured. Only it writes, and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    counts: Counters<{ Series::COUNT * BUCKETS }>,
    /// Nanoseconds, of each series.
    sums: Counters<{ Series::COUNT }>,
    rounds: Counters<1>,
}

impl Latencies {
    fn note(&self, series: Series, times: u64, each: Duration) {
        let ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        self.counts.add(series as usize * BUCKETS + bucket(ns), times);
        self.sums.add(series as usize, ns.saturating_mul(times));
    }

    /// How often the worker has looked at its sockets.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.get(0)
    }
}

/// A histogram: what all workers have measured of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    counts: [u64; BUCKETS],
    pub(crate) sum_ns: u64,
}

impl Histogram {
    pub(crate) fn sum<'a>(series: Series, workers: impl Iterator<Item = &'a Latencies>) -> Self {
        let mut all = Histogram { counts: [0; BUCKETS], sum_ns: 0 };
        for worker in workers {
            for (bucket, count) in all.counts.iter_mut().enumerate() {
                *count += worker.counts.get(series as usize * BUCKETS + bucket);
            }
            all.sum_ns = all.sum_ns.wrapping_add(worker.sums.get(series as usize));
        }
        all
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many times were below 128 ns, 256 ns, …, in powers of two: these are the bounds that have a sample of their own.
    pub(crate) fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        (FIRST..=LAST).map(|log| {
            let buckets = 1 + (log - FIRST) as usize * PARTS;
            (1 << log, self.counts[..buckets].iter().sum())
        })
    }

    /// The buckets that are not empty: the bound in nanoseconds, and how many times were below it and not below the one before.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let bounds = (0..BUCKETS).map(|index| bound(index).unwrap_or(2 << LAST));
        bounds.zip(self.counts).filter(|(_, count)| *count > 0)
    }

    /// The bound of the bucket in which the time lies that this share of all is below, in nanoseconds. `None` if nothing was measured.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets().find_map(|(bound, count)| {
            seen += count;
            (seen >= wanted).then_some(bound)
        })
    }
}

/// One in so many batches and rounds is measured, on average.
const GAP: u32 = 16;

/// Measures batches of one worker.
#[derive(Debug)]
pub(crate) struct BatchMeter {
    latencies: Arc<Latencies>,
    sampler: Sampler,
    /// The present batch is measured, since then.
    since: Option<Stopwatch>,
}

impl BatchMeter {
    pub(crate) fn new(worker: usize, latencies: Arc<Latencies>) -> Self {
        BatchMeter { latencies, sampler: Sampler::new(worker, GAP), since: None }
    }

    /// A batch begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        if self.sampler.is_due() {
            self.start();
        }
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self) {
        self.sampler.again();
        self.since = Some(Stopwatch::start());
    }

    /// Whether the present batch is measured.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// All of the batch was executed: requests of these series.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self, series: impl Iterator<Item = Series>) {
        let Some(since) = self.since.take() else {
            return;
        };
        let elapsed = since.elapsed();
        let mut times = [0; Series::COUNT];
        series.for_each(|series| times[series as usize] += 1);
        for series in Series::COMMANDS {
            if times[series as usize] > 0 {
                self.latencies.note(series, times[series as usize], elapsed);
            }
        }
    }

    /// What was begun is not a batch of requests.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.since = None;
    }
}

/// Measures rounds of one worker, and how long connections wait in them.
#[derive(Debug)]
pub(crate) struct RoundMeter {
    latencies: Arc<Latencies>,
    sampler: Sampler,
    since: Option<Stopwatch>,
    turns: u32,
}

impl RoundMeter {
    pub(crate) fn new(worker: usize, latencies: Arc<Latencies>) -> Self {
        RoundMeter { latencies, sampler: Sampler::new(worker, GAP), since: None, turns: 0 }
    }

    /// The worker has looked at its sockets.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.latencies.rounds.add(0, 1);
        if self.sampler.is_due() {
            self.start();
        }
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self) {
        self.sampler.again();
        self.turns = 0;
        self.since = Some(Stopwatch::start());
    }

    /// A connection has its turn.
    #[inline(always)]
    pub(crate) fn turn(&mut self) {
        if self.since.is_some() {
            self.note_turn();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_turn(&mut self) {
        if let Some(since) = self.since {
            self.turns += 1;
            self.latencies.note(Series::Queue, 1, since.elapsed());
        }
    }

    /// All connections have had their turns.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if self.since.is_some() {
            self.note_round();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_round(&mut self) {
        if let Some(since) = self.since.take().filter(|_| self.turns > 0) {
            self.latencies.note(Series::Round, 1, since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_below_the_bound_of_its_bucket_and_not_below_the_one_before() {
        let around = (0..40).flat_map(|log| [-1, 0, 1, 7].map(|by| (1i64 << log) + by)).filter(|ns| *ns >= 0);
        for ns in around.map(|ns| ns as u64) {
            let bucket = bucket(ns);
            assert!(bound(bucket).is_none_or(|bound| ns < bound), "{ns} in {bucket}");
            let before = bucket.checked_sub(1).and_then(bound).unwrap_or(0);
            assert!(ns >= before, "{ns} in {bucket}, from {before}");
        }
        assert_eq!((bucket(u64::MAX), bound(BUCKETS - 2)), (BUCKETS - 1, Some(1 << LAST)));
        // No bucket is wider than a quarter of where it begins.
        for index in 1..BUCKETS - 1 {
            let (from, to) = (bound(index - 1).unwrap(), bound(index).unwrap());
            assert!(from < to && (to - from) * 4 <= from, "{from} to {to}");
        }
    }

    #[test]
    fn histograms_of_workers_are_added() {
        let workers = [Latencies::default(), Latencies::default()];
        workers[0].note(Series::Get, 3, Duration::from_nanos(100));
        workers[1].note(Series::Get, 1, Duration::from_micros(10));
        workers[1].note(Series::Queue, 7, Duration::from_secs(100));
        let gets = Histogram::sum(Series::Get, workers.iter());
        assert_eq!((gets.count(), gets.sum_ns), (4, 10_300));
        assert_eq!(gets.buckets().collect::<Vec<_>>(), [(128, 3), (10_240, 1)]);
        assert_eq!(
            (gets.quantile(0.5), gets.quantile(0.75), gets.quantile(0.99)),
            (Some(128), Some(128), Some(10_240))
        );
        let octaves: Vec<(u64, u64)> = gets.octaves().collect();
        assert_eq!((octaves[0], octaves[6], octaves[7]), ((128, 3), (8192, 3), (16_384, 4)));
        let queue = Histogram::sum(Series::Queue, workers.iter());
        assert_eq!(queue.octaves().last(), Some((1 << LAST, 0)), "all of them took longer");
        assert_eq!((queue.count(), queue.quantile(0.5)), (7, Some(2 << LAST)));
        assert_eq!(Histogram::sum(Series::Lease, workers.iter()).quantile(0.5), None);
    }

    #[test]
    fn about_one_batch_in_sixteen_is_measured_and_all_requests_of_it() {
        let latencies = Arc::<Latencies>::default();
        let mut meter = BatchMeter::new(0, latencies.clone());
        let batches = 10_000;
        for _ in 0..batches {
            meter.begin();
            if meter.is_on() {
                meter.end([Series::Get, Series::Set, Series::Get].into_iter());
            }
        }
        let count = |series| Histogram::sum(series, std::iter::once(&*latencies)).count();
        assert_eq!(count(Series::Get), 2 * count(Series::Set));
        let share = f64::from(batches) / count(Series::Set) as f64;
        assert!((14.0..18.0).contains(&share), "one in {share}");
    }

    #[test]
    fn a_round_without_a_turn_is_not_counted() {
        let latencies = Arc::<Latencies>::default();
        let mut meter = RoundMeter::new(0, latencies.clone());
        for round in 0..1000 {
            meter.begin();
            if round >= 500 {
                meter.turn();
                meter.turn();
            }
            meter.end();
        }
        let count = |series| Histogram::sum(series, std::iter::once(&*latencies)).count();
        assert!(count(Series::Round) > 20 && count(Series::Queue) == 2 * count(Series::Round));
        assert_eq!(latencies.rounds(), 1000);
    }
}
