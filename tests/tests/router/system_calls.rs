//! A router that is restricted to listed system calls does what others do.

use crate::deletes::{config, files, lines};
use crate::reload::AT_ONCE;
use crate::{Router, name, stop};
use guira_harness::server::Signal;
use guira_tests::dns::Dns;
use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::system_calls::expect_restricted;
use guira_tests::{Client, Server};
use std::fs;

const LISTED: &str = "--system-calls=listed";

#[track_caller]
fn expect_no_refusal(router: &Router, client: &mut Client) {
    assert_eq!(client.stats("")["system_calls_refused"], "0", "{}", router.log());
    expect_restricted(router.process.id());
}

#[test]
fn configurations_are_reloaded_names_resolved_and_statistics_written() {
    let (dns, scratch, node) = (Dns::start(), Scratch::new(), Server::start());
    dns.host("cache.test", &["127.0.0.1"]);
    let address = name(&node);
    let (_, port) = address.rsplit_once(':').expect("a port");
    let file = scratch.write("config.json", &config("127.0.0.1:1"));
    let path = |name: &str| {
        fs::create_dir(scratch.file(name)).expect("a folder");
        format!("--{name}={}", scratch.file(name).display())
    };
    let (dump, stats) = (path("config-dump-root"), path("stats-root"));
    let own =
        ["-f", file.to_str().expect("a path"), &dns.option(), LISTED, &dump, &stats, "--admin=127.0.0.1:0"];
    let more = ["--asynclog-disable", "--udp=127.0.0.1:0", "--stats-logging-interval=50"];
    let mut router = Router::start(&[&own[..], &more, &AT_ONCE].concat());
    let mut client = router.connect();
    let mut stores = || client.ask("set key 0 0 1\r\nx\r\n") == "STORED";
    assert!(!stores(), "the first configuration names no server");
    scratch.write("config.json", &config(&format!("cache.test:{port}")));
    wait_for("the new configuration", || stores().then_some(()));
    client.talk(&[
        ("get key none\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("mg key v\r\n", "VA 1\r\nx\r\n"),
        ("delete key\r\n", "DELETED\r\n"),
    ]);
    router.signal(Signal::HUP);
    let attempts =
        |client: &mut Client| client.stats("")["config_attempts"].parse::<u32>().expect("a number");
    wait_for("the third load", || (attempts(&mut client) >= 3).then_some(()));
    let statistics = || fs::read_dir(scratch.file("stats-root")).expect("a folder");
    wait_for("statistics", || statistics().next().map(drop));
    let metrics = HttpClient::connect(router.listens_by("admin")).get("/metrics", "").body;
    assert!(metrics.contains("\nguira_router_system_calls_refused_total 0\n"), "{metrics}");
    expect_no_refusal(&router, &mut client);
}

#[test]
fn deletes_are_logged_and_delivered() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let sync = ["--asynclog-sync=always", LISTED];
    let router = crate::deletes::start(scratch.path(), &config(&name(&node)), &sync);
    let mut client = router.connect();
    client.set("key", "value");
    stop(&node);
    client.exchange("delete key\r\n", "NOT_FOUND\r\n");
    assert_eq!(lines(scratch.path()).len(), 1);
    node.signal("CONT");
    wait_for("an empty folder", || files(scratch.path()).is_empty().then_some(()));
    node.connect().exchange("get key\r\n", "END\r\n");
    expect_no_refusal(&router, &mut client);
}
