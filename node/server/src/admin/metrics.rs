//! Which metrics there are, for docs/reference/metrics.md.

use super::classes;
use super::general::{ABSENT, ELSEWHERE};
use super::lines::{
    ENGINE, FIRST, ITEMS, ITEMS_LAST, LIMITS, Line, REGION, SLABS, SLABS_LAST, TLS, WATCHERS,
};
use super::naming::{self, Scope};
use crate::counters::{ServerCount, WorkerCount};
use guira_commands::{BY_CLASS, CommandCount};
use guira_contract::{ClassCounts, EngineStats};
use guira_sync::metrics::Metric;
use guira_web::MetricTable;

fn table(
    command: &'static str,
    about: &'static str,
    scope: Scope,
    metrics: impl IntoIterator<Item = Metric>,
) -> MetricTable {
    let metrics: Vec<Metric> = metrics.into_iter().collect();
    let exported = metrics.iter().map(|metric| naming::name(metric, scope)).collect();
    MetricTable { command, scope: about, metrics, exported, absent: Vec::new() }
}

fn of_lines(tables: &[&[Line]]) -> Vec<Metric> {
    tables.iter().copied().flatten().map(|line| line.metric).collect()
}

pub fn metric_tables() -> Vec<MetricTable> {
    let is_general = |metric: &&Metric| !ELSEWHERE.contains(&metric.name);
    let engine = EngineStats::ROWS.iter().filter(is_general).copied();
    let by_class = BY_CLASS.map(|what| CommandCount::ROWS[what as usize]);
    let lines = |lines: &[super::lines::ClassLine]| lines.iter().map(|line| line.metric).collect::<Vec<_>>();
    let items = lines(ITEMS).into_iter().chain(ClassCounts::ROWS.iter().copied()).chain(lines(ITEMS_LAST));
    let names = |metrics: &[Metric]| metrics.iter().map(|metric| metric.name).collect::<Vec<_>>();
    vec![
        table("stats", "server", Scope::Server, of_lines(&[FIRST, LIMITS])),
        table("stats", "commands", Scope::Server, CommandCount::ROWS.iter().copied()),
        table("stats", "workers", Scope::Server, WorkerCount::ROWS.iter().copied()),
        table("stats", "server: logs, TLS and region", Scope::Server, {
            ServerCount::ROWS.iter().copied().chain(of_lines(&[WATCHERS, TLS, REGION]))
        }),
        MetricTable {
            absent: names(ABSENT),
            ..table("stats", "engine", Scope::Server, of_lines(&[ENGINE]).into_iter().chain(engine))
        },
        MetricTable { absent: names(&classes::ABSENT), ..table("stats items", "class", Scope::Class, items) },
        table("stats slabs", "class", Scope::Class, lines(SLABS)),
        table("stats slabs", "commands of a class", Scope::CommandsOfClass, by_class),
        table("stats slabs", "engine", Scope::Server, of_lines(&[SLABS_LAST])),
    ]
}
