//! What is no request, or too much of one: a clear answer, no more memory than before, and others are served.

use super::{expect_health, with_admin};
use guira_sync::clock::Stopwatch;
use guira_tests::http::HttpClient;
use std::time::Duration;

#[test]
fn what_is_no_request_is_answered_by_its_kind_and_the_connection_ends() {
    let (_server, address) = with_admin(&[]);
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(9000));
    let fields = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(100));
    for (request, status) in [
        (&b"get a\r\n\r\n"[..], 400),
        (b"set x 0 0 1\r\nx\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\x80\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 400),
        (b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n", 400),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (long_path.as_bytes(), 414),
        (fields.as_bytes(), 431),
    ] {
        let mut client = HttpClient::connect(address);
        client.send(request);
        let reply = client.hear();
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]);
        assert_eq!(reply.status, status, "{shown}");
        assert!(reply.has("Connection: close") && reply.body.ends_with('\n'), "{shown}");
        assert_eq!(reply.has("Allow: GET, HEAD"), status == 405);
        client.expect_closed();
    }
    expect_health(address);
}

#[test]
fn junk_behind_a_request_is_refused_after_the_request_is_answered() {
    let (_server, address) = with_admin(&[]);
    let mut client = HttpClient::connect(address);
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n\0\0\0\0junk\r\n\r\n");
    assert_eq!(client.hear().body, "ok\n");
    assert_eq!(client.hear().status, 400);
    client.expect_closed();
}

#[test]
fn a_head_of_a_mebibyte_is_read_to_its_end_and_refused_and_a_longer_one_is_cut_off() {
    let (server, address) = with_admin(&[]);
    let before = server.memory();
    for _ in 0..20 {
        let mut client = HttpClient::connect(address);
        client
            .send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", "x".repeat(1_000_000)));
        assert_eq!(client.hear().status, 431);
        client.expect_closed();
    }
    let mut endless = HttpClient::connect(address);
    endless.send_until_closed(
        &b"GET / HTTP/1.1\r\n".iter().chain([b'x'; 8 << 20].iter()).copied().collect::<Vec<u8>>(),
    );
    expect_health(address);
    let after = server.memory();
    assert!(after < before + (2 << 20), "{before} bytes, and then {after}");
}

#[test]
fn a_head_that_comes_slowly_is_given_up_and_one_that_says_nothing_is_closed() {
    let (server, address) = with_admin(&["--test-commands"]);
    let mut slow = HttpClient::connect(address);
    let mut silent = HttpClient::connect(address);
    let mut kept = HttpClient::connect(address);
    assert_eq!(kept.get("/health", "").status, 200);
    let mut clock = server.connect();
    // A line every ten seconds does not count as a request.
    for line in ["GET /health HTTP/1.1\r\n", "Host: localhost\r\n", "A: b\r\n"] {
        slow.send(line);
        clock.exchange("debugtime 10\r\n", "OK\r\n");
    }
    assert_eq!(kept.get("/health", "").status, 200);
    clock.exchange("debugtime 10\r\n", "OK\r\n");
    let reply = slow.hear();
    assert_eq!((reply.status, reply.body.as_str()), (408, "the request did not arrive in time\n"));
    slow.expect_closed();
    silent.expect_closed();
    assert_eq!(kept.get("/health", "").status, 200, "it has asked since");
}

#[test]
fn clients_that_take_no_replies_are_closed_when_they_hold_too_much() {
    let (server, address) = with_admin(&[]);
    expect_health(address);
    let before = server.memory();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
    let mut greedy: Vec<HttpClient> = (0..30).map(|_| HttpClient::connect(address)).collect();
    for client in &mut greedy {
        client.send_until_closed(request.as_bytes());
    }
    expect_health(address);
    let after = server.memory();
    assert!(after < before + (4 << 20), "{before} bytes, and then {after}");
}

/// A scrape takes milliseconds; a silent connection is closed after 30 s.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn connections_that_say_nothing_or_not_enough_keep_nobody_out() {
    for (count, said) in [(64, ""), (200, ""), (200, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n")] {
        let (_server, address) = with_admin(&[]);
        let mut kept = HttpClient::connect(address);
        assert_eq!(kept.get("/health", "").status, 200);
        let mut silent = Vec::new();
        for _ in 0..count {
            silent.push(HttpClient::connect(address));
            silent.last_mut().expect("it is there").send(said);
        }
        let started = Stopwatch::start();
        assert_eq!(HttpClient::connect(address).get("/metrics", "").status, 200);
        assert!(started.elapsed() < SOON, "{count} that have said {said:?}: {:?}", started.elapsed());
        if !said.is_empty() {
            assert_eq!(silent[0].hear().status, 408, "it is told");
        }
        silent[0].expect_closed();
        assert_eq!(kept.get("/health", "").status, 200, "it has asked before, and is not the first to go");
    }
}

#[test]
fn a_connection_beyond_the_limit_takes_the_place_of_the_one_that_was_silent_for_longest() {
    let (_server, address) = with_admin(&[]);
    let mut many: Vec<HttpClient> = (0..64).map(|_| HttpClient::connect(address)).collect();
    for client in many.iter_mut() {
        assert_eq!(client.get("/health", "").status, 200);
    }
    let mut late = HttpClient::connect(address);
    assert_eq!(late.get("/health", "").body, "ok\n");
    many[0].expect_closed();
    for client in &mut many[1..] {
        assert_eq!(client.get("/health", "").status, 200);
    }
}

/// Each makes a text of many KiB, and sends a few hundred bytes of it.
#[test]
fn a_client_that_pipelines_heads_leaves_others_their_turns() {
    const HEADS: usize = 300;
    let (_server, address) = with_admin(&[]);
    let mut greedy = HttpClient::connect(address);
    let mut other = HttpClient::connect(address);
    greedy.send("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(HEADS));
    let heads = std::thread::spawn(move || (0..HEADS).for_each(|_| _ = greedy.hear_head()));
    let mut answered = 0;
    while !heads.is_finished() {
        assert_eq!(other.get("/health", "").status, 200);
        answered += 1;
    }
    heads.join().expect("all are answered");
    assert!(answered >= HEADS / 10, "{answered} requests were answered beside {HEADS}");
}
