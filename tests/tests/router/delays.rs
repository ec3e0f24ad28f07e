//! LatencyInjectionRoute: requests and replies that are kept for a time.

use crate::{Router, name};
use guira_sync::clock::Stopwatch;
use guira_tests::Server;
use std::time::Duration;

#[test]
fn requests_and_replies_are_kept_for_a_time_and_others_go_on() {
    let node = Server::start();
    let routes: Vec<String> = [("before", r#""before_latency_ms": 60"#), ("after", r#""after_latency_ms": 60"#)]
        .into_iter()
        .chain([("total", r#""total_latency_ms": 60"#), ("all", r#""before_latency_ms": 20, "after_latency_ms": 40"#)])
        .map(|(name, delay)| {
            format!(
                r#"{{"aliases": ["/slow/{name}/"], "route": {{"type": "LatencyInjectionRoute", "child": "PoolRoute|A", {delay}}}}}"#
            )
        })
        .collect();
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "routes": [{{"aliases": ["/a/b/"], "route": "PoolRoute|A"}}, {}]}}"#,
        name(&node),
        routes.join(", ")
    );
    let router = Router::start(&["--config-str", &configuration, "-R", "/a/b/"]);
    let mut client = router.connect();
    client.set("k", "v");
    for route in ["before", "after", "total", "all"] {
        let since = Stopwatch::start();
        client.exchange(
            format!("get /slow/{route}/k /slow/{route}/none\r\n"),
            format!("VALUE /slow/{route}/k 0 1\r\nv\r\nEND\r\n"),
        );
        let took = since.elapsed();
        assert!(took >= Duration::from_millis(60), "{route}: {took:?}");
    }
    assert_eq!(client.stats("")["latency_injected_count"], "10");
    // Another client of the same thread is not kept.
    let mut slow = router.connect();
    slow.send("set /slow/all/k 0 0 3\r\nnew\r\n");
    client.expect_value("k", "v");
    slow.hear("STORED\r\n");
    client.expect_value("k", "new");
}
