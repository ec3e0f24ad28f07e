//! Servers that stop, die or talk nonsense: what clients of a router see.

use crate::upstream::scripted;
use crate::{Router, name, stop};
use guira_harness::port::refusing_address;
use guira_tests::binary::step;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::server::{limit_descriptors, wait_for_log};
use guira_tests::{Client, Server};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A router that gives servers up soon, and asks soon whether they are back.
fn router(configuration: &str) -> Router {
    Router::start(&[
        "--config-str",
        configuration,
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
        client.exchange(format!("get key{number}\r\n"), "SERVER_ERROR Reply timeout\r\n");
    }
    for number in 3..20 {
        client.exchange(
            format!("get key{number}\r\n"),
            "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n",
        );
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
fn no_command_keeps_an_item_in_the_gutter_for_longer_than_its_time() {
    let (node, gutter) = (Server::start(), Server::start());
    let router = router(&format!(
        r#"{{
            "pools": {{"A": {{"servers": ["{}"]}}, "G": {{"servers": ["{}"]}}}},
            "route": {{
                "type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"],
                "failover_exptime": 20
            }}
        }}"#,
        name(&node),
        name(&gutter)
    ));
    node.stop("KILL");
    let mut client = router.connect();
    client.ask("get a\r\n");
    let mut direct = gutter.connect();
    let left = |client: &mut Client, key: &str| {
        let line = client.ask(format!("mg {key} t\r\n"));
        let left = line.split(' ').find_map(|word| word.strip_prefix('t')?.parse::<i64>().ok());
        left.unwrap_or_else(|| panic!("{key}: {line}"))
    };
    // What makes an item.
    for (key, request) in [
        ("ma", "ma ma N0 J1 v\r\n"),
        ("mg", "mg mg N0 T0\r\n"),
        ("mgn", "mg mgn N30\r\n"),
        ("ms", "ms ms 1 MA N0\r\nx\r\n"),
        ("mst", "ms mst 1 T100\r\nx\r\n"),
        ("set", "set set 0 0 1\r\nx\r\n"),
    ] {
        let line = client.ask(request);
        assert!(!line.contains("ERROR") && !line.starts_with("EN"), "{request:?}: {line}");
        if line.starts_with("VA") {
            client.line();
        }
        assert!((1..=20).contains(&left(&mut direct, key)), "{key}: {}", left(&mut direct, key));
    }
    router.connect().ask_binary(&step(5, "binary", 1, 1, 0));
    assert!((1..=20).contains(&left(&mut direct, "binary")));
    // What reads an item gives it no more time.
    direct.exchange("set k 0 5 1\r\n1\r\n", "STORED\r\n");
    client.exchange("gat 100 k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
    client.exchange("touch k 100\r\ntouch none 100\r\n", "TOUCHED\r\nNOT_FOUND\r\n");
    client.exchange("mg k T100 v\r\nma k T100\r\n", "VA 1\r\n1\r\nHD\r\n");
    assert!((1..=5).contains(&left(&mut direct, "k")));
    // It is gone at once if a client says so.
    client.exchange("touch k -1\r\nget k\r\n", "TOUCHED\r\nEND\r\n");
}

#[test]
fn a_server_is_not_out_of_service_because_the_router_has_no_descriptors_left() {
    let (one, other) = (Server::start(), Server::start());
    let router = Router::start(&[
        "--num-proxies=1",
        "--config-str",
        &format!(
            r#"{{"pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}},
                "routes": {{"/r/a/": "PoolRoute|A", "/r/b/": "PoolRoute|B"}}}}"#,
            name(&one),
            name(&other)
        ),
        "--route-prefix=/r/a/",
    ]);
    let mut client = router.connect();
    client.exchange("get k\r\n", "END\r\n");
    let numbers = std::fs::read_dir(format!("/proc/{}/fd", router.process.id())).unwrap();
    let taken: Vec<u32> =
        numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let vacant = (0..).find(|number| !taken.contains(number)).expect("a number");
    limit_descriptors(router.process.id(), vacant);
    for _ in 0..20 {
        client.exchange("get /r/b/k\r\n", "SERVER_ERROR 307 busy\r\n");
    }
    client.exchange("get k\r\n", "END\r\n");
    let stats = client.stats("");
    assert_eq!((&*stats["num_hard_tko_count"], &*stats["connections_not_begun_count"]), ("0", "20"));
    wait_for_log(|| router.log(), "cannot connect to a server because this host");
    limit_descriptors(router.process.id(), 1024);
    client.exchange("get /r/b/k\r\n", "END\r\n");
}

/// Keys `key0` to `key19` are stored through a router with two servers, of which one is then killed. Returns which keys it had.
fn half_dead(start: fn(&[&str]) -> Router) -> (Router, Server, Vec<bool>) {
    let (node, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}", "{}"]}}}}, "route": "PoolRoute|A"}}"#,
        name(&node),
        name(&other)
    );
    let router = start(&["--config-str", &configuration]);
    let (mut client, mut dying) = (router.connect(), node.connect());
    let mut lost = Vec::new();
    for number in 0..20 {
        client.exchange(format!("set key{number} 0 0 1\r\nx\r\n"), "STORED\r\n");
        dying.send(format!("touch key{number} 0\r\n"));
        lost.push(dying.line() == "TOUCHED");
    }
    assert!(lost.contains(&true) && lost.contains(&false));
    drop(dying);
    node.stop("KILL");
    (router, other, lost)
}

/// A get of `key0` to `key19`, which is written as `verb` says.
fn multiget(verb: &str) -> String {
    let keys = (0..20).map(|number| format!(" key{number}"));
    format!("{verb}{}\r\n", keys.collect::<String>())
}

#[test]
fn gets_that_fail_are_misses_and_the_others_of_a_multiget_are_answered() {
    let (router, _other, lost) = half_dead(Router::start_with_misses);
    let mut client = router.connect();
    let found = lost.iter().enumerate().filter(|(_, lost)| !**lost);
    let hits: String = found.map(|(number, _)| format!("VALUE key{number} 0 1\r\nx\r\n")).collect();
    client.exchange(multiget("get"), format!("{hits}END\r\n"));
    client.exchange(multiget("gat 0"), format!("{hits}END\r\n"));
    let dead = lost.iter().position(|lost| *lost).expect("some are");
    client.exchange(format!("me key{dead}\r\n"), "EN\r\n");
    // A lease that is told to everybody would let nobody store.
    client.exchange(format!("lease-get key{dead}\r\n"), format!("LVALUE key{dead} 0 0 0\r\n\r\nEND\r\n"));
    client.exchange(
        format!("delete key{dead}\r\n"),
        "SERVER_ERROR Server unavailable: the delete could not be logged\r\n",
    );
    client.exchange("get /a/b/key\r\n", "SERVER_ERROR RootRoute: No rh found\r\n");
    assert_eq!(client.stats("cmd-error")["result_error_count"].parse::<u32>().ok(), {
        let keys = lost.iter().filter(|lost| **lost).count() as u32;
        Some(2 * keys + 2 + 1 + 1)
    });
}

#[test]
fn a_meta_get_that_fails_is_an_error_since_its_miss_says_that_there_is_no_item() {
    let (router, _other, lost) = half_dead(Router::start_with_misses);
    let mut client = router.connect();
    let dead = lost.iter().position(|lost| *lost).expect("some are");
    client.ask(format!("get key{dead}\r\n"));
    for flags in ["", " v c", " v q k O1", " v N30", " v T30"] {
        client.exchange(
            format!("mg key{dead}{flags}\r\nmn\r\n"),
            "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\nMN\r\n",
        );
    }
    // A server that answers has the say whether there is an item.
    let alive = lost.iter().position(|lost| !*lost).expect("some are");
    client.exchange(format!("mg key{alive}\r\nmd key{alive}\r\nmg key{alive}\r\n"), "HD\r\nHD\r\nEN\r\n");
}

#[test]
fn gets_that_fail_are_errors_if_clients_want_to_know() {
    let (router, _other, _) = half_dead(Router::start);
    let mut client = router.connect();
    client.send(multiget("get"));
    assert!(client.line().starts_with("SERVER_ERROR"), "one error, and nothing else");
    client.exchange("mn\r\n", "MN\r\n");
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
fn a_server_that_goes_on_talking_nonsense_is_put_out() {
    let (address, _server) = scripted(|_, _| Some(b"NONSENSE\r\n".to_vec()), 3);
    let router =
        router(&format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#));
    let mut client = router.connect();
    for _ in 0..3 {
        client.exchange("get key\r\n", "SERVER_ERROR remote error\r\n");
    }
    client.exchange("get key\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n");
}

#[test]
fn a_value_that_is_too_long_fails_alone_and_takes_no_memory() {
    const LENGTH: usize = 100 << 20;
    let long = move |key: &str| {
        [format!("VALUE {key} 0 {LENGTH}\r\n").into_bytes(), vec![b'v'; LENGTH + 2]].concat()
    };
    let reply = move |_, request: &[u8]| match request {
        b"get a long z\r\n" => Some(
            [b"VALUE a 0 1\r\nA\r\n".to_vec(), long("long"), b"VALUE z 0 1\r\nZ\r\nEND\r\n".to_vec()]
                .concat(),
        ),
        b"get a z long\r\n" => Some([long("long"), b"END\r\n".to_vec()].concat()),
        b"mg long v\r\n" => Some([format!("VA {LENGTH}\r\n").into_bytes(), vec![b'v'; LENGTH + 2]].concat()),
        b"get last\r\n" => Some(b"VALUE last 0 1\r\nL\r\nEND\r\n".to_vec()),
        _ => None,
    };
    let (address, _server) = scripted(reply, 1);
    let configuration =
        format!(r#"{{"pools": {{"A": {{"servers": ["{address}"]}}}}, "route": "PoolRoute|A"}}"#);
    let options = ["--server-timeout-ms", "60000", "--config-str", &configuration];
    let router = Router::start_with_misses(&options);
    let mut client = router.connect();
    // As a miss: what others are asked is answered, and the connection goes on.
    client.exchange("get a long z\r\n", "VALUE a 0 1\r\nA\r\nVALUE z 0 1\r\nZ\r\nEND\r\n");
    client.exchange("get a z long\r\n", "END\r\n");
    client.exchange("mg long v\r\n", "SERVER_ERROR the value is too long for the router\r\n");
    client.exchange("get last\r\n", "VALUE last 0 1\r\nL\r\nEND\r\n");
    let peak = router.process.process().peak_bytes().expect("it runs");
    assert!(peak < 96 << 20, "{} MiB", peak >> 20);
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

/// The router's counters of failovers with these names.
fn failovers(client: &mut Client, names: &[&str]) -> Vec<String> {
    let stats = client.stats("all");
    names.iter().map(|name| stats[&format!("failover_{name}")].clone()).collect()
}

const FAILOVERS: [&str; 8] = [
    "all_count",
    "all_failed_count",
    "rate_limited_count",
    "policy_result_error",
    "policy_tko_error",
    "num_collisions",
    "num_failed_domain_collisions",
    "same_failure_domain",
];

/// The expected numbers are from a model of mcrouter's algorithm.
#[test]
fn failovers_are_counted_and_leave_the_domain_of_a_server_that_is_gone() {
    let (near, far) = (Server::start(), Server::start());
    let router = router(&format!(
        r#"{{
            "pools": {{"P": {{"servers": ["{}", "{}", "{}"], "failure_domains": [1, 1, 2]}}}},
            "route": {{
                "type": "SaltedFailoverRoute", "pool": "P",
                "failover_policy": {{
                    "type": "DeterministicOrderPolicy", "max_tries": 2, "max_error_tries": 2,
                    "enable_failure_domains": true
                }}
            }}
        }}"#,
        refusing_address(),
        name(&near),
        name(&far)
    ));
    let mut client = router.connect();
    assert_eq!(failovers(&mut client, &FAILOVERS), ["0"; 8]);
    for number in 0..60 {
        client.exchange(format!("get k{number}\r\n"), "END\r\n");
    }
    let gets = [near, far].map(|server| server.connect().stats("")["cmd_get"].clone());
    assert_eq!(gets, ["21", "39"]);
    let counts = failovers(&mut client, &FAILOVERS);
    assert_eq!(counts, ["19", "0", "0", "0", "19", "0", "61", "0"]);
    let of_counts = client.stats("count");
    assert_eq!((&*of_counts["failover_policy_tko_error"], &*of_counts["failover_all_count"]), ("19", "19"));
}

#[test]
fn failures_of_failovers_and_requests_for_no_server_are_counted() {
    let failing = || scripted(|_, _| Some(b"SERVER_ERROR out\r\n".to_vec()), 1);
    let ((first, first_server), (second, second_server)) = (failing(), failing());
    let router = router(&format!(
        r#"{{
            "pools": {{"A": {{"servers": ["{first}"]}}, "B": {{"servers": ["{second}"]}}}},
            "route": {{
                "type": "PrefixSelectorRoute", "policies": {{"null:": "DevNullRoute", "none:": "NullRoute"}},
                "wildcard": {{
                    "type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"],
                    "failover_limit": {{"rate": 0.000001, "burst": 1}}
                }}
            }}
        }}"#
    ));
    let mut client = router.connect();
    client.exchange("get key\r\n", "SERVER_ERROR out\r\n");
    // The first get has used the only token of the limit.
    client.exchange("get key\r\n", "SERVER_ERROR out\r\n");
    client.exchange("set null:k 0 0 1\r\na\r\n", "NOT_STORED\r\n");
    client.exchange("delete null:k\r\n", "NOT_FOUND\r\n");
    client.exchange("get none:k\r\n", "END\r\n");
    assert_eq!(failovers(&mut client, &FAILOVERS), ["1", "1", "1", "2", "0", "0", "0", "1"]);
    assert_eq!(client.stats("all")["dev_null_requests"], "2");
    drop((client, router));
    first_server.join().expect("it was asked");
    second_server.join().expect("it was asked");
}
