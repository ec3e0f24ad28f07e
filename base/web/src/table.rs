//! Tables of metrics, for docs/reference/metrics.md.

use guira_sync::metrics::Metric;

#[derive(Debug)]
pub struct MetricTable {
    pub command: &'static str,
    pub scope: &'static str,
    /// The metrics, in the order in which they are shown.
    pub metrics: Vec<Metric>,
    /// What `/metrics` calls each of them, if it shows it.
    pub exported: Vec<Option<String>>,
    /// Names that memcached shows as well, and whose value is always 0 here.
    pub absent: Vec<&'static str>,
}
