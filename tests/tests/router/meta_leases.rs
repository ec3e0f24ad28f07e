//! Leases before servers that have none of their own: memcached's meta commands are what they are made of. And servers that know neither.

use crate::upstream::scripted;
use crate::{Router, name, stop};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::server::wait_for_log;
use guira_tests::{Client, Server, Setup, leases, skip};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

/// A memcached, or the end of the test.
macro_rules! memcached {
    () => {
        memcached!(Setup::new())
    };
    ($setup:expr) => {
        match $setup.start_peer() {
            Some(peer) => peer,
            None => return skip::say("memcached is not installed"),
        }
    };
}

/// A pool of these servers, with leases by meta commands or by their own.
fn config(servers: &[String], leases: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": {servers:?}, "leases": "{leases}"}}}}, "route": "PoolRoute|A"}}"#
    )
}

fn meta_router(server: &Server) -> Router {
    Router::start(&["--config-str", &config(&[name(server)], "meta")])
}

/// What a lease-get says about one key: the words of its line, and the value.
#[track_caller]
fn lease_get(client: &mut Client, key: &str) -> (Vec<String>, String) {
    let line = client.ask(format!("lease-get {key}\r\n"));
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let length = words.last().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    let value = String::from_utf8(client.take(length)).expect("text");
    client.hear("\r\nEND\r\n");
    assert_eq!(words[1], key, "{line}");
    (words, value)
}

/// The token of a key that is missing.
#[track_caller]
fn token(client: &mut Client, key: &str) -> u64 {
    let (words, _) = lease_get(client, key);
    assert_eq!((words.len(), &*words[0]), (5, "LVALUE"), "{words:?}");
    words[2].parse().expect("a token")
}

#[track_caller]
fn lease_set(client: &mut Client, key: &str, token: u64, value: &str) -> String {
    client.ask(format!("lease-set {key} {token} 7 0 {}\r\n{value}\r\n", value.len()))
}

/// What somebody else who is filling a key is known by.
const HOT: u64 = 1;

#[test]
fn one_of_a_herd_is_given_a_token_and_the_others_are_told_to_wait() {
    let memcached = memcached!();
    let router = Router::start(&["--config-str", &config(&[name(&memcached)], "meta"), "--num-proxies", "2"]);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            let (router, tell) = (&router, tell.clone());
            scope.spawn(move || {
                let mut client = router.connect();
                let given = token(&mut client, "k");
                tell.send(given).expect("somebody listens");
            });
        }
    });
    let mut tokens: Vec<u64> = told.try_iter().filter(|token| *token != HOT).collect();
    let given = tokens.pop().expect("somebody has got one");
    assert!(given > 100 && tokens.is_empty(), "{given} {tokens:?}");
    let mut client = router.connect();
    assert_eq!(lease_set(&mut client, "k", given, "value"), "STORED");
    client.exchange("lease-get k absent\r\n", "VALUE k 7 5\r\nvalue\r\nLVALUE absent 103 0 0\r\n\r\nEND\r\n");
    // A token is good for one store.
    assert_eq!(lease_set(&mut client, "k", given, "other"), "NOT_STORED");
    assert_eq!(memcached.connect().value("k").expect("it was stored").data, b"value");
}

#[test]
fn what_happens_to_a_key_voids_its_token() {
    let memcached = memcached!();
    let router = meta_router(&memcached);
    let mut client = router.connect();
    for (what, left) in [
        ("delete k\r\n", "END\r\n"),
        ("md k\r\n", "END\r\n"),
        ("set k 0 0 1\r\nx\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("ms k 1\r\ny\r\n", "VALUE k 0 1\r\ny\r\nEND\r\n"),
        ("delete k\r\nlease-get k\r\n", "END\r\n"),
    ] {
        client.ask("delete k\r\n");
        let given = token(&mut client, "k");
        client.send(what);
        client.send("mn\r\n");
        while client.line() != "MN" {}
        assert_eq!(lease_set(&mut client, "k", given, "older"), "NOT_STORED", "{what}");
        client.exchange("get k\r\n", left);
    }
    client.ask("delete k\r\n");
    for never_given in [0, HOT, 99, 100, 101, u64::MAX] {
        assert_eq!(lease_set(&mut client, "k", never_given, "x"), "NOT_STORED", "{never_given}");
    }
}

#[test]
fn a_key_that_is_to_be_filled_is_missing_to_who_knows_no_leases() {
    let memcached = memcached!();
    let router = meta_router(&memcached);
    let mut client = router.connect();
    client.exchange("set empty 0 0 0\r\n\r\nset full 4 0 1\r\nf\r\n", "STORED\r\nSTORED\r\n");
    let given = token(&mut client, "k");
    client.talk(&[
        ("get k\r\n", "END\r\n"),
        ("gets k\r\n", "END\r\n"),
        ("gat 1000 k\r\n", "END\r\n"),
        ("get empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n"),
        ("gat 0 empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n"),
        ("get full k empty none\r\n", "VALUE full 4 1\r\nf\r\nVALUE empty 0 0\r\n\r\nEND\r\n"),
        ("get k empty k full k\r\n", "VALUE empty 0 0\r\n\r\nVALUE full 4 1\r\nf\r\nEND\r\n"),
        ("get full\r\nget k\r\nget empty\r\nget full\r\n",
         "VALUE full 4 1\r\nf\r\nEND\r\nEND\r\nVALUE empty 0 0\r\n\r\nEND\r\nVALUE full 4 1\r\nf\r\nEND\r\n"),
    ]);
    let unique = memcached.connect().cas("empty");
    client.exchange("gets empty\r\n", format!("VALUE empty 0 0 {unique}\r\n\r\nEND\r\n"));
    // Who goes past the router sees it, for as long as its holder has, whatever a gat has said.
    let mut direct = memcached.connect();
    let line = direct.ask("mg k t\r\n");
    let left = line.strip_prefix("HD t").and_then(|rest| rest.strip_suffix(" Z")).expect("a time");
    assert!((8..=10).contains(&left.parse().expect("seconds")), "{line}");
    direct.exchange("get k\r\n", "VALUE k 0 0\r\n\r\nEND\r\n");
    let looks = client.stats("")["empty_value_looks_count"].clone();
    assert_eq!(lease_set(&mut client, "k", given, ""), "STORED");
    // A value with flags is one.
    client.exchange("get k\r\n", "VALUE k 7 0\r\n\r\nEND\r\n");
    let now = client.stats("")["empty_value_looks_count"].clone();
    assert_eq!((&*looks, &*now), ("14", "14"));
}

#[test]
fn another_client_is_given_a_token_when_the_holder_has_had_its_time() {
    let memcached = memcached!();
    let router = meta_router(&memcached);
    let mut client = router.connect();
    let first = token(&mut client, "k");
    assert_eq!(token(&mut client, "k"), HOT);
    // As if its ten seconds were over.
    memcached.connect().exchange("touch k -1\r\n", "TOUCHED\r\n");
    let second = token(&mut client, "k");
    assert!(second > first);
    assert_eq!(lease_set(&mut client, "k", first, "late"), "NOT_STORED");
    assert_eq!(lease_set(&mut client, "k", second, "in time"), "STORED");
    client.exchange("get k\r\n", "VALUE k 7 7\r\nin time\r\nEND\r\n");
}

#[test]
fn a_value_that_meta_commands_have_made_stale_is_given_with_the_token() {
    let memcached = memcached!();
    let router = meta_router(&memcached);
    let mut client = router.connect();
    client.exchange("set k 5 0 3\r\nold\r\nmd k I T30\r\n", "STORED\r\nHD\r\n");
    let (words, stale) = lease_get(&mut client, "k");
    assert_eq!((&*words[0], &*words[3], &*stale), ("LVALUE", "5", "old"));
    client.exchange("lease-get k\r\n", "LVALUE k 1 5 3\r\nold\r\nEND\r\n");
    assert_eq!(lease_set(&mut client, "k", words[2].parse().expect("a token"), "new"), "STORED");
    client.exchange("lease-get k\r\n", "VALUE k 7 3\r\nnew\r\nEND\r\n");
}

#[test]
fn a_server_without_cas_uniques_gives_no_leases() {
    let memcached = memcached!(Setup::new().options(&["-C"]));
    let router = meta_router(&memcached);
    let mut client = router.connect();
    client.exchange("lease-get k\r\n", "SERVER_ERROR leases need cas uniques, which are disabled\r\n");
    assert_eq!(lease_set(&mut client, "k", 105, "x"), "NOT_STORED");
}

#[test]
fn no_value_from_before_a_delete_is_stored_after_it_and_seen() {
    let memcached = memcached!();
    let configuration = config(&["%0".into()], "meta");
    let router = Setup::new().start_router(&configuration, vec![memcached]);
    leases::race_deletes(&router);
}

#[test]
fn a_store_is_sent_over_a_connection_that_nothing_was_asked_over() {
    // One server has leases of its own, the other is asked by meta commands.
    let guira = Setup::new().start_guira();
    let mut all = vec![(guira, "native")];
    all.extend(Setup::new().start_peer().map(|peer| (peer, "meta")));
    for (server, leases) in all {
        let configuration = config(&[name(&server)], leases);
        let start = || Router::start(&["--config-str", &configuration]);
        let given = token(&mut start().connect(), "k");
        let router = start();
        let mut client = router.connect();
        client.exchange(
            format!("lease-set k {given} 0 0 1\r\na\r\nlease-set k {given} 0 0 1\r\nb\r\nget k\r\nlease-set none 7 0 0 1\r\nc\r\n"),
            "STORED\r\nNOT_STORED\r\nVALUE k 0 1\r\na\r\nEND\r\nNOT_STORED\r\n",
        );
        client.exchange(
            format!("lease-set k {given} 0 0 1 noreply\r\nd\r\nget k\r\n"),
            "VALUE k 0 1\r\na\r\nEND\r\n",
        );
        server.connect().expect_value("k", "a");
    }
}

#[test]
fn servers_of_both_kinds_have_leases_in_one_pool() {
    let (guira, memcached) = (Setup::new().start_guira(), memcached!());
    let router = Router::start(&["--config-str", &config(&[name(&guira), name(&memcached)], "meta")]);
    let mut client = router.connect();
    let keys: Vec<String> = (0..40).map(|number| format!("key{number}")).collect();
    for key in &keys {
        let given = token(&mut client, key);
        assert_eq!(token(&mut client, key), HOT);
        client.exchange(format!("get {key}\r\n"), "END\r\n");
        if key.ends_with('3') {
            client.exchange(format!("delete {key}\r\n"), "DELETED\r\n");
            assert_eq!(lease_set(&mut client, key, given, "older"), "NOT_STORED");
        } else {
            assert_eq!(lease_set(&mut client, key, given, key), "STORED");
        }
    }
    let counts = [&guira, &memcached].map(|server| {
        let mut direct = server.connect();
        keys.iter().filter(|key| direct.value(key).is_some()).count()
    });
    assert!(counts.iter().all(|count| *count > 5) && counts.iter().sum::<usize>() == 36, "{counts:?}");
}

#[test]
fn a_memcached_is_never_sent_the_value_of_a_lease_by_default() {
    let memcached = memcached!();
    let router = Router::start(&["--config-str", &config(&[name(&memcached)], "native")]);
    let mut client = router.connect();
    client.exchange("set y 0 0 1\r\nY\r\n", "STORED\r\n");
    let refusal = "SERVER_ERROR the server knows no leases: \"leases\": \"meta\" of its pool makes them of meta commands\r\n";
    for _ in 0..2 {
        client.exchange("lease-get y\r\n", refusal);
        client.exchange("lease-set k 7 0 0 9\r\nflush_all\r\n", refusal);
    }
    client.exchange("get y k\r\n", "VALUE y 0 1\r\nY\r\nEND\r\n");
    let stats = client.stats("");
    assert_eq!((&*stats["num_connections_closed"], &*stats["refused_lease_count"]), ("0", "4"));
    assert_eq!(wait_for_log(|| router.log(), "knows no leases"), 1, "{}", router.log());
}

#[test]
fn what_comes_behind_a_store_that_is_refused_is_answered_in_its_order() {
    let memcached = memcached!();
    let router = Router::start(&["--config-str", &config(&[name(&memcached)], "native")]);
    let mut client = router.connect();
    let refusal = "SERVER_ERROR the server knows no leases: \"leases\": \"meta\" of its pool makes them of meta commands\r\n";
    let pipeline = [
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get a b\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("lease-set k 7 0 0 9\r\nflush_all\r\n", refusal),
        ("get a k\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("gets k\r\n", "END\r\n"),
        ("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("lease-set a 7 0 0 1 noreply\r\ny\r\n", ""),
        ("lease-set a 7 0 0 1\r\nz\r\n", refusal),
        ("mg a v k Oo\r\n", "VA 1 ka Oo\r\nx\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("get a\r\n", "END\r\n"),
        ("get k a k a\r\n", "END\r\n"),
    ];
    let (asked, told): (String, String) = pipeline.into_iter().unzip();
    for _ in 0..3 {
        client.exchange(&asked, &told);
    }
    assert_eq!(client.stats("")["num_connections_closed"], "0");
}

#[test]
fn a_store_does_not_go_over_to_a_connection_whose_server_may_be_another() {
    const ROUNDS: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    // A server that ends each connection when it has answered once.
    let server = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let (mut stream, _) = listener.accept().expect("the router connects");
            let mut request = vec![0; 1 << 10];
            let length = stream.read(&mut request).expect("the router asks");
            let text = String::from_utf8_lossy(&request[..length]);
            let key = text.strip_prefix("lease-get ").unwrap_or_else(|| panic!("{text:?} comes first"));
            let key = key.lines().next().unwrap_or_default();
            let reply = format!("LVALUE {key} 77 0 0\r\n\r\nEND\r\n");
            stream.write_all(reply.as_bytes()).expect("the router listens");
        }
    });
    let router =
        Router::start(&["--config-str", &config(&[address], "native"), "--timeouts-until-tko", "1000000"]);
    let mut client = router.connect();
    while !server.is_finished() {
        client.ask("lease-get k\r\n");
        client.send("mn\r\n");
        while client.line() != "MN" {}
        client.ask("lease-set k 77 0 0 9\r\nflush_all\r\n");
    }
    server.join().expect("nothing else was asked");
}

#[test]
fn a_server_that_knows_no_meta_commands_is_never_sent_the_value_of_a_lease() {
    let (tell, told) = mpsc::channel();
    let reply = move |_: usize, request: &[u8]| {
        tell.send(request.to_vec()).ok();
        let lines = request.split(|byte| *byte == b'\n').count() - 1;
        Some("ERROR\r\n".repeat(lines).into_bytes())
    };
    let (address, server) = scripted(reply, 1);
    let router = Router::start(&["--config-str", &config(&[address], "meta")]);
    let mut client = router.connect();
    let refusal =
        "SERVER_ERROR the server knows no meta commands, of which the leases of its pool are made\r\n";
    client.exchange("lease-set k 107 0 0 9\r\nflush_all\r\n", refusal);
    client.exchange("lease-get k\r\n", refusal);
    client.exchange("lease-set k 107 0 0 9\r\nflush_all\r\n", refusal);
    drop(client);
    drop(router);
    server.join().expect("it has answered");
    let all = told.try_iter().collect::<Vec<_>>().concat();
    assert_eq!(String::from_utf8_lossy(&all), "mn\r\nversion\r\nmg k k v f c N10\r\nmn\r\nversion\r\n");
}

#[test]
fn a_store_that_waits_for_a_server_that_says_nothing_fails_and_is_not_sent_later() {
    let (tell, told) = mpsc::channel();
    let reply = move |connection: usize, request: &[u8]| {
        tell.send(request.to_vec()).ok();
        match connection {
            0 => None,
            _ => Some(b"END\r\n".to_vec()),
        }
    };
    let (address, server) = scripted(reply, 2);
    let options = ["--server-timeout-ms", "2000"];
    let router = Router::start(&[&["--config-str", &*config(&[address], "meta")], &options[..]].concat());
    let mut client = router.connect();
    client.exchange("lease-set k 107 0 0 1\r\nx\r\n", "SERVER_ERROR remote error\r\n");
    client.exchange("get k\r\n", "END\r\n");
    drop(client);
    drop(router);
    server.join().expect("it has answered");
    let all = told.try_iter().collect::<Vec<_>>().concat();
    assert_eq!(String::from_utf8_lossy(&all), "mn\r\nget k\r\n");
}

#[test]
fn a_store_goes_to_the_server_that_stood_in_for_another() {
    let (one, other) = (memcached!(), memcached!());
    let pool = |server: &Server| format!(r#"{{"servers": ["{}"], "leases": "meta"}}"#, name(server));
    let configuration = format!(
        r#"{{"pools": {{"A": {}, "B": {}}}, "route": {{"type": "FailoverRoute", "name": "r", "enable_lease_pairing": true, "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#,
        pool(&one),
        pool(&other)
    );
    let options =
        ["--server-timeout-ms", "500", "--timeouts-until-tko", "1", "--probe-timeout-initial-ms", "50"];
    let most = ["--probe-timeout-max-ms", "100"];
    let router = Router::start(&[&["--config-str", &*configuration], &options[..], &most[..]].concat());
    let mut client = router.connect();
    stop(&one);
    let given = token(&mut client, "k");
    one.signal("CONT");
    let is_back = || (client.stats("")["num_soft_tko_count"] == "0").then_some(());
    Deadline::after(PATIENCE).poll(is_back).expect("the first server is back");
    assert_eq!(lease_set(&mut client, "k", given, "v"), "STORED");
    other.connect().expect_value("k", "v");
    // It has made the token that it was asked for and could not give.
    one.connect().exchange("mg k v\r\n", "VA 0 Z\r\n\r\n");
}
