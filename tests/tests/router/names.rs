//! Servers whose names get other addresses while a router runs.

use crate::{Router, output};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::{PATIENCE, SetAtEnd};
use guira_tests::dns::Dns;
use guira_tests::http::HttpClient;
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::{Client, Setup};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Listeners on one port of several addresses of this host.
fn listeners<const N: usize>(addresses: [&str; N]) -> (u16, [TcpListener; N]) {
    let bind = |address: &str, port: u16| TcpListener::bind((address, port));
    for _ in 0..100 {
        let first = bind(addresses[0], 0).expect("a free port");
        let port = first.local_addr().expect("it is bound").port();
        drop(first);
        let all: Vec<TcpListener> = addresses.iter().filter_map(|it| bind(it, port).ok()).collect();
        if let Ok(all) = all.try_into() {
            return (port, all);
        }
    }
    panic!("no port is free at all of {addresses:?}");
}

/// Answers every get of `who` with what it is called, and version.
fn serve(listener: TcpListener, who: &'static str) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || talk(stream, who));
        }
    })
}

fn talk(mut stream: TcpStream, who: &str) {
    let mut request = [0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut request) {
        let lines = request[..length].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for line in lines {
            let line = String::from_utf8_lossy(line).trim_end().to_owned();
            // Gets of several clients come as one.
            let reply = match line.strip_prefix("get ") {
                Some(keys) if keys.split(' ').all(|key| key == "who") => {
                    let value = format!("VALUE who 0 {}\r\n{who}\r\n", who.len());
                    value.repeat(keys.split(' ').count()) + "END\r\n"
                }
                None if line == "version" => "VERSION 1\r\n".to_owned(),
                _ => panic!("{line:?} was asked"),
            };
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn router(dns: &Dns, port: u16, options: &[&str]) -> Router {
    let config =
        format!(r#"{{"pools": {{"A": {{"servers": ["cache.test:{port}"]}}}}, "route": "PoolRoute|A"}}"#);
    // Nobody who is out is asked whether it is back, unless it has moved.
    let fixed = ["--config-str", &config, "--probe-timeout-initial-ms=600000", &dns.option()];
    Router::start(&[&fixed, options].concat())
}

fn who(client: &mut Client) -> String {
    client.send("get who\r\n");
    let first = client.line();
    if !first.starts_with("VALUE") {
        return first;
    }
    let who = client.line();
    assert_eq!(client.line(), "END");
    who
}

fn counter(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().expect("a number")
}

#[track_caller]
fn wait_until(client: &mut Client, expected: &str) {
    wait_for(expected, || (who(client) == expected).then_some(()));
}

#[test]
fn requests_go_where_a_name_leads_and_those_under_way_are_answered_where_they_were_sent() {
    let dns = Dns::start();
    dns.host("cache.test", &["127.0.0.1"]);
    let (port, [old, new]) = listeners(["127.0.0.1", "127.0.0.2"]);
    serve(new, "new");
    let router = router(&dns, port, &["--server-timeout-ms=20000"]);
    let (mut early, mut late) = (router.connect(), router.connect());
    early.send("get slow\r\n");
    let (mut stream, _) = old.accept().expect("the router connects");
    let mut request = [0; 10];
    stream.read_exact(&mut request).expect("it asks");
    assert_eq!(&request, b"get slow\r\n");
    dns.host("cache.test", &["127.0.0.2"]);
    wait_for("a move", || {
        (late.stats("servers").values().any(|line| line.contains("closed:1"))).then_some(())
    });
    assert_eq!(who(&mut late), "new", "over a new connection, although the old one has something under way");
    stream.write_all(b"VALUE slow 0 1\r\nx\r\nEND\r\n").expect("the router listens");
    early.hear("VALUE slow 0 1\r\nx\r\nEND\r\n");
    assert_eq!(stream.read(&mut request).expect("an end"), 0, "nothing else is asked there");
    wait_for("two hits of one server", || {
        let all = late.stats("servers");
        all.values().any(|line| line.contains("found:2") && line.contains("up:1")).then_some(())
    });
    assert_eq!(counter(&mut late, "result_error_count"), 0);
    assert_eq!(counter(&mut late, "request_sent_count"), 2);
}

#[test]
fn what_is_not_answered_at_the_old_address_times_out_and_does_not_put_the_server_out() {
    let dns = Dns::start();
    dns.host("cache.test", &["127.0.0.1"]);
    let (port, [old, new]) = listeners(["127.0.0.1", "127.0.0.2"]);
    serve(new, "new");
    let router = router(&dns, port, &["--server-timeout-ms=3000", "--timeouts-until-tko=1"]);
    let (mut early, mut late) = (router.connect(), router.connect());
    early.send("get slow\r\nget slower\r\n");
    let (mut stream, _) = old.accept().expect("the router connects");
    dns.host("cache.test", &["127.0.0.2"]);
    wait_until_moved(&mut late);
    early.hear("SERVER_ERROR Reply timeout\r\nSERVER_ERROR Reply timeout\r\n");
    let stats = late.stats("servers");
    assert!(stats.values().all(|line| line.contains("pending_reqs:0 inflight_reqs:0")), "{stats:?}");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.read_to_end(&mut Vec::new()).expect("nobody waits for its answers any more");
    assert_eq!(who(&mut late), "new");
    assert_eq!(counter(&mut late, "num_suspect_servers"), 0);
}

/// Until a router has turned to another address.
#[track_caller]
fn wait_until_moved(client: &mut Client) {
    wait_for("a move", || {
        client.stats("servers").values().any(|line| line.contains("closed:1")).then_some(())
    });
}

#[test]
fn of_several_addresses_the_first_that_can_be_connected_to_is_taken() {
    let dns = Dns::start();
    // Nobody listens at the first and at the last.
    dns.host("cache.test", &["127.0.0.3", "127.0.0.2", "127.0.0.1"]);
    let (port, [server]) = listeners(["127.0.0.2"]);
    serve(server, "there");
    let router = router(&dns, port, &[]);
    let mut client = router.connect();
    assert_eq!(who(&mut client), "there");
    let stats = client.stats("");
    for name in ["num_suspect_servers", "result_error_all_count", "num_hard_tko_count"] {
        assert_eq!(stats[name], "0", "{name}");
    }
}

#[test]
fn a_server_none_of_whose_addresses_can_be_connected_to_is_out_until_its_name_has_another() {
    let dns = Dns::start();
    dns.host("cache.test", &["127.0.0.1", "127.0.0.3"]);
    let (port, [server]) = listeners(["127.0.0.2"]);
    let router = router(&dns, port, &[]);
    let mut client = router.connect();
    assert_eq!(who(&mut client), "SERVER_ERROR connection error");
    assert_eq!(who(&mut client), "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error");
    serve(server, "there");
    dns.host("cache.test", &["127.0.0.2"]);
    wait_until(&mut client, "there");
}

#[test]
fn a_name_that_is_lost_keeps_its_last_address() {
    let dns = Dns::start();
    dns.host("cache.test", &["127.0.0.1"]);
    let (port, [server]) = listeners(["127.0.0.1"]);
    serve(server, "there");
    let mut router = router(&dns, port, &["--admin", "0"]);
    let admin = router.listens_by("admin");
    let mut client = router.connect();
    assert_eq!(who(&mut client), "there");
    let breaks: [&dyn Fn(); 3] =
        [&|| dns.remove("cache.test"), &|| dns.fail(), &|| dns.host("cache.test", &[])];
    for broken in breaks {
        broken();
        let lookups = dns.asked();
        wait_for("a failure", || (counter(&mut client, "dns_stale_names") == 1).then_some(()));
        wait_for("another", || (dns.asked() > lookups + 4).then_some(()));
        assert_eq!(who(&mut client), "there");
        dns.recover();
        dns.host("cache.test", &["127.0.0.1"]);
        wait_for("a success", || (counter(&mut client, "dns_stale_names") == 0).then_some(()));
    }
    assert!(counter(&mut client, "dns_failures") >= 3 && counter(&mut client, "dns_lookups") >= 6);
    assert_eq!((counter(&mut client, "dns_changes"), counter(&mut client, "dns_names")), (1, 1));
    wait_for_log(|| router.log(), "keeping the server's last address");
    let metrics = HttpClient::connect(admin).get("/metrics", "Accept: text/plain\r\n").body;
    for name in
        ["guira_router_dns_lookups_total", "guira_router_dns_stale_names 0", "guira_router_dns_names 1"]
    {
        assert!(metrics.contains(name), "{name}");
    }
}

#[test]
fn a_name_that_is_not_known_yet_is_warned_of_and_found_later() {
    let dns = Dns::start();
    let (port, [server]) = listeners(["127.0.0.1"]);
    serve(server, "there");
    let router = router(&dns, port, &[]);
    let mut client = router.connect();
    assert_eq!(who(&mut client), "SERVER_ERROR connection error");
    assert_eq!(counter(&mut client, "dns_unknown_names"), 1);
    wait_for_log(|| router.log(), "host \"cache.test\" does not resolve");
    dns.host("cache.test", &["127.0.0.1"]);
    wait_until(&mut client, "there");
    assert_eq!(counter(&mut client, "dns_unknown_names"), 0);
}

#[test]
fn a_name_is_found_although_nobody_answers_questions_for_addresses_of_ipv6() {
    let dns = Dns::start();
    dns.pass_over_ipv6();
    dns.host("cache.test", &["127.0.0.1"]);
    let (port, [server]) = listeners(["127.0.0.1"]);
    serve(server, "there");
    let router = router(&dns, port, &[]);
    let mut client = router.connect();
    assert_eq!(who(&mut client), "there");
    assert_eq!(counter(&mut client, "dns_failures"), 0);
}

#[test]
fn a_check_warns_of_unknown_names_and_says_where_they_are() {
    let dns = Dns::start();
    let config = "{\"pools\": {\"A\": {\"servers\": [\n\"cache.test:1\"]}}, \"route\": \"PoolRoute|A\"}";
    let checked = output(&["--config-str", config, "--validate-config", &dns.option()]);
    assert!(checked.status.success());
    let warning = String::from_utf8_lossy(&checked.stderr);
    assert!(warning.contains("config-str:2: host \"cache.test\" does not resolve: "), "{warning}");
}

#[test]
fn names_of_the_hosts_file_need_no_dns_server() {
    let dns = Dns::start();
    dns.fail();
    let node = Setup::new().start_guira();
    let port = crate::name(&node).rsplit_once(':').expect("a port").1.to_owned();
    let config =
        format!(r#"{{"pools": {{"A": {{"servers": ["localhost:{port}"]}}}}, "route": "PoolRoute|A"}}"#);
    let router = Router::start(&["--config-str", &config, &dns.option()]);
    router.connect().exchange("set key 0 0 1\r\nx\r\nget key\r\n", "STORED\r\nVALUE key 0 1\r\nx\r\nEND\r\n");
    assert_eq!(dns.asked(), 0);
}

#[test]
fn a_dns_server_that_is_no_address_is_refused() {
    let refused = output(&["--config-str", "{}", "-p", "0", "--dns-server=resolver"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && message.contains("--dns-server: 'resolver' is not an address"),
        "{message}"
    );
}

#[test]
fn no_request_fails_while_a_name_moves_to_and_fro() {
    let dns = Dns::start();
    dns.host("cache.test", &["127.0.0.1"]);
    let (port, [one, two]) = listeners(["127.0.0.1", "127.0.0.2"]);
    serve(one, "one");
    serve(two, "two");
    let router = router(&dns, port, &["--num-proxies=2", "--server-timeout-ms=20000"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loads: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, is_over) = (router.connect(), &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let who = who(&mut client);
                        assert!(who == "one" || who == "two", "{who}");
                    }
                })
            })
            .collect();
        let mut client = router.connect();
        let end = SetAtEnd(&is_over);
        for (address, expected) in [("127.0.0.2", "two"), ("127.0.0.1", "one"), ("127.0.0.2", "two")] {
            dns.host("cache.test", &[address]);
            wait_until(&mut client, expected);
        }
        drop(end);
        loads.into_iter().for_each(|load| load.join().expect("no request fails"));
        assert_eq!(counter(&mut client, "result_error_all_count"), 0);
        // What was answered over connections that were left behind is counted when they are closed.
        wait_for("all that was answered", || {
            let stats = client.stats("");
            let found = client.stats("servers");
            let line = found.values().next().expect("a server");
            let found = line.split("found:").nth(1)?.split(' ').next()?.to_owned();
            (found == stats["request_sent_count"]).then_some(())
        });
    });
}
