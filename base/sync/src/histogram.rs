//! Histograms of times. Each has one writer, which counts without a lock or a locked instruction, and any thread can read the sum of several.

use crate::counters::Counters;
use std::time::Duration;

/// Buckets are log-linear: [`PARTS`] for each power of two nanoseconds from [`FIRST`] to [`LAST`], one below and one above.
const PARTS_LOG: u32 = 2;
const PARTS: usize = 1 << PARTS_LOG;
const FIRST: u32 = 7;
const LAST: u32 = 34;
const BUCKETS: usize = (LAST - FIRST) as usize * PARTS + 2;

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

/// What comes behind the buckets: the sum of all times.
const SUM: usize = BUCKETS;

/// The times that one thread has measured: only it writes, and any thread reads.
#[derive(Debug, Default)]
pub struct Times(Counters<{ BUCKETS + 1 }>);

impl Times {
    /// Counts `times` times of this length.
    pub fn note(&self, times: u64, each: Duration) {
        let ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        self.0.add(bucket(ns), times);
        self.0.add(SUM, ns.saturating_mul(times));
    }
}

/// What several threads have measured together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Histogram {
    /// The sum of these.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Times>) -> Self {
        let mut all = Histogram { counts: [0; BUCKETS], sum_ns: 0 };
        for part in parts {
            for (bucket, count) in all.counts.iter_mut().enumerate() {
                *count += part.0.get(bucket);
            }
            all.sum_ns = all.sum_ns.wrapping_add(part.0.get(SUM));
        }
        all
    }

    /// The sum of all times, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many times were below 128 ns, 256 ns, …, in powers of two: these are the bounds that have a sample of their own.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        (FIRST..=LAST).map(|log| {
            let buckets = 1 + (log - FIRST) as usize * PARTS;
            (1 << log, self.counts[..buckets].iter().sum())
        })
    }

    /// The buckets that are not empty: the bound in nanoseconds, and how many times were below it and not below the one before.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let bounds = (0..BUCKETS).map(|index| bound(index).unwrap_or(2 << LAST));
        bounds.zip(self.counts).filter(|(_, count)| *count > 0)
    }

    /// The bound of the bucket in which the time lies that this share of all is below, in nanoseconds. `None` if nothing was measured.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets().find_map(|(bound, count)| {
            seen += count;
            (seen >= wanted).then_some(bound)
        })
    }
}

#[cfg(all(test, not(guira_loom)))]
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
    fn histograms_are_added() {
        let (gets, others) = ([Times::default(), Times::default()], [Times::default()]);
        gets[0].note(3, Duration::from_nanos(100));
        gets[1].note(1, Duration::from_micros(10));
        others[0].note(7, Duration::from_secs(100));
        let gets = Histogram::sum(&gets);
        assert_eq!((gets.count(), gets.sum_ns()), (4, 10_300));
        assert_eq!(gets.buckets().collect::<Vec<_>>(), [(128, 3), (10_240, 1)]);
        assert_eq!(
            (gets.quantile(0.5), gets.quantile(0.75), gets.quantile(0.99)),
            (Some(128), Some(128), Some(10_240))
        );
        let octaves: Vec<(u64, u64)> = gets.octaves().collect();
        assert_eq!((octaves[0], octaves[6], octaves[7]), ((128, 3), (8192, 3), (16_384, 4)));
        let others = Histogram::sum(&others);
        assert_eq!(others.octaves().last(), Some((1 << LAST, 0)), "all of them took longer");
        assert_eq!((others.count(), others.quantile(0.5)), (7, Some(2 << LAST)));
        assert_eq!(Histogram::sum([]).quantile(0.5), None);
    }
}
