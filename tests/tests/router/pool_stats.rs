//! Statistics of pools in files: requests to their servers, and requests of clients that came to them first.

use crate::upstream::scripted;
use crate::{Router, name};
use guira_harness::port::refusing_address;
use guira_tests::Setup;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use std::fs;

/// A router that writes statistics of the pools `one` and `two`: requests go to the second where the first fails.
struct Counting {
    router: Router,
    scratch: Scratch,
}

impl Counting {
    #[track_caller]
    fn start(one: &str, two: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let (root, pools) = (scratch.file("stats"), scratch.file("pools.json"));
        scratch.write("pools.json", r#"{"stats_enabled_pools": ["one", "two"]}"#);
        let config = format!(
            r#"{{"pools": {{"one": {{"servers": ["{one}"]}}, "two": {{"servers": ["{two}"]}}}},
                "route": {{"type": "FailoverRoute", "children": ["PoolRoute|one", "PoolRoute|two"]}}}}"#
        );
        let files = ["--stats-root", root.to_str().unwrap(), "--stats-logging-interval=20"];
        let pools = ["--pool-stats-config-file", pools.to_str().unwrap()];
        let all = [&["--config-str", &*config][..], &files, &pools, options].concat();
        Counting { router: Router::start_as("mcrouter", &all), scratch }
    }

    /// Waits until the file says this of a pool. Returns the numbers of both pools by name.
    fn wait_for(&self, line: &str) -> serde_json::Value {
        wait_for(line, || {
            let path = self.scratch.file("stats").join("libmcrouter.mcrouter.0.stats");
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = format!("\"libmcrouter.mcrouter.0.{line}");
            let is_there = text.lines().any(|known| known.trim().trim_end_matches(',') == line);
            is_there.then(|| serde_json::from_str(&text).unwrap())
        })
    }
}

fn number(stats: &serde_json::Value, name: &str) -> u64 {
    stats[format!("libmcrouter.mcrouter.0.{name}")].as_u64().expect(name)
}

#[test]
fn the_statistics_of_pools_count_what_clients_are_told_for_the_pool_that_they_came_to_first() {
    let (busy, _server) = scripted(|_, _| Some(b"SERVER_ERROR busy\r\n".to_vec()), 1);
    let second = Setup::new().start_guira();
    let counting = Counting::start(&busy, &name(&second), &["--num-proxies=1"]);
    let mut client = counting.router.connect();
    (0..3).for_each(|_| client.exchange("get k\r\n", "END\r\n"));
    let stats = counting.wait_for("two.requests.sum\": 3");
    for (name, expected) in
        [("one.requests.sum", 3), ("one.final_result_error.sum", 0), ("two.final_result_error.sum", 0)]
    {
        assert_eq!(number(&stats, name), expected, "{name}");
    }
    assert_eq!(number(&stats, "two.total_duration_us.avg"), 0, "no request came to it first");
    assert!(number(&stats, "two.duration_us.avg") > 0 && number(&stats, "one.total_duration_us.avg") > 0);
}

#[test]
fn a_request_that_fails_is_counted_once_and_for_no_pool_that_was_sent_nothing() {
    let (busy, _server) = scripted(|_, _| Some(b"SERVER_ERROR busy\r\n".to_vec()), 1);
    let nowhere = refusing_address().to_string();
    let counting = Counting::start(&nowhere, &busy, &["--num-proxies=1"]);
    let mut client = counting.router.connect();
    // The first is sent to the first pool, in vain, and finds out that its server is unreachable.
    (0..3).for_each(|_| client.exchange("get k\r\n", "SERVER_ERROR busy\r\n"));
    let stats = counting.wait_for("two.final_result_error.sum\": 2");
    assert_eq!(number(&stats, "one.final_result_error.sum"), 1);
}
