//! Random requests to a router in front of nodes and to memcached: the replies agree, whatever the routes are that lead to one server.

use guira_tests::{Server, Setup, differential, skip};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const COUNT: usize = 3000;

/// Sends the same to memcached and to a router with this configuration in front of four nodes.
fn compare(configuration: &str) {
    let Some(peer) = Setup::new().start_peer() else {
        skip::say("memcached is not installed");
        return;
    };
    let nodes = (0..4).map(|_| Server::start()).collect();
    let router = Setup::new().start_router(configuration, nodes);
    // A router has statistics of its own, and mcrouter's reply to a group that it does not know.
    let is_of_server = |request: &[u8]| request.starts_with(b"stats");
    for seed in SEEDS {
        if let Err(report) = differential::compare_but(&router, &peer, seed, COUNT, is_of_server) {
            panic!("{report}");
        }
    }
}

#[test]
fn a_pool_answers_as_memcached_does() {
    compare(r#"{ "pools": { "A": { "servers": ["%0", "%1", "%2", "%3"] } }, "route": "PoolRoute|A" }"#);
}

#[test]
fn routes_that_remember_requests_answer_as_memcached_does() {
    compare(
        r#"{
            "pools": { "A": { "servers": ["%0", "%1"] }, "B": { "servers": ["%2", "%3"] } },
            "route": {
                "type": "FailoverRoute",
                "children": [
                    { "type": "AllInitialRoute", "children": ["PoolRoute|A", "PoolRoute|B"] },
                    "NullRoute"
                ]
            }
        }"#,
    );
}

#[test]
fn prefixes_and_operations_answer_as_memcached_does() {
    compare(
        r#"{
            "pools": { "A": { "servers": ["%0", "%1"], "hash": "Crc32" }, "B": { "servers": ["%2"] } },
            "route": {
                "type": "PrefixSelectorRoute",
                "policies": {
                    "a": { "type": "OperationSelectorRoute", "default_policy": "PoolRoute|A" },
                    "n": { "type": "MissFailoverRoute", "children": ["PoolRoute|B"] }
                },
                "wildcard": { "type": "HashRoute", "children": ["PoolRoute|A", "PoolRoute|B"] }
            }
        }"#,
    );
}
