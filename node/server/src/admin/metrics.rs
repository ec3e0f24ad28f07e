//! Which metrics there are, for docs/metrics.md.

use super::classes;
use super::general::{ABSENT, ELSEWHERE};
use super::lines::{
    ENGINE, FIRST, ITEMS, ITEMS_LAST, LIMITS, Line, REGION, SLABS, SLABS_LAST, TLS, WATCHERS,
};
use crate::counters::{ServerCount, WorkerCount};
use guira_commands::{BY_CLASS, CommandCount};
use guira_contract::{ClassCounts, EngineStats};
use guira_sync::metrics::Metric;

/// Metrics of one kind.
#[derive(Debug)]
pub struct MetricTable {
    /// The command that shows them.
    pub command: &'static str,
    /// What they are about.
    pub scope: &'static str,
    /// The metrics, in the order in which they are shown.
    pub metrics: Vec<Metric>,
    /// Names that memcached shows as well, and whose value is always 0 here.
    pub absent: Vec<&'static str>,
}

fn table(
    command: &'static str,
    scope: &'static str,
    metrics: impl IntoIterator<Item = Metric>,
) -> MetricTable {
    MetricTable { command, scope, metrics: metrics.into_iter().collect(), absent: Vec::new() }
}

fn of_lines(tables: &[&[Line]]) -> Vec<Metric> {
    tables.iter().copied().flatten().map(|line| line.metric).collect()
}

/// All metrics.
pub fn metric_tables() -> Vec<MetricTable> {
    let is_general = |metric: &&Metric| !ELSEWHERE.contains(&metric.name);
    let engine = EngineStats::ROWS.iter().filter(is_general).copied();
    let by_class = BY_CLASS.map(|what| CommandCount::ROWS[what as usize]);
    let lines = |lines: &[super::lines::ClassLine]| lines.iter().map(|line| line.metric).collect::<Vec<_>>();
    let items = lines(ITEMS).into_iter().chain(ClassCounts::ROWS.iter().copied()).chain(lines(ITEMS_LAST));
    vec![
        table("stats", "server", of_lines(&[FIRST, LIMITS])),
        table("stats", "commands", CommandCount::ROWS.iter().copied()),
        table("stats", "workers", WorkerCount::ROWS.iter().copied()),
        table("stats", "server: logs, TLS and region", {
            ServerCount::ROWS.iter().copied().chain(of_lines(&[WATCHERS, TLS, REGION]))
        }),
        MetricTable {
            absent: ABSENT.to_vec(),
            ..table("stats", "engine", of_lines(&[ENGINE]).into_iter().chain(engine))
        },
        MetricTable { absent: classes::ABSENT.to_vec(), ..table("stats items", "class", items) },
        table("stats slabs", "class", lines(SLABS).into_iter().chain(by_class)),
        table("stats slabs", "engine", of_lines(&[SLABS_LAST])),
    ]
}
