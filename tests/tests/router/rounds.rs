//! What many clients send while the router stands still arrives in one round.

use guira_tests::server::Setup;
use guira_tests::{Server, rounds};

/// A router with one worker before two nodes.
fn router() -> Server {
    let setup = Setup::new().options(&["--num-proxies", "1"]);
    let nodes = vec![Server::start(), Server::start()];
    setup.start_router(r#"{"pools": {"A": {"servers": ["%0", "%1"]}}, "route": "PoolRoute|A"}"#, nodes)
}

#[test]
fn each_client_gets_its_own_replies() {
    rounds::each_client_gets_its_own_replies(&router());
}

#[test]
fn a_client_that_leaves_takes_nothing_from_the_others() {
    rounds::a_client_that_leaves_takes_nothing_from_the_others(&router());
}

#[test]
fn a_client_that_does_not_read_delays_nobody_and_loses_nothing() {
    rounds::a_client_that_does_not_read_delays_nobody_and_loses_nothing(&router());
}
