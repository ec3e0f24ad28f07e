//! `stats servers` and `stats suspect_servers`: each server's state and what has become of requests to it, in mcrouter's form.

use crate::reload::AT_ONCE;
use crate::{Router, config_of, name};
use guira_harness::port::Port;
use guira_harness::server::Signal;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// What one line says, read as github.com/Dev25/mcrouter_exporter reads it: words with a number before the first semicolon and behind it.
fn words(line: &str) -> BTreeMap<String, String> {
    let (connections, outcomes) = line.split_once(';').unwrap_or((line, ""));
    let words = connections.trim().split(' ').chain(outcomes.trim().split(' '));
    words
        .filter_map(|word| word.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The only line, without the server and its latency.
#[track_caller]
fn line(client: &mut Client) -> String {
    let all = client.stats("servers");
    let [line] = &*all.into_values().collect::<Vec<_>>() else { panic!("one server is configured") };
    let (latency, rest) = line.split_once(' ').expect("more than a latency");
    let micros = latency.strip_prefix("avg_latency_us:").and_then(|number| number.split_once('.'));
    assert!(micros.is_some_and(|(_, decimals)| decimals.len() == 3), "{line}");
    rest.to_owned()
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, config_at(address))
}

fn config_at(address: SocketAddr) -> String {
    format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#)
}

#[test]
fn a_line_is_what_mcrouter_writes_and_its_exporter_reads() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server), "-t", "700"]);
    let mut client = router.connect();
    assert_eq!(line(&mut client), "pending_reqs:0 inflight_reqs:0 new:1", "nothing was asked yet");
    client.talk(&[
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("get a b c\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("touch a 100\r\n", "TOUCHED\r\n"),
        ("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("mg a v\r\n", "VA 1\r\nx\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
    ]);
    let expected = "pending_reqs:0 inflight_reqs:0 up:1; deleted:1 touched:1 found:2 notfound:2 notstored:1 stored:1 client_error:1";
    assert_eq!(line(&mut client), expected);
    let all = client.stats("servers");
    let line = &all[&format!("{}:ascii:plain:notcompressed-700", name(&server))];
    let words = words(line);
    assert!(words["avg_latency_us"].parse::<f64>().unwrap() > 0.0, "{line}");
    assert_eq!((words["found"].as_str(), words["up"].as_str()), ("2", "1"));
    assert!(client.stats("suspect_servers").is_empty());
}

#[test]
fn a_request_counts_as_soon_as_its_client_may_be_answered() {
    let (_listener, config) = listener();
    let config = config.replace("PoolRoute|A", "AllAsyncRoute|Pool|A");
    let router = Router::start(&["--config-str", &config, "-t", "60000", "--num-proxies", "1"]);
    let mut client = router.connect();
    for asked in 1..=50 {
        // Both are read at once, and nothing is sent to the server before they are answered.
        client.send("set k 0 0 1\r\nv\r\nstats servers\r\n");
        assert_eq!(client.line(), "NOT_STORED");
        let server = words(&client.line());
        let number = |name: &str| server[name].parse::<u64>().expect("a number");
        assert_eq!(number("pending_reqs") + number("inflight_reqs"), asked);
        assert!(number("pending_reqs") > 0);
        client.hear("END\r\n");
    }
    assert_ne!(client.stats("")["destination_max_pending_reqs"], "0");
}

#[test]
fn each_thread_has_a_connection_and_servers_that_are_not_configured_any_more_are_gone() {
    let servers = [(); 2].map(|()| Setup::new().start_guira());
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router =
        Router::start(&[&["-f", path.to_str().unwrap(), "--num-proxies", "2"], &AT_ONCE[..]].concat());
    let mut clients = [router.connect(), router.connect()];
    for client in &mut clients {
        client.exchange("get a\r\n", "END\r\n");
    }
    assert_eq!(line(&mut clients[0]), "pending_reqs:0 inflight_reqs:0 up:2; notfound:2");
    let stats = clients[0].stats("");
    for (counter, value) in [
        ("num_servers", "2"),
        ("num_servers_up", "2"),
        ("num_servers_new", "0"),
        ("num_servers_down", "0"),
        ("num_servers_closed", "0"),
        ("num_connections_opened", "2"),
        ("num_suspect_servers", "0"),
        ("num_proxies", "2"),
        ("destination_inflight_reqs", "0"),
    ] {
        assert_eq!(stats[counter], value, "{counter}");
    }
    assert!(stats["duration_us"].parse::<f64>().unwrap() > 0.0);
    assert_eq!(stats["duration_update_us"], "0");
    std::fs::write(&path, config_of(&servers[1])).unwrap();
    router.signal(Signal::HUP);
    let new = format!("{}:ascii:plain:notcompressed-1000", name(&servers[1]));
    wait_for("the new server alone", || {
        clients[0].stats("servers").keys().eq(std::iter::once(&new)).then_some(())
    });
    let stats = clients[0].stats("");
    assert_eq!((stats["num_servers"].as_str(), stats["num_servers_new"].as_str()), ("2", "2"));
    assert_eq!(stats["request_sent_count"], "2", "what was counted of the old one stays");
}

#[test]
fn requests_under_way_are_told() {
    let (listener, config) = listener();
    let router = Router::start(&["--config-str", &config, "-t", "20000"]);
    let (mut asker, mut client) = (router.connect(), router.connect());
    asker.send("get a b\r\n");
    let (mut server, _) = listener.accept().expect("the router connects");
    let mut request = [0; 9];
    server.read_exact(&mut request).expect("it asks");
    assert_eq!(&request, b"get a b\r\n");
    wait_for("two requests", || (line(&mut client) == "pending_reqs:0 inflight_reqs:2 up:1").then_some(()));
    assert_eq!(client.stats("")["destination_inflight_reqs"], "2");
    server.write_all(b"VALUE b 0 1\r\nx\r\nEND\r\n").expect("it listens");
    asker.hear("VALUE b 0 1\r\nx\r\nEND\r\n");
    assert_eq!(line(&mut client), "pending_reqs:0 inflight_reqs:0 up:1; found:1 notfound:1");
}

#[test]
fn a_server_that_does_not_answer_is_a_soft_tko() {
    let (listener, config) = listener();
    let router =
        Router::start(&["--config-str", &config, "-t", "50", "--timeouts-until-tko", "2", "-r", "600000"]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR Reply timeout\r\n");
    assert_eq!(line(&mut client), "pending_reqs:0 inflight_reqs:0 up:1; timeout:1");
    let address = listener.local_addr().unwrap().to_string();
    assert_eq!(client.stats("suspect_servers")[&address], "status:down num_failures:1");
    client.exchange("get a\r\n", "SERVER_ERROR Reply timeout\r\n");
    client.exchange("get a\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n");
    assert_eq!(line(&mut client), "pending_reqs:0 inflight_reqs:0 soft_tko;  up:1; timeout:2 tko:1");
    let latency = words(&client.stats("servers").into_values().next().unwrap())["avg_latency_us"].clone();
    assert!(latency.parse::<f64>().unwrap() >= 49_000.0, "{latency}");
    assert_eq!(client.stats("suspect_servers")[&address], "status:tko num_failures:2");
    let stats = client.stats("");
    let counts = [
        "num_suspect_servers",
        "num_soft_tko_count",
        "num_hard_tko_count",
        "result_tko_count",
        "result_data_timeout_all_count",
    ];
    assert_eq!(counts.map(|name| stats[name].as_str()), ["1", "1", "0", "1", "2"]);
}

#[test]
fn a_server_that_cannot_be_connected_to_is_a_hard_tko_until_it_is_back() {
    let port = Port::hold().expect("a free port");
    let config = config_at(port.address());
    let router = Router::start(&["--config-str", &config, "-r", "50", "--probe-timeout-max-ms", "50"]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
    client.exchange("get a\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n");
    assert_eq!(line(&mut client), "pending_reqs:0 inflight_reqs:0 hard_tko;  down:1; connect_error:1 tko:1");
    let stats = client.stats("");
    assert_eq!((stats["num_hard_tko_count"].as_str(), stats["num_servers_down"].as_str()), ("1", "1"));
    let listener = port.listen().expect("it listens");
    let (mut server, _) = listener.accept().expect("the router asks whether it is back");
    let mut probe = [0; 9];
    server.read_exact(&mut probe).expect("it asks");
    assert_eq!(&probe, b"version\r\n");
    server.write_all(b"VERSION 1\r\n").expect("it listens");
    wait_for("an end of the TKO", || {
        (line(&mut client) == "pending_reqs:0 inflight_reqs:0 up:1; connect_error:1 tko:1").then_some(())
    });
    assert!(client.stats("suspect_servers").is_empty());
    assert_eq!(client.stats("")["num_hard_tko_count"], "0");
}

#[test]
fn one_that_does_not_accept_in_time_has_failed_once_each_time_and_probes_are_no_requests() {
    let (full, _) = listener();
    rustix::net::listen(&full, 0).expect("it listens");
    let address = full.local_addr().unwrap();
    // Connections that nobody accepts: those that come later are not connected.
    let _waiting = TcpStream::connect(address).expect("there is room for one");
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{address}"], "connect_timeout": 50}}}}, "route": "PoolRoute|A"}}"#
    );
    let fixed = ["--config-str", &config, "-r"];
    let failures = |client: &mut Client| {
        let all = client.stats("suspect_servers");
        let line = all.into_values().next().expect("a server that has failed");
        let (_, number) = line.split_once("num_failures:").expect("how often it has failed");
        number.parse::<u32>().expect("a number")
    };
    let router = Router::start(&[&fixed[..], &["60000"]].concat());
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection timeout\r\n");
    assert_eq!(failures(&mut client), 1);
    let router = Router::start(&[&fixed[..], &["50", "--probe-timeout-max-ms", "50"]].concat());
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection timeout\r\n");
    wait_for("probes that fail", || (failures(&mut client) > 3).then_some(()));
    assert!(line(&mut client).ends_with("; connect_timeout:1"), "{}", line(&mut client));
}

#[test]
fn a_connection_that_ends_is_down_and_its_requests_have_failed() {
    let server: Server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "END\r\n");
    server.stop("KILL");
    wait_for("an end", || {
        (line(&mut client) == "pending_reqs:0 inflight_reqs:0 down:1; notfound:1").then_some(())
    });
    let stats = client.stats("");
    assert_eq!((stats["num_connections_closed"].as_str(), stats["num_servers_down"].as_str()), ("1", "1"));
}
