//! flush_all: passed on to all servers, if the router is told to.

use crate::{Router, name};
use guira_tests::Server;
use guira_tests::binary::{Request, noop};

/// Two servers, of which each has a route of its own.
fn start(options: &[&str]) -> (Server, Server, Router) {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}}, "routes": [
            {{"aliases": ["/a/a/"], "route": "PoolRoute|A"}}, {{"aliases": ["/b/b/"], "route": "PoolRoute|B"}}]}}"#,
        name(&one),
        name(&other)
    );
    let router = Router::start(&[&["--config-str", &configuration, "-R", "/a/a/"], options].concat());
    (one, other, router)
}

#[test]
fn flushes_are_disabled_unless_the_router_is_told_otherwise() {
    let (_one, _other, router) = start(&[]);
    let mut client = router.connect();
    client.set("k", "v");
    client.exchange("flush_all\r\n", "SERVER_ERROR Command disabled\r\n");
    client.exchange("flush_all 0\r\n", "SERVER_ERROR Command disabled\r\n");
    client.expect_value("k", "v");
    assert_eq!(client.stats("count")["cmd_flushall_count"], "0");
}

#[test]
fn a_flush_reaches_all_servers() {
    let (one, other, router) = start(&["--enable-flush-cmd"]);
    let mut client = router.connect();
    let fill = |client: &mut guira_tests::Client| {
        client.set("k", "1");
        client.set("/b/b/k", "2");
    };
    for flush in ["flush_all\r\n", "flush_all 0\r\n"] {
        fill(&mut client);
        client.exchange(format!("{flush}get k /b/b/k\r\n"), "OK\r\nEND\r\n");
        one.connect().exchange("get k\r\n", "END\r\n");
        other.connect().exchange("get k\r\n", "END\r\n");
    }
    fill(&mut client);
    client.exchange("flush_all noreply\r\nget k /b/b/k\r\n", "END\r\n");
    // In an hour.
    fill(&mut client);
    client.exchange("flush_all 3600\r\nget k\r\n", "OK\r\nVALUE k 0 1\r\n1\r\nEND\r\n");
    client.exchange("flush_all soon\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    client.exchange("flush_prefix k\r\n", "SERVER_ERROR the router does not pass on flushes of prefixes\r\n");
    assert_eq!(client.stats("count")["cmd_flushall_count"], "4");
}

#[test]
fn a_flush_of_the_binary_protocol_is_a_flush() {
    let (one, other, router) = start(&["--enable-flush-cmd"]);
    let mut text = router.connect();
    let mut client = router.connect();
    for opcode in [0x08, 0x18] {
        text.set("k", "1");
        text.set("/b/b/k", "2");
        if opcode == 0x08 {
            assert_eq!(client.ask_binary(&Request::new(opcode)).outcome(), (0, ""));
        } else {
            let replies = client.ask_quietly(&[Request::new(opcode), noop()]);
            assert!(replies.iter().all(|reply| reply.opcode != opcode), "it is quiet");
        }
        one.connect().exchange("get k\r\n", "END\r\n");
        other.connect().exchange("get k\r\n", "END\r\n");
    }
}

#[test]
fn a_server_that_is_gone_makes_a_flush_fail() {
    let (one, other, router) = start(&["--enable-flush-cmd"]);
    let mut client = router.connect();
    client.set("k", "1");
    other.stop("KILL");
    let answer = client.ask("flush_all\r\n");
    assert!(answer.starts_with("SERVER_ERROR"), "{answer}");
    one.connect().exchange("get k\r\n", "END\r\n");
}
