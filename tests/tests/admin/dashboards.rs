//! The metrics that dashboards and alerts of others ask for are there: those in the queries of Grafana's memcached mixin
//! (grafana/jsonnet-libs, memcached-mixin: dashboards.libsonnet and alerts.libsonnet), with the labels that they select and group by.
//! The dashboards of deploy/grafana find data in a Prometheus that scrapes the programs.

use super::with_admin;
use guira_harness::server::ServerProcess;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::http::HttpClient;
use guira_tests::openmetrics::{Form, Scrape};
use guira_tests::prometheus::Prometheus;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira, spawn};
use guira_tests::tls::Certificate;
use guira_tests::{Client, Setup, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Metrics with labels, of which each query needs at least one sample.
const QUERIED: [(&str, &[(&str, &str)]); 12] = [
    ("memcached_commands_total", &[("command", "get"), ("status", "hit")]),
    ("memcached_commands_total", &[("command", "get"), ("status", "miss")]),
    ("memcached_items_evicted_total", &[]),
    ("memcached_items_total", &[]),
    ("memcached_current_bytes", &[]),
    ("memcached_limit_bytes", &[]),
    ("memcached_current_items", &[]),
    ("memcached_connections_total", &[]),
    ("memcached_max_connections", &[]),
    ("memcached_read_bytes_total", &[]),
    ("memcached_written_bytes_total", &[]),
    ("memcached_up", &[]),
];

#[test]
fn grafanas_dashboard_finds_what_it_asks_for() {
    let (_server, address) = with_admin(&[]);
    let body = HttpClient::connect(address).get("/metrics", "").body;
    let scrape = Scrape::read(&body, Form::Classic).unwrap_or_else(|why| panic!("{why}"));
    for (name, labels) in QUERIED {
        scrape.value(name, labels);
    }
    assert_eq!(scrape.value("memcached_up", &[]), 1.0);
    assert!(scrape.samples.contains_key(&("memcached_uptime_seconds".to_owned(), Default::default())));
    let (version, _) = scrape.named("memcached_version").next().expect("a version");
    assert!(version["version"].starts_with("1.6."), "{version:?}");
}

/// Queries that find nothing here, since the source of the invalidator is no database.
const OF_DATABASES: [&str; 1] = ["guira_invalidator_lag_bytes"];

/// The queries of a dashboard, as Grafana sends them.
fn queries(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let dashboard: Value = serde_json::from_str(&text).expect(name);
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    queries.map(|query| query.replace("$instance", ".*").replace("$__rate_interval", "20s")).collect()
}

/// Whether a query gives a number.
fn has_data(prometheus: &Prometheus, query: &str) -> bool {
    let series = prometheus.query(query).unwrap_or_else(|why| panic!("{why}"));
    series.iter().any(|one| one["value"][1].as_str().is_some_and(|value| value != "NaN"))
}

/// A router before a node, and an invalidator that deletes there, with the path for its events.
fn others(scratch: &Scratch, node: &str) -> [ServerProcess; 2] {
    let config = format!(r#"{{"pools": {{"all": {{"servers": ["{node}"]}}}}, "route": "PoolRoute|all"}}"#);
    let router =
        spawn(guira(["router", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--config-str", &config]));
    let text = format!(
        r#"
admin = "127.0.0.1:0"
spool = {:?}
[source.debezium]
listen = "unix:{}"
[[template]]
schema = "public"
table = "users"
keys = ["user:{{id}}"]
[[target]]
name = "node"
address = "{node}"
"#,
        scratch.file("spool"),
        scratch.file("events").display()
    );
    let mut invalidator = guira(["invalidate", "--config"]);
    invalidator.arg(scratch.write("invalidator.toml", &text));
    [router, spawn(invalidator)]
}

/// The jobs of the example for the collector of OpenTelemetry, which scrapes as Prometheus does, at these addresses. Jobs that the example
/// does not have are added to it.
fn collector_jobs(jobs: &[(&str, SocketAddr)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/otel-collector.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let indent = "      ";
    let (_, block) = text.split_once(&format!("\n{indent}scrape_configs:\n")).expect("jobs");
    let (block, _) = block.split_once("\n\n").expect("an end of the jobs");
    let mut left: Vec<_> = jobs.to_vec();
    let mut out = "scrape_configs:\n".to_owned();
    let mut target = None;
    for line in block.lines() {
        let line = line.strip_prefix(indent).expect(line);
        if let Some(name) = line.trim().strip_prefix("- job_name: ") {
            let at = left.iter().position(|(job, _)| *job == name).expect(name);
            target = Some(left.remove(at).1);
        }
        let line = match line.split_once("targets: ") {
            Some((before, _)) => format!("{before}targets: [\"{}\"] }}]", target.take().expect("a job")),
            None => line.replace("scrape_interval: 30s", "scrape_interval: 1s"),
        };
        out.push_str(&line);
        out.push('\n');
    }
    for (job, target) in left {
        out.push_str(&format!("  - {{job_name: {job}, static_configs: [{{targets: [\"{target}\"]}}]}}\n"));
    }
    out
}

/// Some of what clients do.
fn work(client: &mut Client) {
    for number in 0..200 {
        client.exchange(format!("set key{number} 0 0 1\r\nx\r\n"), "STORED\r\n");
        client.exchange(format!("get key{number}\r\n"), format!("VALUE key{number} 0 1\r\nx\r\nEND\r\n"));
    }
    client.exchange("get none\r\n", "END\r\n");
    client.exchange("delete none\r\n", "NOT_FOUND\r\n");
}

#[test]
fn our_dashboards_find_data_in_prometheus() {
    let (server, node) = with_admin(&[]);
    let Address::Tcp(address) = server.address() else { panic!("a TCP address") };
    let scratch = Scratch::new();
    let [mut router, mut invalidator] = others(&scratch, &address.to_string());
    // Counters of TLS are there with TLS.
    let certificate = Certificate::issue();
    let setup = certificate.given_to(Setup::new().guira_argument("--admin=notls:127.0.0.1:0"));
    let mut secured = setup.start_guira();
    let jobs = [
        ("guira", node),
        ("guira-tls", secured.admin_address()),
        ("guira-router", router.wait_for_address("admin", PATIENCE).unwrap()),
        ("guira-invalidator", invalidator.wait_for_address("admin", PATIENCE).unwrap()),
    ];
    let Some(prometheus) = Prometheus::start(&collector_jobs(&jobs)) else {
        return skip::say("prometheus is not installed");
    };
    let routed = Address::Tcp(router.wait_for_address("", PATIENCE).unwrap());
    let mut clients = [server.connect(), Client::connect(&routed)];
    let events = Deadline::after(PATIENCE).poll(|| UnixStream::connect(scratch.file("events")).ok());
    let mut events = events.expect("it listens");
    let mut left: BTreeSet<String> = ["guira-node.json", "guira-router.json", "guira-invalidator.json"]
        .into_iter()
        .flat_map(queries)
        .collect();
    let all = left.len();
    assert!(all > 80, "{all} queries");
    left.retain(|query| !OF_DATABASES.iter().any(|metric| query.contains(metric)));
    assert_eq!(left.len(), all - OF_DATABASES.len());
    let done = Deadline::after(PATIENCE).poll(|| {
        clients.iter_mut().for_each(work);
        let event = r#"{"op":"u","source":{"db":"shop","schema":"public","table":"users"},"before":{"id":1},"after":{"id":1}}"#;
        writeln!(events, "{event}").expect("it takes lines");
        left.retain(|query| !has_data(&prometheus, query));
        left.is_empty().then_some(())
    });
    assert!(done.is_some(), "queries without data: {left:#?}");
}
