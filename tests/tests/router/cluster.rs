//! `config get cluster`, as clients with ElastiCache's auto discovery read it.

use crate::{Router, output};
use guira_tests::dns::Dns;
use guira_tests::server::wait_for;

const NOTHING: &str = r#"{"route": "NullRoute"}"#;

#[test]
fn a_router_tells_of_itself() {
    let before = guira_tests::deadline::unix_seconds();
    let router = Router::start(&["--config-str", NOTHING]);
    let mut client = router.connect();
    let (version, nodes) = client.cluster();
    let port = router.tcp().port();
    assert_eq!(nodes, format!("127.0.0.1|127.0.0.1|{port}"));
    assert!((before..=guira_tests::deadline::unix_seconds()).contains(&version));
    assert_eq!(client.cluster().0, version, "nothing has changed");
    // Other questions are none.
    client
        .exchange("config get\r\nconfig set cluster\r\nconfig get other\r\n", "ERROR\r\nERROR\r\nERROR\r\n");
}

#[test]
fn it_tells_of_the_nodes_that_it_is_told_and_the_version_rises_when_they_change() {
    let dns = Dns::start();
    dns.host("routers.test", &["127.0.0.2"]);
    let router = Router::start(&[
        "--config-str",
        NOTHING,
        "--cluster-nodes=routers.test:5000,[::1]:5001",
        &dns.option(),
    ]);
    let mut client = router.connect();
    let (first, nodes) = client.cluster();
    assert_eq!(nodes, "routers.test|127.0.0.2|5000 ::1|::1|5001");
    dns.host("routers.test", &["127.0.0.3", "127.0.0.2"]);
    let expected = "127.0.0.2|127.0.0.2|5000 127.0.0.3|127.0.0.3|5000 ::1|::1|5001";
    let second = wait_for(expected, || {
        let (version, nodes) = client.cluster();
        (nodes == expected).then_some(version)
    });
    assert!(second > first, "{first} {second}");
}

#[test]
fn a_wrong_node_is_refused() {
    let refused = output(&["--config-str", NOTHING, "-p", "0", "--cluster-nodes=10.0.0.1"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{message}");
    assert!(message.contains("--cluster-nodes: '10.0.0.1' is not a node: use HOST:PORT"), "{message}");
}
