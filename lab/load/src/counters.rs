//! The counters of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Examples of wrong replies that are kept.
const EXAMPLES_MAX: usize = 5;

/// Counts of one run, or of one thread of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Commands answered, fills included.
    pub commands: u64,
    /// Keys requested by gets, each key of a multiget counted.
    pub gets: u64,
    pub hits: u64,
    pub sets: u64,
    pub fills: u64,
    pub deletes: u64,
    /// Commands that the server refused (`SERVER_ERROR`, `NOT_STORED`).
    pub refused: u64,
    /// Values whose contents were compared; the length is always compared.
    pub contents_checked: u64,
    /// Values of wrong length, flags or contents, and unrequested keys.
    pub wrong: u64,
    /// Requests over UDP without a reply in time; no other count includes them.
    pub lost: u64,
    /// Datagrams that came after their request was given up.
    pub late: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    /// How far an open loop was behind its timetable at the end, in nanoseconds; the most of several threads.
    pub behind_ns: u64,
}

impl Counts {
    /// The load's own operations: requested keys, sets and deletes. Fills are part of the cost of
    /// misses; as operations of their own they would make a cache look faster for missing more.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.gets + self.sets + self.deletes
    }

    /// The share of requested keys that were found; 0 without gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.hits as f64 / self.gets as f64 }
    }

    /// The share of requests that were never answered; 0 without requests.
    #[must_use]
    pub fn lost_ratio(&self) -> f64 {
        self.lost as f64 / (self.commands + self.lost).max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.fills += other.fills;
        self.deletes += other.deletes;
        self.refused += other.refused;
        self.contents_checked += other.contents_checked;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.late += other.late;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.behind_ns = self.behind_ns.max(other.behind_ns);
    }
}

/// Counts and latencies of one run, or of one thread of it.
#[derive(Debug, Clone)]
pub struct Counters {
    pub counts: Counts,
    /// Latencies of get commands in nanoseconds.
    pub get_ns: Histogram<u64>,
    /// Latencies of sets, fills and deletes in nanoseconds.
    pub set_ns: Histogram<u64>,
    /// The first wrong or refused replies, in words.
    pub examples: Vec<String>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { counts: Counts::default(), get_ns: histogram(), set_ns: histogram(), examples: Vec::new() }
    }
}

impl Counters {
    /// Forgets everything but the examples: the warm-up's figures are dropped, its errors are not.
    pub fn restart(&mut self) {
        let wrong = self.counts.wrong;
        self.counts = Counts { wrong, ..Counts::default() };
        self.get_ns.reset();
        self.set_ns.reset();
    }

    /// Counts a wrong reply and keeps it as an example.
    pub fn wrong(&mut self, describe: impl FnOnce() -> String) {
        self.counts.wrong += 1;
        self.example(describe);
    }

    /// Counts a refusal and keeps it as an example.
    pub fn refused(&mut self, describe: impl FnOnce() -> String) {
        self.counts.refused += 1;
        self.example(describe);
    }

    fn example(&mut self, describe: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(describe());
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        // Both histograms have the same bounds, so adding cannot fail.
        let _same_bounds = self.get_ns.add(&other.get_ns);
        let _same_bounds = self.set_ns.add(&other.set_ns);
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
    }
}

/// A histogram of latencies from 1 ns to 1000 s with three significant digits.
///
/// # Panics
/// Never: the bounds are valid for the library.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000_000, 3).expect("the bounds are valid")
}

/// The percentiles of a histogram, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    /// 90 % are no longer.
    pub p90_us: f64,
    /// 99 % are no longer.
    pub p99_us: f64,
    /// 99.9 % are no longer.
    pub p999_us: f64,
    pub max_us: f64,
}

impl Percentiles {
    /// Reads the percentiles of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Percentiles, histogram};

    #[test]
    fn percentiles_of_known_values() {
        let mut values = histogram();
        (1..=1000).for_each(|us| values.saturating_record(us * 1000));
        let percentiles = Percentiles::of(&values);
        assert!((percentiles.p50_us - 500.0).abs() < 1.0, "{percentiles:?}");
        assert!((percentiles.p99_us - 990.0).abs() < 2.0, "{percentiles:?}");
        assert!((percentiles.p999_us - 999.0).abs() < 2.0, "{percentiles:?}");
        assert_eq!(percentiles.count, 1000);
    }

    #[test]
    fn a_restart_keeps_what_was_wrong() {
        let mut counters = Counters::default();
        counters.counts.gets = 10;
        counters.wrong(|| "bad".to_owned());
        counters.restart();
        assert_eq!((counters.counts.gets, counters.counts.wrong), (0, 1));
        assert_eq!(counters.examples, ["bad"]);
    }

    #[test]
    fn merging_adds_counts_and_latencies() {
        let (mut one, mut two) = (Counters::default(), Counters::default());
        two.counts.hits = 3;
        (one.counts.behind_ns, two.counts.behind_ns) = (5, 7);
        two.get_ns.saturating_record(1000);
        one.merge(&two);
        assert_eq!((one.counts.hits, one.get_ns.len()), (3, 1));
        assert_eq!(one.counts.behind_ns, 7, "threads are behind at the same time");
    }
}
