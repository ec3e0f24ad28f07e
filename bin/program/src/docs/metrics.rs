//! docs/reference/metrics.md, made of the rows of all counters and gauges.

use guira_server::{DERIVED, Family, Kind, Metric, MetricTable, Unit, metric_tables};
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

<!-- Made by `cargo xtask docs`: change the tables in the code instead. ARCHITECTURE.md says where they are. -->

The lines of `stats`, `stats items` and `stats slabs`, by name.

- Counters count since the start or the last `stats reset`. A region keeps the counters of commands,
  workers, classes and the engine across a restart. Gauges show the present value.
- Counts of commands by class are estimates from one command in 32.
- Names that memcached has too mean the same, except those in [replacing
  memcached](../guide/replacing-memcached.md#figures).
- [Run](../guide/run.md#what-to-watch) lists the figures to watch. [Tune](../guide/tune.md)
  describes `stats mrc` and `stats bursts`.

The last column is the name in `/metrics` of [the admin
listener](../guide/run.md#metrics-and-the-admin-page): that of prometheus/memcached_exporter if the
exporter has the same figure, with the label `slab` for each class; otherwise `guira_…`.
";

const DERIVED_HEAD: &str = "
## `/metrics` only

Figures that the exporter computes or takes from `stats settings`, and figures without a line in
`stats`. Histograms are those of `stats latency`.

| name | meaning | labels | type |
|---|---|---|---|
";

const ROUTER_HEAD: &str = "
# Metrics of the router

The lines of `stats` of `guira router`, with mcrouter's names where mcrouter has them. mcrouter's
rates do not exist, such as `failover_all`: `failover_all_count` is the count. Counters count since
the start. A *server* is a server of the configuration with its connections, one per thread. The
last column is the name in `/metrics` of [the router's admin
listener](../guide/replacing-mcrouter.md#metrics-over-http), where each server and pool has labels.
";

const ROUTER_FAMILIES_HEAD: &str = "
## `/metrics` of the router only

| name | meaning | labels | type |
|---|---|---|---|
";

const INVALIDATOR_HEAD: &str = "
# Metrics of the invalidator

`/metrics` of [`guira invalidate`](../guide/invalidator.md). Counters count since the start.

| name | meaning | labels | type |
|---|---|---|---|
";

const CHECKER_HEAD: &str = "
# Metrics of the checker

`/metrics` of [`guira check`](../guide/checker.md). Counters count since the start.

| name | meaning | labels | type |
|---|---|---|---|
";

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
        Unit::Microseconds => "microseconds",
        Unit::Flag => "0 or 1",
        Unit::Text => "text",
    }
}

pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    metric_tables().iter().for_each(|table| add_table(&mut text, table));
    text.push_str(DERIVED_HEAD);
    add_families(&mut text, DERIVED);
    text.push_str(ROUTER_HEAD);
    guira_router::metric_tables().iter().for_each(|table| add_table(&mut text, table));
    text.push_str(ROUTER_FAMILIES_HEAD);
    add_families(&mut text, guira_router::FAMILIES);
    text.push_str(INVALIDATOR_HEAD);
    add_families(&mut text, &guira_invalidator::families());
    text.push_str(CHECKER_HEAD);
    add_families(&mut text, &guira_checker::families());
    text
}

fn add_table(text: &mut String, table: &MetricTable) {
    let _ = write!(
        text,
        "\n## `{}`: {}\n\n| name | meaning | unit | kind | in `/metrics` |\n|---|---|---|---|---|\n",
        table.command, table.scope
    );
    for (metric, exported) in table.metrics.iter().zip(&table.exported) {
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        let exported = exported.as_ref().map_or_else(String::new, |name| format!("`{name}`"));
        let Metric { name, meaning, .. } = metric;
        let _ = writeln!(text, "| `{name}` | {meaning} | {} | {kind} | {exported} |", unit(metric.unit));
    }
    if !table.absent.is_empty() {
        let names = table.absent.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "\nAlways 0, because Guira has nothing to count here: {names}.");
    }
}

fn add_families(text: &mut String, families: &[Family]) {
    for Family { name, labels, meaning, kind } in families {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| `{name}` | {meaning} | {labels} | {kind} |");
    }
}

#[cfg(test)]
mod tests {
    use guira_server::metric_tables;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_is_current() {
        let document = include_str!("../../../../docs/reference/metrics.md");
        assert!(
            document == super::markdown(),
            "docs/reference/metrics.md is not current: run cargo xtask docs"
        );
    }

    #[test]
    fn a_command_shows_each_name_once() {
        for tables in [metric_tables(), guira_router::metric_tables()] {
            let mut names = BTreeSet::new();
            for table in tables {
                for name in table.metrics.iter().map(|metric| metric.name).chain(table.absent) {
                    assert!(names.insert((table.command, name)), "{name} twice in {}", table.command);
                }
            }
        }
    }
}
