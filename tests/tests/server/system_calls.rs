//! A server that is restricted to listed system calls does what others do, and starts no program.

use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, is_root, wait_for, wait_for_log};
use guira_tests::system_calls::{expect_restricted, restricted_threads};
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Client, Server, Setup};
use std::path::Path;

/// A server with the filter, and these arguments.
fn setup(arguments: &[&str]) -> Setup {
    let setup = Setup::new().guira_argument("--system-calls=listed");
    arguments.iter().fold(setup, |setup, argument| setup.guira_argument(argument))
}

#[track_caller]
fn expect_no_refusal(client: &mut Client, server: &Server) {
    assert_eq!(client.stats("")["system_calls_refused"], "0", "{}", server.log());
    expect_restricted(server.process_id());
}

/// A part of the protocol: stores, reads, arithmetic, lists, statistics, settings, logs.
fn talk(client: &mut Client) {
    client.talk(&[
        ("set key 5 0 5\r\nvalue\r\n", "STORED\r\n"),
        ("get key none\r\n", "VALUE key 5 5\r\nvalue\r\nEND\r\n"),
        ("append key 0 0 1\r\n!\r\n", "STORED\r\n"),
        ("set number 0 0 1\r\n7\r\n", "STORED\r\n"),
        ("incr number 5\r\n", "12\r\n"),
        ("touch key 1500\r\n", "TOUCHED\r\n"),
        ("mg key v t\r\n", "VA 6 t~1500\r\nvalue!\r\n"),
        ("ms other 2 T30\r\nxy\r\n", "HD\r\n"),
        ("delete other\r\n", "DELETED\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("flush_all 100\r\n", "OK\r\n"),
        ("policy lru\r\n", "OK\r\n"),
    ]);
    for argument in ["settings", "items", "slabs", "sizes", "conns", "mrc", "topkeys"] {
        client.send(format!("stats {argument}\r\nmn\r\n"));
        while client.loose_line() != "MN" {}
    }
    client.send("lru_crawler metadump all\r\n");
    while client.loose_line() != "END" {}
}

#[test]
fn memory_grows_and_shrinks_and_is_locked() {
    // Others than root may lock too little.
    let locked = format!("--lock-memory={}", is_root());
    let server = setup(&[&locked, "--huge-pages=true", "--pin-workers=true"]).start_guira();
    let mut client = server.connect();
    talk(&mut client);
    client.exchange("cache_memlimit 96\r\n", "OK\r\n");
    let value = "x".repeat(4000);
    client.send_many((0..15_000).map(|key| format!("set key{key} 0 0 4000 noreply\r\n{value}\r\n")));
    client.sync();
    client.exchange("cache_memlimit 24\r\n", "OK\r\n");
    wait_for("fewer items", || {
        client.sync();
        (client.stats("")["bytes"].parse::<u64>().expect("a number") < 24 << 20).then_some(())
    });
    client.exchange("set still 0 0 5\r\nworks\r\n", "STORED\r\n");
    expect_no_refusal(&mut client, &server);
    drop(client);
    server.stop("TERM");
}

#[test]
fn a_region_is_kept_with_every_kind_of_listener() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let (region, socket) =
        (format!("--region={}", file("region")), format!("--listen=unix:{}", file("socket")));
    let start = || setup(&[&region, &socket, "--udp=127.0.0.1:0"]).start_guira();
    let server = start();
    let mut client = server.connect();
    talk(&mut client);
    Client::connect(&Address::Unix(scratch.path().join("socket"))).set("kept", "value");
    expect_no_refusal(&mut client, &server);
    drop(client);
    server.stop("TERM");
    let server = start();
    let mut client = server.connect();
    client.expect_value("kept", "value");
    expect_no_refusal(&mut client, &server);
}

#[test]
fn certificates_users_and_tokens_are_reloaded() {
    let (scratch, certificate) = (Scratch::new(), Certificate::issue());
    let (users, token) = (scratch.write("users", "one:1\n"), scratch.write("token", "first\n"));
    let auth = format!("--auth-file={}", users.display());
    let admin_token = format!("--admin-token-file={}", token.display());
    let more = setup(&["--admin=notls:127.0.0.1:0", &auth, &admin_token, "--protocol=ascii"]);
    let mut server = certificate.given_to(more).start_guira();
    let login = |line: &str| {
        let mut client = TlsClient::connect(&server, &certificate);
        client.send(&[format!("set a 0 0 {}\r\n{line}\r\n", line.len()).as_bytes()]);
        String::from_utf8(client.hear(8)).expect("a reply")
    };
    assert_eq!(login("one 1"), "STORED\r\n");
    certificate.renew();
    scratch.write("users", "two:2\n");
    scratch.write("token", "second\n");
    server.signal("HUP");
    wait_for("the new user", || (login("two 2") == "STORED\r\n").then_some(()));
    let mut admin = HttpClient::connect(server.admin_address());
    let mut metrics = || admin.get("/metrics", "Authorization: Bearer second\r\n").body;
    wait_for("the new certificate", || {
        metrics().contains("\nguira_ssl_cert_reloads_total 1\n").then_some(())
    });
    assert!(metrics().contains("\nguira_system_calls_refused_total 0\n"));
    expect_restricted(server.process_id());
}

fn takeover_setup(folder: &Path) -> Setup {
    let path = |option: &str| format!("--{option}={}", folder.join(option).display());
    setup(&[&path("takeover"), &path("region")]).not_with("mica")
}

#[test]
fn another_process_takes_over_and_is_started_by_an_operator_only() {
    let scratch = Scratch::new();
    let first = takeover_setup(scratch.path()).start_guira();
    let mut client = first.connect();
    client.set("key", "value");
    first.signal("USR2");
    wait_for_log(|| first.log(), "with `system-calls` listed the server starts no programs");
    let second = takeover_setup(scratch.path()).start_guira();
    first.wait();
    client.expect_value("key", "value");
    assert_eq!(client.stats("")["takeovers"], "1");
    expect_no_refusal(&mut client, &second);
    let third = takeover_setup(scratch.path()).start_guira();
    second.wait();
    client.expect_value("key", "value");
    expect_no_refusal(&mut client, &third);
    drop(client);
}

#[test]
fn memcacheds_option_restricts_and_its_negation_does_not() {
    for (option, expected) in [("drop_privileges", "listed"), ("no_drop_privileges", "all")] {
        let server = Setup::new().options(&["-o", option]).start_guira();
        let mut client = server.connect();
        talk(&mut client);
        assert_eq!(client.stats("settings")["system_calls"], expected);
        let (with, without) = restricted_threads(server.process_id());
        assert_eq!((with > 0, without > 0), (expected == "listed", expected == "all"));
    }
}
