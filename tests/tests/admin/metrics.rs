//! `/metrics`: well formed in both forms, the same figures as `stats`, and histograms of what was asked.

use super::with_admin;
use guira_tests::Setup;
use guira_tests::http::HttpClient;
use guira_tests::openmetrics::{Form, Labels, Scrape};
use guira_tests::scratch::Scratch;
use std::net::SocketAddr;

const NEW: &str =
    "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";

pub(super) fn scrape(address: SocketAddr) -> Scrape {
    let reply = HttpClient::connect(address).get("/metrics", NEW);
    assert_eq!(reply.status, 200);
    assert!(reply.has("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    Scrape::read(&reply.body, Form::OpenMetrics).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn both_forms_are_well_formed_and_show_the_same() {
    let (server, address) = with_admin(&[]);
    let mut client = server.connect();
    client.exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    let new = scrape(address);
    let reply = HttpClient::connect(address).get("/metrics", "Accept: text/plain\r\n");
    assert!(reply.has("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
    let old = Scrape::read(&reply.body, Form::Classic).unwrap_or_else(|why| panic!("{why}"));
    assert!(new.samples.keys().eq(old.samples.keys()), "the same samples in both");
    assert_eq!(new.types["memcached_commands"], "counter");
    assert_eq!(old.types["memcached_commands_total"], "counter");
    assert_eq!(new.types["guira_command_duration_seconds"], "histogram");
}

#[test]
fn figures_are_those_of_stats() {
    let (server, address) = with_admin(&[]);
    let mut client = server.connect();
    for (request, reply) in [
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("set n 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("get a b\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("incr n 1\r\n", "6\r\n"),
        ("decr q 1\r\n", "NOT_FOUND\r\n"),
        ("cas a 0 0 1 999999\r\nx\r\n", "EXISTS\r\n"),
        ("touch n 100\r\n", "TOUCHED\r\n"),
        ("delete b\r\n", "NOT_FOUND\r\n"),
        ("mg a v\r\n", "VA 1\r\nx\r\n"),
    ] {
        client.exchange(request, reply);
    }
    let metrics = scrape(address);
    let stats = client.stats("");
    let number = |name: &str| stats[name].parse::<f64>().unwrap();
    let command = |command, status| {
        metrics.value("memcached_commands_total", &[("command", command), ("status", status)])
    };
    for (command_name, status, stat) in [
        ("get", "hit", "get_hits"),
        ("get", "miss", "get_misses"),
        ("incr", "hit", "incr_hits"),
        ("decr", "miss", "decr_misses"),
        ("cas", "badval", "cas_badval"),
        ("touch", "hit", "touch_hits"),
        ("delete", "miss", "delete_misses"),
        ("flush", "hit", "cmd_flush"),
    ] {
        assert_eq!(command(command_name, status), number(stat), "{stat}");
    }
    assert_eq!(command("set", "hit"), 2.0, "without the cas");
    for (metric, stat) in [
        ("memcached_current_items", "curr_items"),
        ("memcached_current_bytes", "bytes"),
        ("memcached_items_total", "total_items"),
        ("memcached_limit_bytes", "limit_maxbytes"),
        ("memcached_max_connections", "max_connections"),
        ("memcached_current_connections", "curr_connections"),
        ("guira_memory_limit_bytes", "memory_limit"),
        ("guira_threads", "threads"),
    ] {
        assert_eq!(metrics.value(metric, &[]), number(stat), "{metric}");
    }
    let parts: f64 = metrics.named("guira_memory_part_bytes").map(|(_, bytes)| bytes).sum();
    assert_eq!(parts, number("limit_maxbytes"), "the parts are the whole");
    let by_worker: f64 = metrics.named("guira_worker_gets_total").map(|(_, gets)| gets).sum();
    assert_eq!((metrics.named("guira_worker_gets_total").count(), by_worker), (2, number("cmd_get")));
    let items: f64 = metrics.named("memcached_slab_current_items").map(|(_, items)| items).sum();
    assert_eq!(items, number("curr_items"));
}

/// One command of every 32 of a kind is counted by class, and one of them may be counted before the other.
#[test]
fn what_is_stored_without_cas_never_becomes_less() {
    let (server, address) = with_admin(&["--workers=1"]);
    let mut client = server.connect();
    let sets = || {
        let metrics = scrape(address);
        let sets = |name: &str| -> f64 {
            let is =
                |labels: &Labels, name: &str, value: &str| labels.get(name).is_some_and(|it| it == value);
            let all = metrics.named(name);
            all.filter(|(labels, _)| is(labels, "command", "set") && is(labels, "status", "hit"))
                .map(|(_, value)| value)
                .sum()
        };
        (sets("memcached_commands_total"), sets("memcached_slab_commands_total"))
    };
    for _ in 0..33 {
        client.exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    }
    let mut store_with_cas = || {
        let unique = client.cas("a");
        client.exchange(format!("cas a 0 0 1 {unique}\r\nx\r\n"), "STORED\r\n");
    };
    (0..31).for_each(|_| store_with_cas());
    assert_eq!(sets(), (33.0, 32.0));
    store_with_cas();
    assert_eq!(sets(), (33.0, 32.0));
}

#[test]
fn service_times_are_measured_of_each_command_and_shown_by_stats_latency_too() {
    let (server, address) = with_admin(&[]);
    let mut client = server.connect();
    let sets = b"set a 0 0 1\r\nx\r\n".repeat(3200);
    client.exchange_at_once(&sets, &b"STORED\r\n".repeat(3200));
    for _ in 0..400 {
        client.exchange("get a b c\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
    let metrics = scrape(address);
    let count = |command| metrics.value("guira_command_duration_seconds_count", &[("command", command)]);
    // One batch in 16 of 400, about; batches of sets are of up to 64, so that few of them are measured, and all of what is in them.
    assert!((15.0..=45.0).contains(&count("get")), "{} gets", count("get"));
    assert!(count("set") > 0.0 && count("set") <= 3200.0, "{} sets", count("set"));
    assert_eq!(count("delete"), 0.0);
    assert!(metrics.value("guira_queue_duration_seconds_count", &[]) > 10.0);
    assert!(metrics.value("guira_round_duration_seconds_count", &[]) > 10.0);
    let sum = metrics.value("guira_command_duration_seconds_sum", &[("command", "get")]);
    assert!(sum > 0.0 && sum < 10.0, "{sum} s");
    let latency = client.stats("latency");
    assert_eq!(latency["get:samples"].parse::<f64>().unwrap(), count("get"));
    let times = ["p50_us", "p90_us", "p99_us", "p999_us"]
        .map(|name| latency[&format!("get:{name}")].parse::<f64>().unwrap());
    assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
    assert!(!latency.contains_key("delete:samples"), "none was measured");
}

#[test]
fn a_warm_start_is_told_with_the_items_that_came_back() {
    let scratch = Scratch::new();
    let region = format!("--region={}", scratch.path().join("region").display());
    let (server, address) = with_admin(&[&region]);
    let new = scrape(address);
    assert_eq!(new.value("guira_start_info", &[("start", "cold"), ("region", "new")]), 1.0);
    server.connect().exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    server.stop("TERM");
    let (_server, address) = with_admin(&[&region]);
    let warm = scrape(address);
    assert_eq!(warm.value("guira_start_info", &[("start", "warm"), ("region", "restored")]), 1.0);
    assert_eq!(warm.value("guira_restored_items", &[]), 1.0);
}

#[test]
fn another_policy_is_told() {
    let setup =
        Setup::new().engine("memc3").guira_argument("--policy=clock:bits=1").guira_argument("--admin=0");
    let mut server = setup.start_guira();
    let address = server.admin_address();
    assert_eq!(
        scrape(address).value("guira_policy_info", &[("policy", "clock"), ("options", "bits=1")]),
        1.0
    );
    server.connect().exchange("policy lru\r\n", "OK\r\n");
    let metrics = scrape(address);
    let named = metrics.named("guira_policy_info").next().unwrap().0["policy"].clone();
    assert!(named == "lru" || metrics.value("guira_policy_switching", &[]) == 1.0, "{named}");
}
