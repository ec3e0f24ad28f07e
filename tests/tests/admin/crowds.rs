//! More clients than the listener has room for, which keep their connections and do nothing with them: others are answered soon.

use super::with_admin;
use guira_sync::clock::Stopwatch;
use guira_tests::http::HttpClient;
use guira_tests::server::wait_for;
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Server, Setup};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The listener has room for 64.
const CROWD: usize = 100;
/// How long probes of orchestrators wait unless they are told otherwise. The server's own time counts: the machine may do other things.
const SOON: Duration = Duration::from_secs(1);
/// A silent connection is closed after 30 s.
const WITHOUT_WAITING: Duration = Duration::from_secs(10);

const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Expects that `ask` takes no longer than a probe waits, while there is a crowd, which `gather` makes.
#[track_caller]
fn expect_soon<T>(server: &Server, what: &str, gather: impl FnOnce() -> Vec<T>, ask: impl FnOnce()) {
    let worked = || Duration::from_nanos(server.costs().cpu_ns().expect("it runs"));
    let (before, started) = (worked(), Stopwatch::start());
    let crowd = gather();
    ask();
    let (work, took) = (worked() - before, started.elapsed());
    drop(crowd);
    assert!(work < SOON && took < WITHOUT_WAITING, "{what}: {work:?} of work, in {took:?}");
}

fn crowd<T>(make: impl FnMut(usize) -> T) -> Vec<T> {
    (0..CROWD).map(make).collect()
}

#[test]
fn clients_that_take_no_replies_keep_nobody_waiting() {
    let (server, address) = with_admin(&[]);
    for request in [
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let many = request.repeat(1000);
        let greedy = |_| {
            let mut client = HttpClient::connect(address);
            client.send_until_closed(many.as_bytes());
            client
        };
        let health = || assert_eq!(HttpClient::connect(address).get("/health", "").body, "ok\n");
        expect_soon(&server, request, || crowd(greedy), health);
    }
}

#[test]
fn handshakes_that_do_not_end_keep_nobody_waiting() {
    let certificate = Certificate::issue();
    let mut server = certificate.given_to(Setup::new().guira_argument("--admin=127.0.0.1:0")).start_guira();
    let address = server.admin_address();
    let health = || expect_health_by_tls(address, &certificate);
    // Nothing, the head of a record, and a part of what that announces.
    for said in [&b""[..], b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc"] {
        let half = |_| {
            let mut client = TcpStream::connect(address).expect("it listens");
            // One that was closed already does not take it.
            let _ = client.write_all(said);
            client
        };
        expect_soon(&server, &format!("{said:?}"), || crowd(half), health);
    }
    let whole = |_| TlsClient::connect_to(address, &certificate);
    expect_soon(&server, "handshakes, and no request", || crowd(whole), health);
}

#[track_caller]
fn expect_health_by_tls(address: SocketAddr, certificate: &Certificate) {
    let mut client = TlsClient::connect_to(address, certificate);
    client.send(&[HEALTH.as_bytes()]);
    let reply = String::from_utf8(client.hear(10_000)).expect("text");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nok\n"), "{reply}");
}

/// Until another needs its place it has as long as one that says nothing.
#[test]
fn a_client_that_does_not_take_a_reply_is_closed_after_a_time() {
    let (server, address) = with_admin(&["--test-commands"]);
    let mut clock = server.connect();
    clock.exchange("debugtime 1\r\n", "OK\r\n");
    let descriptors = || server.costs().holdings().descriptors;
    // For a moment after its start a server looks at what it has mapped.
    const ALIKE: usize = 3_000;
    let (mut before, mut alike) = (descriptors(), 0);
    while alike < ALIKE {
        clock.sync();
        let now = descriptors();
        alike = if now == before { alike + 1 } else { 0 };
        before = now;
    }
    let mut greedy = HttpClient::connect(address);
    // More than the system takes off the server's hands.
    greedy.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000));
    wait_for("its connection", || (descriptors() > before).then_some(()));
    wait_for("its end", || {
        // It may have read a request since the last time.
        clock.exchange("debugtime 31\r\n", "OK\r\n");
        (descriptors() == before).then_some(())
    });
    greedy.expect_ended();
}
