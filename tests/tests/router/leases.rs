//! Leases through a router: tokens, and what makes items on a miss.

use crate::{Router, name, stop};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::{Client, Server};

fn pools(one: &Server, other: &Server) -> String {
    format!(r#""pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}}"#, name(one), name(other))
}

fn token(client: &mut Client, key: &str) -> String {
    client.send(format!("lease-get {key}\r\n"));
    let line = client.line();
    client.hear("\r\nEND\r\n");
    let mut words = line.split(' ');
    assert_eq!((words.next(), words.next()), (Some("LVALUE"), Some(key)), "{line}");
    words.next().expect("a token").to_owned()
}

#[test]
fn a_lease_set_goes_to_the_server_that_has_given_the_lease() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{{}, "route": {{"type": "FailoverRoute", "name": "r", "enable_lease_pairing": true, "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#,
        pools(&one, &other)
    );
    let router = Router::start(&[
        "--config-str",
        &configuration,
        "--num-proxies",
        "2",
        "--server-timeout-ms",
        "500",
        "--timeouts-until-tko",
        "1",
        "--probe-timeout-initial-ms",
        "50",
        "--probe-timeout-max-ms",
        "100",
    ]);
    let (mut client, mut another) = (router.connect(), router.connect());
    client.set("other", "x");
    stop(&one);
    let given = token(&mut client, "k");
    one.signal("CONT");
    let is_back = || {
        let mut direct = router.connect();
        let suspects = direct.stats("")["num_soft_tko_count"].clone();
        (suspects == "0").then_some(())
    };
    Deadline::after(PATIENCE).poll(is_back).expect("the first server is back");
    // By another connection, and another thread.
    another.exchange(format!("lease-set k {given} 0 0 1\r\nv\r\n"), "STORED\r\n");
    other.connect().expect_value("k", "v");
    one.connect().exchange("get k\r\n", "END\r\n");
    assert_eq!(client.stats("")["redirected_lease_set_count"], "1");
    // Of the first server, tokens are its own.
    let given = token(&mut client, "l");
    client.exchange(format!("lease-set l {given} 0 0 1\r\nw\r\n"), "STORED\r\n");
    one.connect().expect_value("l", "w");
    assert_eq!(client.stats("")["redirected_lease_set_count"], "1");
}

#[test]
fn a_meta_get_that_makes_an_item_is_a_lease_get() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{{}, "route": {{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {{"lease-get": "PoolRoute|B"}}}}}}"#,
        pools(&one, &other)
    );
    let router = Router::start(&["--config-str", &configuration]);
    let mut client = router.connect();
    client.exchange("mg k v\r\n", "EN\r\n");
    client.exchange("mg k v N30\r\n", "VA 0 W\r\n\r\n");
    client.exchange("mg k v N30 T60\r\n", "VA 0 Z\r\n\r\n");
    one.connect().exchange("mg k v\r\n", "EN\r\n");
    let counts = client.stats("count");
    assert_eq!((counts["cmd_lease_get_count"].as_str(), counts["cmd_gat_count"].as_str()), ("2", "0"));
}

#[test]
fn a_meta_get_that_makes_an_item_makes_it_once() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{{}, "route": {{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 8, "first_hit": true}}}}"#,
        pools(&one, &other)
    );
    let router = Router::start(&["--config-str", &configuration]);
    let mut client = router.connect();
    client.exchange("mg k v N30\r\n", "VA 0 W\r\n\r\n");
    client.exchange("ms k 1 T0\r\nv\r\nmg k v N30\r\n", "HD\r\nVA 1\r\nv\r\n");
    let mut direct = one.connect();
    let keys: Vec<String> =
        (0..8).map(|number| if number == 0 { "k".into() } else { format!("k::{number}") }).collect();
    let made = keys.iter().filter(|key| direct.ask(format!("mg {key}\r\n")) == "HD").count();
    assert_eq!(made, 1);
}
