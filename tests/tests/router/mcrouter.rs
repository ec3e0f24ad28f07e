//! What mcrouter counts and logs.

use crate::reload::AT_ONCE;
use crate::{Router, config_of};
use guira_tests::Setup;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for_log;
use std::net::TcpListener;

/// A configuration of one server that does not exist.
fn unreachable() -> String {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!(r#"{{"pools": {{"all": {{"servers": ["{closed}"]}}}}, "route": "PoolRoute|all"}}"#)
}

#[test]
fn a_failed_server_has_two_failures_and_its_departure_is_logged() {
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &unreachable());
    let router = Router::start(&[&["-f", path.to_str().unwrap(), "-v", "2"], &AT_ONCE[..]].concat());
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
    let suspects = client.stats("suspect_servers");
    let (server, status) = suspects.iter().next().expect("one");
    assert_eq!(status, "status:tko num_failures:2");
    scratch.write("config.json", r#"{"route": "NullRoute"}"#);
    wait_for_log(|| router.log(), &format!("{server} was TKO, removed from config"));
}

#[test]
fn counters_of_mcrouter_are_in_stats() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    client.set("a", "1");
    client.exchange("get a\r\nget b\r\n", "VALUE a 0 1\r\n1\r\nEND\r\nEND\r\n");
    let stats = client.stats("");
    let number = |name: &str| stats[name].parse::<f64>().unwrap_or_else(|_| panic!("{name}"));
    assert_eq!(number("destination_requests_sum"), number("request_sent_count"));
    assert!(number("destination_batches_sum") >= 1.0 && number("destination_batch_size") >= 1.0);
    assert!(number("destination_max_inflight_reqs") >= 1.0);
    assert_eq!((number("configs_from_disk"), number("num_ssl_servers")), (0.0, 0.0));
    assert!(number("ps_num_minor_faults") > 0.0);
}
