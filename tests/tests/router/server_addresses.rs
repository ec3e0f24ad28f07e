//! Servers elsewhere than at an IPv4 address.

use crate::{Router, config_of};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::scratch::Scratch;
use guira_tests::{Setup, skip};
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn a_server_on_a_unix_socket_is_reached() {
    let scratch = Scratch::new();
    let node = Setup::new().unix_socket(&scratch.file("node.sock")).start_guira();
    let router = Router::start(&["--config-str", &config_of(&node)]);
    let mut client = router.connect();
    client.exchange("set key 0 0 5\r\nvalue\r\nget key\r\n", "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n");
    node.stop("KILL");
    let is_out = || match &*client.ask("get key\r\n") {
        "SERVER_ERROR connection error" => None,
        "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error" => Some(()),
        other => panic!("{other}"),
    };
    Deadline::after(PATIENCE).poll(is_out).expect("it cannot be connected to");
}

#[test]
fn a_server_at_an_ipv6_address_is_reached() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return skip::say("there is no IPv6");
    };
    let address = listener.local_addr().expect("it is bound");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the router connects");
        let mut request = [0; 64];
        let length = stream.read(&mut request).expect("the router asks");
        assert_eq!(&request[..length], b"get key\r\n");
        stream.write_all(b"VALUE key 0 5\r\nvalue\r\nEND\r\n").expect("the router listens");
        stream
    });
    let config = format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#);
    let router = Router::start(&["--config-str", &config]);
    router.connect().exchange("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    drop(server.join().expect("it was asked"));
}
