//! The dashboards of deploy/grafana, made of tables of panels. The text of a panel is what the tables of metrics say of
//! the metrics in its queries.

mod invalidator;
mod node;
mod router;

use std::collections::BTreeMap;

use guira_server::Family;
use serde_json::{Value, json};

/// A dashboard.
#[derive(Debug)]
struct Dashboard {
    /// The name of its file.
    file: &'static str,
    title: &'static str,
    /// A metric that each instance has: it gives the list of instances.
    of_all: &'static str,
    rows: &'static [Row],
}

#[derive(Debug)]
struct Row(&'static str, &'static [Panel]);

/// A graph: its title, its unit, and queries with the legends of their series.
///
/// In a query `$i` selects the chosen instances, and `$r` is an interval with several scrapes.
#[derive(Debug)]
struct Panel(&'static str, Unit, &'static [(&'static str, &'static str)]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    PerSecond,
    Share,
    Seconds,
    Bytes,
    BytesPerSecond,
    Flag,
}

impl Unit {
    /// As Grafana calls it.
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "short",
            Unit::PerSecond => "cps",
            Unit::Share => "percentunit",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "Bps",
            Unit::Flag => "bool_yes_no",
        }
    }
}

/// Columns of Grafana's grid, and the size of a panel in it.
const GRID: usize = 24;
const WIDTH: usize = 8;
const HEIGHT: usize = 7;

/// The version of Grafana's format that the files are written in; later versions read it.
const SCHEMA: u32 = 36;

/// The files, with their names.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let meanings = meanings();
    [&node::DASHBOARD, &router::DASHBOARD, &invalidator::DASHBOARD]
        .into_iter()
        .map(|dashboard| (dashboard.file, format!("{:#}\n", dashboard.json(&meanings))))
        .collect()
}

/// What the tables say of each metric in `/metrics`.
fn meanings() -> BTreeMap<String, &'static str> {
    let tables = guira_server::metric_tables().into_iter().chain(guira_router::metric_tables());
    let mut meanings = BTreeMap::new();
    for table in tables {
        for (metric, exported) in table.metrics.iter().zip(&table.exported) {
            if let Some(name) = exported.as_deref().and_then(|name| name.split('{').next()) {
                meanings.entry(name.to_owned()).or_insert(metric.meaning);
            }
        }
    }
    let invalidator = guira_invalidator::families();
    for Family { name, meaning, kind, .. } in
        guira_server::DERIVED.iter().chain(guira_router::FAMILIES).chain(&invalidator)
    {
        let name = if *kind == "histogram" { format!("{name}_bucket") } else { (*name).to_owned() };
        meanings.insert(name, meaning);
    }
    meanings
}

/// The names of metrics in a query, each once.
fn metrics(query: &str) -> Vec<&str> {
    let words = query.split(|byte: char| !(byte.is_ascii_alphanumeric() || byte == '_'));
    let mut names = Vec::new();
    for word in words.filter(|word| word.starts_with("guira_") || word.starts_with("memcached_")) {
        if !names.contains(&word) {
            names.push(word);
        }
    }
    names
}

/// A query as Grafana sends it, but for its variables.
fn expanded(query: &str) -> String {
    query.replace("$i", "instance=~\"$instance\"").replace("$r", "$__rate_interval")
}

impl Dashboard {
    fn json(&self, meanings: &BTreeMap<String, &'static str>) -> Value {
        let (mut panels, mut top) = (Vec::new(), 0);
        for Row(title, row) in self.rows {
            let place = json!({"x": 0, "y": top, "w": GRID, "h": 1});
            panels.push(json!({"type": "row", "id": panels.len() + 1, "title": title, "gridPos": place, "collapsed": false, "panels": []}));
            top += 1;
            for (number, panel) in row.iter().enumerate() {
                let per_line = GRID / WIDTH;
                let (x, y) = (number % per_line * WIDTH, top + number / per_line * HEIGHT);
                let place = json!({"x": x, "y": y, "w": WIDTH, "h": HEIGHT});
                panels.push(panel.json(panels.len() + 1, place, meanings));
            }
            top += row.len().div_ceil(GRID / WIDTH) * HEIGHT;
        }
        let instances = format!("label_values({}, instance)", self.of_all);
        let uid = self.file.trim_end_matches(".json");
        json!({
            "uid": uid,
            "title": self.title,
            "description": "Made by cargo xtask docs: change the tables in bin/program/src/docs/dashboards instead.",
            "tags": ["guira"],
            "schemaVersion": SCHEMA,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance", "label": "Instance", "type": "query", "datasource": source(),
                    "query": {"query": instances, "refId": "instances"}, "definition": instances,
                    "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
                    "current": {"text": ["All"], "value": ["$__all"]},
                },
            ]},
            "annotations": {"list": []},
            "panels": panels,
        })
    }
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

impl Panel {
    fn json(&self, id: usize, place: Value, meanings: &BTreeMap<String, &'static str>) -> Value {
        let Panel(title, unit, queries) = self;
        let mut names: Vec<&str> = Vec::new();
        for name in queries.iter().flat_map(|(query, _)| metrics(query)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let lines = names.iter().filter_map(|name| Some(format!("`{name}`: {}", meanings.get(*name)?)));
        let targets = ('A'..).zip(*queries).map(|(letter, (query, legend))| {
            let (letter, query) = (letter.to_string(), expanded(query));
            json!({"refId": letter, "datasource": source(), "expr": query, "legendFormat": legend})
        });
        json!({
            "type": "timeseries",
            "id": id,
            "title": title,
            "description": lines.collect::<Vec<_>>().join("\n\n"),
            "datasource": source(),
            "gridPos": place,
            "fieldConfig": {
                "defaults": {"unit": unit.name(), "min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}},
                "overrides": [],
            },
            "options": {
                "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn dashboards() -> [&'static Dashboard; 3] {
        [&node::DASHBOARD, &router::DASHBOARD, &invalidator::DASHBOARD]
    }

    #[test]
    fn the_files_are_current() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana");
        for (name, text) in files() {
            let present = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(present == text, "deploy/grafana/{name} is not current: run cargo xtask docs");
        }
    }

    #[test]
    fn every_metric_in_a_query_is_in_the_tables() {
        let meanings = meanings();
        for dashboard in dashboards() {
            assert!(meanings.contains_key(dashboard.of_all), "{}", dashboard.of_all);
            for Panel(title, _, queries) in dashboard.rows.iter().flat_map(|Row(_, panels)| *panels) {
                for (query, _) in *queries {
                    let names = metrics(query);
                    assert!(!names.is_empty(), "{title}: {query}");
                    for name in names {
                        assert!(meanings.contains_key(name), "{title} asks for {name}, which is in no table");
                    }
                    let selected = query.matches("$i").count();
                    assert_eq!(
                        selected,
                        query.matches('{').count(),
                        "{title} selects all instances: {query}"
                    );
                }
            }
        }
    }

    #[test]
    fn panels_have_titles_of_their_own_and_a_text() {
        for (name, text) in files() {
            let json: Value = serde_json::from_str(&text).unwrap();
            let panels = json["panels"].as_array().unwrap();
            let graphs = || panels.iter().filter(|panel| panel["type"] == "timeseries");
            let titles: BTreeSet<&str> = graphs().filter_map(|panel| panel["title"].as_str()).collect();
            assert!(titles.len() > 8 && titles.len() == graphs().count(), "{name}: {titles:?}");
            assert!(graphs().all(|panel| panel["description"].as_str().is_some_and(|text| text.len() > 10)));
            let numbers: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
            assert_eq!(numbers.len(), panels.len(), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_queries() {
        let query =
            r#"sum by (instance) (rate(guira_a_total{x="y",$i}[$r])) / memcached_b{$i} + guira_a_total{$i}"#;
        assert_eq!(metrics(query), ["guira_a_total", "memcached_b"]);
        assert_eq!(expanded("rate(a{$i}[$r])"), "rate(a{instance=~\"$instance\"}[$__rate_interval])");
    }
}
