//! `config get cluster` of a node, as clients with ElastiCache's auto discovery read it.

use guira_tests::Setup;
use guira_tests::server::{Address, refused_guira, wait_for};

#[test]
fn a_node_without_the_option_does_not_know_the_command() {
    let server = Setup::new().start_guira();
    server.connect().exchange("config get cluster\r\n", "ERROR\r\n");
}

#[test]
fn a_node_lists_the_nodes_that_it_is_given() {
    let server = Setup::new()
        .guira_argument("--cluster-nodes=10.0.0.1:11211")
        .guira_argument("--cluster-nodes=[::1]:11212")
        .start_guira();
    let mut client = server.connect();
    let (version, nodes) = client.cluster();
    assert_eq!(nodes, "10.0.0.1|10.0.0.1|11211 ::1|::1|11212");
    assert_eq!(client.cluster().0, version, "nothing has changed");
    client.exchange("config get other\r\nconfig set cluster\r\nmn\r\n", "ERROR\r\nERROR\r\nMN\r\n");
}

#[test]
fn names_are_resolved_and_those_that_do_not_resolve_are_listed_without_an_address() {
    let server = Setup::new()
        .guira_argument("--cluster-nodes=localhost:11211")
        .guira_argument("--cluster-nodes=cache..invalid:11212")
        .start_guira();
    let mut client = server.connect();
    wait_for("an address of localhost", || {
        let nodes = client.cluster().1;
        let found = nodes.strip_suffix(" cache..invalid||11212").expect(&nodes);
        (found.contains("127.0.0.1|11211") || found.contains("::1|11211")).then_some(())
    });
    wait_for("a warning", || server.log().contains("cluster node does not resolve").then_some(()));
}

#[test]
fn a_node_with_the_profile_lists_itself() {
    let server = Setup::new().guira_argument("--profile=elasticache").start_guira();
    let Address::Tcp(address) = server.address() else { panic!("a TCP address") };
    let (ip, port) = (address.ip(), address.port());
    assert_eq!(server.connect().cluster().1, format!("{ip}|{ip}|{port}"));
}

#[test]
fn a_wrong_node_is_refused() {
    let (code, message) = refused_guira(&["serve", "--cluster-nodes=10.0.0.1"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("'10.0.0.1' is not a node: use HOST:PORT"), "{message}");
}
