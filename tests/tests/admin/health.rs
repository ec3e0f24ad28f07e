//! `/health` and `/ready`, and what HTTP is spoken.

use super::{expect_health, with_admin};
use guira_tests::Setup;
use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use guira_tests::server::{refused_guira, wait_for};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn a_server_that_serves_is_healthy_and_ready() {
    let (_server, address) = with_admin(&[]);
    let mut client = HttpClient::connect(address);
    let health = client.get("/health", "");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let ready = client.get("/ready?x=y", "");
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert!(!ready.has("Connection: close"), "the connection stays open");
    assert_eq!(client.get("/ready/", "").status, 404);
}

/// As a client sends it that takes the server for a proxy (RFC 9112, section 3.2.2).
#[test]
fn a_target_with_scheme_and_host_is_answered_as_its_path() {
    let (_server, address) = with_admin(&[]);
    let mut client = HttpClient::connect(address);
    assert_eq!(client.get("http://elsewhere:1/health", "").body, "ok\n");
    assert!(client.get("HTTP://elsewhere/metrics?x", "").body.contains("memcached_up 1"));
    assert!(client.get("http://elsewhere", "").has("Content-Type: text/html; charset=utf-8"));
    assert_eq!(client.get("http://elsewhere/nothing", "").status, 404);
}

#[test]
fn head_is_answered_without_a_body_and_connections_end_when_they_are_to() {
    let (_server, address) = with_admin(&[]);
    let mut client = HttpClient::connect(address);
    client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.hear_head();
    assert!(head.status == 200 && head.has("Content-Length: 3") && head.body.is_empty());
    let last = client.get("/health", "Connection: Close\r\n");
    assert!(last.status == 200 && last.has("Connection: close"));
    client.expect_closed();
    let mut old = HttpClient::connect(address);
    old.send("GET /health HTTP/1.0\n\n");
    assert_eq!(old.hear().body, "ok\n");
    old.expect_closed();
}

#[test]
fn pipelined_requests_are_answered_in_order_and_after_the_client_has_said_its_last() {
    let (_server, address) = with_admin(&[]);
    let mut client = HttpClient::connect(address);
    let requests = ["/metrics", "/health", "/metrics", "/nothing"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.send(requests.concat().repeat(20));
    client.finish();
    for _ in 0..20 {
        assert!(client.hear().body.contains("memcached_up 1\n"));
        assert_eq!(client.hear().body, "ok\n");
        assert!(client.hear().body.contains("memcached_up 1\n"));
        assert_eq!(client.hear().status, 404);
    }
    client.expect_closed();
}

#[test]
fn a_server_that_stops_is_not_ready_and_says_so_until_it_ends() {
    let (server, address) = with_admin(&["--drain-timeout=60"]);
    let mut midway = server.connect();
    midway.send("set a 0 0 10\r\n12345");
    // Its value is on its way.
    wait_for("the value", || {
        server.connect().stats("conns").values().any(|state| state == "conn_nread").then_some(())
    });
    let mut client = HttpClient::connect(address);
    assert_eq!(client.get("/ready", "").status, 200);
    server.signal("TERM");
    let stopping = wait_for("an end", || {
        let reply = HttpClient::connect(address).get("/ready", "");
        (reply.status != 200).then_some(reply)
    });
    assert_eq!((stopping.status, stopping.body.as_str()), (503, "the server is stopping\n"));
    expect_health(address);
    let metrics = HttpClient::connect(address).get("/metrics", "").body;
    assert!(metrics.contains("\nguira_ready 0\n"));
    midway.send("67890\r\n");
    midway.hear("STORED\r\n");
    midway.expect_closed();
    let gone = std::time::Duration::from_secs(20);
    guira_tests::deadline::Deadline::after(gone)
        .poll(|| std::net::TcpStream::connect(address).is_err().then_some(()))
        .expect("it ends");
}

#[test]
fn it_can_be_a_socket_in_the_file_system() {
    let scratch = Scratch::new();
    let path = scratch.path().join("admin");
    let mut server = Setup::new().guira_argument(&format!("--admin=unix:{}", path.display())).start_guira();
    let mut client = wait_for("the socket", || UnixStream::connect(&path).ok());
    client.write_all(b"GET /ready HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nready\n"), "{reply}");
    server.expect_running();
}

#[test]
fn it_is_where_it_is_told_to_be() {
    for (argument, expected) in
        [("--admin=0", "127.0.0.1:"), ("--admin=:0", "127.0.0.1:"), ("--admin=[::1]:0", "[::1]:")]
    {
        if expected.starts_with('[') && std::net::TcpListener::bind("[::1]:0").is_err() {
            continue;
        }
        let mut server = Setup::new().guira_argument(argument).start_guira();
        let address = server.admin_address();
        assert!(address.to_string().starts_with(expected), "{argument}: {address}");
        expect_health(address);
        assert!(!server.log().contains("every client that can connect to"), "{}", server.log());
    }
    for (arguments, why) in [
        (&["serve", "--admin=here"][..], "must be IP:PORT, [v6]:PORT, PORT or unix:PATH, not here"),
        (&["serve", "--admin=99999"], "must be IP:PORT"),
        (&["serve", "--admin=proto[ascii]:1"], "must have no proto"),
        (&["serve", "--admin=mtls:1", "--listen=127.0.0.1:0"], "needs TLS"),
        (&["serve", "--admin-token-file=/nowhere"], "admin-token-file: needs a listener: admin"),
        (
            &["serve", "--admin=0", "--listen=127.0.0.1:0", "--admin-token-file=/nowhere"],
            "cannot read the token file",
        ),
    ] {
        let (code, errors) = refused_guira(arguments);
        assert!(code != Some(0) && errors.contains(why), "{arguments:?}: {errors}");
    }
}
