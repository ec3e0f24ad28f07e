//! The metrics that dashboards and alerts of others ask for are there: those in the queries of Grafana's memcached mixin
//! (grafana/jsonnet-libs, memcached-mixin: dashboards.libsonnet and alerts.libsonnet), with the labels that they select and group by.

use super::with_admin;
use guira_tests::http::HttpClient;
use guira_tests::openmetrics::{Form, Scrape};

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
