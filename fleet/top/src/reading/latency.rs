//! `stats latency buckets`: how long requests take, since the start of the node and from one reading to the next.

use super::{Sink, number, parts};
use crate::printable::printable;
use std::collections::BTreeMap;

/// Series that are kept; Guira has nine.
const SERIES_MAX: usize = 64;
/// Buckets that are kept of each; Guira has 110.
const BUCKETS_MAX: usize = 256;

/// The figures of a series.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Series {
    /// A command, `queue` or `round`.
    pub(crate) name: String,
    pub(crate) samples: Option<f64>,
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    /// The sum of all times, in nanoseconds.
    sum_ns: u64,
    /// How many times were below a bound, in nanoseconds, and not below the one before.
    buckets: BTreeMap<u64, u64>,
}

impl Series {
    /// The samples since `before`. `None` if the server has no buckets, or has restarted its
    /// counts.
    fn since(&self, before: &Self) -> Option<Self> {
        let counted = |(bound, count): (&u64, &u64)| {
            Some((*bound, count.checked_sub(before.buckets.get(bound).copied().unwrap_or(0))?))
        };
        let buckets = self.buckets.iter().map(counted).collect::<Option<BTreeMap<u64, u64>>>()?;
        let samples: u64 = buckets.values().sum();
        let sum_ns = self.sum_ns.checked_sub(before.sum_ns)?;
        let quantile = |share: f64| {
            let wanted = (samples as f64 * share).ceil().max(1.0) as u64;
            let mut seen = 0;
            buckets.iter().find_map(|(bound, count)| {
                seen += count;
                (seen >= wanted).then_some(*bound as f64 / 1000.0)
            })
        };
        Some(Self {
            name: self.name.clone(),
            samples: Some(samples as f64),
            mean_us: (samples > 0).then(|| sum_ns as f64 / samples as f64 / 1000.0),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            sum_ns,
            buckets,
        })
    }
}

/// All series, in the order of the answer.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Latencies(Vec<Series>);

impl Latencies {
    pub(crate) fn series(&self) -> &[Series] {
        &self.0
    }

    pub(crate) fn of(&self, name: &str) -> Option<&Series> {
        self.0.iter().find(|series| series.name == name)
    }

    /// The samples since `before`, if the server reports buckets.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        if self.0.iter().all(|series| series.buckets.is_empty()) {
            return None;
        }
        let nothing = Series::default();
        let since = |series: &Series| series.since(before.of(&series.name).unwrap_or(&nothing));
        self.0.iter().map(since).collect::<Option<Vec<_>>>().map(Self)
    }

    fn entry(&mut self, name: &str) -> Option<&mut Series> {
        let name = printable(name.as_bytes());
        if self.of(&name).is_none() && self.0.len() < SERIES_MAX {
            self.0.push(Series { name: name.clone(), ..Series::default() });
        }
        self.0.iter_mut().find(|series| series.name == name)
    }
}

impl Sink for Latencies {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        if let Some([series, "below_ns", bound]) = parts(name) {
            let (Some(count), Ok(bound)) = (number(value), bound.parse()) else { return };
            if let Some(series) = self.entry(series).filter(|series| series.buckets.len() < BUCKETS_MAX) {
                series.buckets.insert(bound, count);
            }
            return;
        }
        if let (Some([series, "sum_ns"]), Some(sum)) = (parts(name), number(value)) {
            self.entry(series).into_iter().for_each(|series| series.sum_ns = sum);
            return;
        }
        let value = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let Some(value) = value.filter(|value: &f64| value.is_finite()) else { return };
        let Some([series, what]) = parts(name) else { return };
        let Some(series) = self.entry(series) else { return };
        let field = match what {
            "samples" => &mut series.samples,
            "mean_us" => &mut series.mean_us,
            "p50_us" => &mut series.p50_us,
            "p99_us" => &mut series.p99_us,
            "p999_us" => &mut series.p999_us,
            _ => return,
        };
        *field = Some(value);
    }
}
