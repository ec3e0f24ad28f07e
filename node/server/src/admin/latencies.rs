//! `stats latency`.

use super::Admin;
use super::text::Lines;
use crate::latency::Series;

/// The quantiles that are shown, and their names.
const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Quantiles,
    /// Also the histograms, so that a program can compute the quantiles between two readings.
    Buckets,
}

impl Admin {
    /// The latencies of requests in microseconds: `series:what`. Only series with samples.
    pub(super) fn latencies(&self, detail: Detail, out: &mut Lines<'_>) {
        for series in Series::COMMANDS.into_iter().chain([Series::Queue, Series::Round]) {
            let histogram = self.statistics.histogram(series);
            let count = histogram.count();
            if count == 0 {
                continue;
            }
            let name = series.name();
            let micros = |ns: u64| format!("{:.3}", ns as f64 / 1000.0);
            out.stat(&format!("{name}:samples"), count);
            out.stat(&format!("{name}:mean_us"), micros(histogram.sum_ns() / count));
            for (share, of) in SHARES {
                out.stat(&format!("{name}:{share}_us"), micros(histogram.quantile(of).unwrap_or(0)));
            }
            if detail == Detail::Buckets {
                out.stat(&format!("{name}:sum_ns"), histogram.sum_ns());
                for (below, count) in histogram.buckets() {
                    out.stat(&format!("{name}:below_ns:{below}"), count);
                }
            }
        }
    }
}
