//! Random requests to a router in front of four nodes and to memcached: the replies agree.

use guira_tests::{Server, Setup, differential, skip};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const COUNT: usize = 3000;

const POOL: &str = r#"{
    "pools": { "A": { "servers": ["%0", "%1", "%2", "%3"] } },
    "route": "PoolRoute|A"
}"#;

#[test]
fn random_requests_are_answered_as_memcached_does() {
    let Some(peer) = Setup::new().start_peer() else {
        skip::say("memcached is not installed");
        return;
    };
    let nodes = (0..4).map(|_| Server::start()).collect();
    let router = Setup::new().start_router(POOL, nodes);
    for seed in SEEDS {
        if let Err(report) = differential::compare(&router, &peer, seed, COUNT) {
            panic!("{report}");
        }
    }
}
