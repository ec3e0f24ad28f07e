//! Servers that stop, die or talk nonsense: what clients of a router see.

use crate::{Router, name, stop};
use guira_harness::scratch::Scratch;
use guira_tests::Server;
use guira_tests::deadline::{Deadline, PATIENCE};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A router that gives servers up soon, and asks soon whether they are back.
fn router(configuration: &str) -> Router {
    let scratch = Scratch::new();
    let file = scratch.path().join("router.json");
    std::fs::write(&file, configuration).expect("a scratch folder can be written to");
    let file = file.to_str().expect("a path of ours");
    Router::start(&[
        "--config",
        file,
        "--server-timeout-ms",
        "1000",
        "--probe-timeout-initial-ms",
        "50",
        "--probe-timeout-max-ms",
        "100",
    ])
}

/// Waits until the router answers a get of a missing key with what is wanted.
#[track_caller]
fn wait_for(router: &Router, wanted: &str) {
    let reply = || {
        let mut client = router.connect();
        client.send("get key\r\n");
        (client.line() == wanted).then_some(())
    };
    Deadline::after(PATIENCE).poll(reply).unwrap_or_else(|| panic!("it never answers {wanted:?}"));
}

#[test]
fn a_server_that_stops_is_given_up_after_three_timeouts_and_no_late_reply_meets_another_request() {
    let node = Server::start();
    let router = router(&format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "route": "PoolRoute|A"}}"#,
        name(&node)
    ));
    let mut client = router.connect();
    for number in 0..50 {
        client.exchange(format!("set key{number} 0 0 2\r\n{number:02}\r\n"), "STORED\r\n");
    }
    stop(&node);
    for number in 0..3 {
        client.exchange(format!("get key{number}\r\n"), "SERVER_ERROR timeout\r\n");
    }
    for number in 3..20 {
        client.exchange(format!("get key{number}\r\n"), "SERVER_ERROR unavailable\r\n");
    }
    node.signal("CONT");
    wait_for(&router, "END");
    for number in (0..50).rev() {
        let expected = format!("VALUE key{number} 0 2\r\n{number:02}\r\nEND\r\n");
        client.exchange(format!("get key{number}\r\n"), &expected);
    }
}

#[test]
fn a_server_that_is_gone_fails_at_once_and_a_gutter_stands_in_for_it() {
    let (node, gutter) = (Server::start(), Server::start());
    let router = router(&format!(
        r#"{{
            "pools": {{"A": {{"servers": ["{}"]}}, "G": {{"servers": ["{}"]}}}},
            "route": {{
                "type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"],
                "failover_exptime": 60
            }}
        }}"#,
        name(&node),
        name(&gutter)
    ));
    let mut client = router.connect();
    client.exchange("set key 5 0 3\r\nold\r\n", "STORED\r\n");
    node.stop("KILL");
    client.exchange("set key 5 0 3\r\nnew\r\n", "STORED\r\n");
    client.exchange("get key other\r\n", "VALUE key 5 3\r\nnew\r\nEND\r\n");
    client.exchange("mg key t f v\r\n", "VA 3 t~60 f5\r\nnew\r\n");
    gutter.connect().exchange("mg key t v\r\n", "VA 3 t~60\r\nnew\r\n");
}

#[test]
fn a_server_that_talks_nonsense_loses_its_connection_and_nobody_is_told_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = std::thread::spawn(move || {
        // The first connection answers what was not asked, the second as it should.
        for reply in ["VALUE other 0 3\r\nabc\r\nEND\r\n", "VALUE key 0 3\r\nabc\r\nEND\r\n"] {
            let (mut stream, _) = listener.accept().expect("the router connects");
            let mut request = [0; 64];
            let length = stream.read(&mut request).expect("the router asks");
            assert_eq!(&request[..length], b"get key\r\n");
            stream.write_all(reply.as_bytes()).expect("the router listens");
        }
    });
    let router =
        router(&format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#));
    let mut client = router.connect();
    client.exchange("get key\r\n", "SERVER_ERROR remote error\r\n");
    client.exchange("get key\r\n", "VALUE key 0 3\r\nabc\r\nEND\r\n");
    server.join().expect("it was asked twice");
}

#[test]
fn a_reply_that_comes_in_pieces_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let value = vec![b'x'; 300_000];
    let expected = [b"VALUE key 7 300000\r\n".as_slice(), &value, b"\r\nEND\r\n"].concat();
    let reply = expected.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the router connects");
        let mut request = [0; 64];
        let length = stream.read(&mut request).expect("the router asks");
        assert_eq!(&request[..length], b"get missing key\r\n");
        for piece in reply.chunks(70_001) {
            stream.write_all(piece).expect("the router listens");
        }
        stream
    });
    let router =
        router(&format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#));
    let mut client = router.connect();
    client.exchange("get missing key\r\n", String::from_utf8(expected).expect("it is text").as_str());
    drop(server.join().expect("it was asked"));
}
