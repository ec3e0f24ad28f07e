//! MICA's datagrams (`--mica`, docs/reference/protocol-mica.md): whatever comes in one is answered in one, whichever worker its keys belong to.

use guira_tests::mica::{
    ADD, DECREMENT, DELETE, Datagram, GET, INCREMENT, LONGEST, MicaClient, REPLACE, SET, TOUCH,
};
use guira_tests::server::{run_guira, wait_for};
use guira_tests::{Server, Setup};
use std::collections::BTreeMap;

const DONE: u8 = 0;
const NOT_FOUND: u8 = 1;
const NOT_STORED: u8 = 2;
const USE_TCP: u8 = 3;
const ASK_ALONE: u8 = 4;
const NOT_A_NUMBER: u8 = 7;
const INVALID: u8 = 8;

/// Any number: what a client says that has not read the directory.
const LIE: u64 = 0x1234_5678_9abc_def0;

fn start() -> (Server, MicaClient) {
    start_with(&[])
}

fn start_with(arguments: &[&str]) -> (Server, MicaClient) {
    let mut setup = Setup::new().guira_argument("--mica=127.0.0.1:0");
    for argument in arguments {
        setup = setup.guira_argument(argument);
    }
    let server = setup.start_guira();
    let client = MicaClient::connect(&server);
    (server, client)
}

/// One that does not look at hashes, so that a test can store over TCP and read by datagram.
fn shared() -> (Server, MicaClient) {
    let setup = Setup::new().not_with("mica").guira_argument("--mica=127.0.0.1:0");
    let server = setup.start_guira();
    let client = MicaClient::connect(&server);
    (server, client)
}

#[test]
fn a_datagram_is_answered_by_one_that_tells_whose_it_is() {
    let (_server, client) = start();
    let datagram = Datagram::new(client.generation, 0xdead_beef, u64::MAX - 7)
        .storing(SET, "a", b"value", LIE, 9, 0)
        .with(GET, "a", b"", LIE)
        .with(GET, "b", b"", LIE);
    client.send(0, &datagram.0);
    let reply = client.hear();
    assert_eq!((reply.kind, reply.sequence, reply.opaque), (2, 0xdead_beef, u64::MAX - 7));
    assert_eq!(reply.records, [(DONE, 0, vec![]), (DONE, 9, b"value".to_vec()), (NOT_FOUND, 0, vec![])]);
}

#[test]
fn each_operation_means_what_memcacheds_means() {
    let (_server, client) = start();
    let one = |operation, value: &[u8]| client.one(operation, "key", value, LIE);
    assert_eq!(one(REPLACE, b"0"), (NOT_STORED, vec![]));
    assert_eq!(one(DELETE, b""), (NOT_FOUND, vec![]));
    assert_eq!(one(TOUCH, b""), (NOT_FOUND, vec![]));
    assert_eq!(one(INCREMENT, &1u64.to_le_bytes()), (NOT_FOUND, vec![]));
    assert_eq!(one(ADD, b"10"), (DONE, vec![]));
    assert_eq!(one(ADD, b"11"), (NOT_STORED, vec![]));
    assert_eq!(one(GET, b""), (DONE, b"10".to_vec()));
    assert_eq!(one(REPLACE, b"99"), (DONE, vec![]));
    assert_eq!(one(INCREMENT, &2u64.to_le_bytes()), (DONE, 101u64.to_le_bytes().to_vec()));
    assert_eq!(one(GET, b""), (DONE, b"101".to_vec()));
    assert_eq!(one(DECREMENT, &1000u64.to_le_bytes()), (DONE, 0u64.to_le_bytes().to_vec()));
    assert_eq!(one(SET, b"text"), (DONE, vec![]));
    assert_eq!(one(INCREMENT, &1u64.to_le_bytes()), (NOT_A_NUMBER, vec![]));
    assert_eq!(one(TOUCH, b""), (DONE, vec![]));
    assert_eq!(one(DELETE, b""), (DONE, vec![]));
    assert_eq!(one(GET, b""), (NOT_FOUND, vec![]));
    let noop = Datagram::new(client.generation, 1, 1).with(0, "", b"", 0);
    assert_eq!(client.ask(0, &noop), [(DONE, 0, vec![])]);
}

#[test]
fn expiration_times_are_memcacheds() {
    let (server, client) = start_with(&["--test-commands"]);
    let datagram = Datagram::new(client.generation, 1, 1)
        .storing(SET, "gone", b"1", LIE, 0, -1)
        .storing(SET, "soon", b"2", LIE, 0, 100)
        .storing(SET, "later", b"3", LIE, 0, 0)
        .storing(TOUCH, "later", b"", LIE, 0, 200);
    assert!(client.ask(0, &datagram).iter().all(|(status, ..)| *status == DONE));
    assert_eq!(client.one(GET, "gone", b"", LIE), (NOT_FOUND, vec![]));
    assert_eq!(client.one(GET, "soon", b"", LIE), (DONE, b"2".to_vec()));
    server.connect().exchange("debugtime 150\r\n", "OK\r\n");
    assert_eq!(client.one(GET, "soon", b"", LIE), (NOT_FOUND, vec![]));
    assert_eq!(client.one(GET, "later", b"", LIE), (DONE, b"3".to_vec()));
    server.connect().exchange("debugtime 100\r\n", "OK\r\n");
    assert_eq!(client.one(GET, "later", b"", LIE), (NOT_FOUND, vec![]));
}

#[test]
fn what_was_stored_over_tcp_is_found_and_the_other_way_round() {
    let (server, client) = shared();
    let mut tcp = server.connect();
    tcp.exchange("set over-tcp 7 0 3\r\nabc\r\n", "STORED\r\n");
    let get = Datagram::new(client.generation, 1, 1).with(GET, "over-tcp", b"", LIE);
    assert_eq!(client.ask(1, &get), [(DONE, 7, b"abc".to_vec())]);
    let set = Datagram::new(client.generation, 1, 1).storing(SET, "by-datagram", b"xyz", LIE, 8, 0);
    assert_eq!(client.ask(1, &set), [(DONE, 0, vec![])]);
    tcp.exchange("get by-datagram\r\n", "VALUE by-datagram 8 3\r\nxyz\r\nEND\r\n");
}

#[test]
fn only_mica_believes_a_clients_hash() {
    let (server, client) = start_with(&["--engine=mica"]);
    let mut tcp = server.connect();
    tcp.exchange("set key 0 0 3\r\ntcp\r\n", "STORED\r\n");
    // A lie makes a second item, which only the same lie finds.
    assert_eq!(client.one(GET, "key", b"", LIE), (NOT_FOUND, vec![]));
    assert_eq!(client.one(SET, "key", b"lie", LIE), (DONE, vec![]));
    assert_eq!(client.one(GET, "key", b"", LIE), (DONE, b"lie".to_vec()));
    assert_eq!(client.one(GET, "key", b"", !LIE), (NOT_FOUND, vec![]));
    tcp.exchange("get key\r\n", "VALUE key 0 3\r\ntcp\r\nEND\r\n");
    assert_eq!(client.one(DELETE, "key", b"", LIE), (DONE, vec![]));
    tcp.exchange("get key\r\n", "VALUE key 0 3\r\ntcp\r\nEND\r\n");
}

#[test]
fn the_directory_tells_how_keys_are_divided() {
    let (_server, client) = start_with(&["--engine=mica", "--access=crew", "--index=lossy:partitions=4"]);
    let body = client.directory().body;
    let number = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
    assert_eq!(
        (body[0], body[1], number(2), number(4)),
        (2, 1, 2, 2),
        "crew, rapidhash, 2 cores, 4 partitions"
    );
    assert_eq!(u32::from_le_bytes([body[16], body[17], body[18], body[19]]), LONGEST as u32);
    let (_server, client) = shared();
    let body = client.directory().body;
    assert_eq!((body[0], body[1], body[4], &body[8..16]), (0, 0, 0, &[0; 8][..]), "shared by all workers");
}

#[test]
fn a_client_with_another_directory_is_refused_and_nothing_is_done() {
    let (_server, client) = start();
    let stale = Datagram::new(client.generation ^ 1, 5, 6).with(SET, "key", b"1", LIE);
    client.send(1, &stale.0);
    let reply = client.hear();
    assert_eq!((reply.kind, reply.generation, reply.sequence, reply.opaque), (3, client.generation, 5, 6));
    assert_eq!(client.one(GET, "key", b"", LIE), (NOT_FOUND, vec![]));
}

#[test]
fn replies_that_do_not_fit_together_have_to_be_asked_for_alone_and_those_that_never_fit_over_tcp() {
    let (server, client) = shared();
    let mut tcp = server.connect();
    // A header of 24 bytes and a record of 8 before it.
    for (key, length) in [("fits", LONGEST - 32), ("never", LONGEST - 31), ("long", 100_000)] {
        tcp.exchange(format!("set {key} 0 0 {length}\r\n{}\r\n", "x".repeat(length)), "STORED\r\n");
    }
    assert_eq!(client.one(GET, "fits", b"", LIE), (DONE, vec![b'x'; LONGEST - 32]));
    assert_eq!(client.one(GET, "never", b"", LIE), (USE_TCP, vec![]));
    assert_eq!(client.one(GET, "long", b"", LIE), (USE_TCP, vec![]));
    let several = Datagram::new(client.generation, 1, 1)
        .with(SET, "number", b"1", LIE)
        .with(GET, "fits", b"", LIE)
        .with(INCREMENT, "number", &41u64.to_le_bytes(), LIE)
        .with(GET, "number", b"", LIE);
    let number = 42u64.to_le_bytes().to_vec();
    let expected = [(DONE, 0, vec![]), (ASK_ALONE, 0, vec![]), (DONE, 0, number), (DONE, 0, b"42".to_vec())];
    assert_eq!(client.ask(0, &several), expected, "what changes something is always answered");
}

#[test]
fn a_datagram_as_full_as_can_be_is_answered() {
    let (_server, client) = start();
    let mut datagram = Datagram::new(client.generation, 1, 1);
    while datagram.0.len() + 20 <= LONGEST {
        datagram = datagram.with(0, "", b"", 0);
    }
    let count = (LONGEST - 24) / 20;
    assert_eq!(client.ask(0, &datagram), vec![(DONE, 0, vec![]); count]);
    let mut keys = Datagram::new(client.generation, 1, 1);
    for number in 0.. {
        let next = keys.clone().with(INCREMENT, &format!("{number}"), &1u64.to_le_bytes(), LIE);
        if next.0.len() > LONGEST {
            break;
        }
        keys = next;
    }
    assert!(client.ask(0, &keys).iter().all(|record| *record == (NOT_FOUND, 0, vec![])));
}

#[test]
fn a_request_that_makes_no_sense_is_refused_and_the_others_are_done() {
    let (_server, client) = start();
    let datagram = Datagram::new(client.generation, 1, 1)
        .with(99, "key", b"", LIE)
        .with(GET, "", b"", LIE)
        .with(GET, "key", b"value", LIE)
        .with(INCREMENT, "key", b"1", LIE)
        .with(GET, &"k".repeat(251), b"", LIE)
        .with(SET, "key", b"1", LIE)
        .with(GET, "key", b"", LIE);
    let mut expected = vec![(INVALID, 0, vec![]); 5];
    expected.extend([(DONE, 0, vec![]), (DONE, 0, b"1".to_vec())]);
    assert_eq!(client.ask(0, &datagram), expected);
}

#[test]
fn of_a_datagram_that_is_cut_short_or_too_long_nothing_is_done() {
    let (server, client) = start();
    let whole = Datagram::new(client.generation, 3, 4).with(SET, "a", b"1", LIE).with(SET, "b", b"22", LIE).0;
    for length in 24..whole.len() {
        client.send(0, &whole[..length]);
        let reply = client.hear();
        assert_eq!((reply.kind, reply.sequence, reply.opaque), (4, 3, 4), "cut short to {length}");
    }
    let trailing = [&whole[..], b"x"].concat();
    client.send(0, &trailing);
    assert_eq!(client.hear().kind, 4, "something follows");
    let mut more = whole.clone();
    more[4..6].copy_from_slice(&u16::MAX.to_le_bytes());
    client.send(0, &more);
    assert_eq!(client.hear().kind, 4, "there are fewer");
    assert_eq!(client.one(GET, "a", b"", LIE), (NOT_FOUND, vec![]));
    let stats = server.connect().stats("");
    assert_eq!(stats["mica_malformed"], (whole.len() - 24 + 2).to_string());
}

#[test]
fn what_is_no_request_is_not_answered_lest_two_servers_talk_for_ever() {
    let (_server, client) = start();
    let header = |version: u8, kind: u8| {
        let mut bytes = Datagram::new(client.generation, 9, 9).0;
        (bytes[2], bytes[3]) = (version, kind);
        bytes
    };
    client.send(0, b"");
    client.send(0, b"get a\r\n");
    client.send(0, &[0; LONGEST]);
    client.send(0, &vec![0xff; 60_000]);
    for kind in [2, 3, 4, 6] {
        client.send(0, &header(1, kind));
    }
    // A question that is shorter than its answer.
    client.send(0, &header(1, 5));
    client.expect_nothing_before(1000);
    for (version, kind) in [(1, 99), (1, 0), (2, 2), (2, 4), (0, 6)] {
        client.send(0, &header(version, kind));
    }
    client.expect_nothing_before(1001);
    for (version, kind) in [(2, 1), (0, 1), (2, 5)] {
        client.send(0, &header(version, kind));
        assert_eq!((client.hear().kind, version, kind), (4, version, kind), "it is not understood");
    }
}

#[test]
fn a_datagram_that_comes_twice_is_answered_twice() {
    let (_server, client) = start();
    let set = Datagram::new(client.generation, 1, 1).with(SET, "key", b"1", LIE);
    client.send(0, &set.0);
    client.send(0, &set.0);
    assert_eq!(client.hear(), client.hear());
    assert_eq!(client.one(GET, "key", b"", LIE), (DONE, b"1".to_vec()));
}

#[test]
fn requests_that_another_worker_should_have_got_are_done_and_counted() {
    for access in ["--access=erew", "--access=crew", "--access=crcw"] {
        let (server, client) = start_with(&["--engine=mica", access]);
        // The highest bit says which of two workers it is.
        for (worker, hash) in [(0, LIE), (1, LIE | 1 << 63), (1, LIE), (0, LIE | 1 << 63)] {
            let datagram = Datagram::new(client.generation, 1, 1)
                .with(SET, "key", b"v", hash)
                .with(GET, "key", b"", hash);
            assert_eq!(client.ask(worker, &datagram), [(DONE, 0, vec![]), (DONE, 0, b"v".to_vec())]);
        }
        let expected = match access {
            "--access=erew" => "4",
            "--access=crew" => "2",
            _ => "0",
        };
        assert_eq!(server.connect().stats("")["mica_misdirected"], expected, "{access}");
    }
}

#[test]
fn bursts_and_requests_are_counted() {
    let (server, client) = start();
    for _ in 0..10 {
        let datagram =
            Datagram::new(client.generation, 1, 1).with(GET, "a", b"", LIE).with(GET, "b", b"", LIE);
        client.ask(1, &datagram);
    }
    let mut tcp = server.connect();
    let stats = tcp.stats("");
    assert_eq!((stats["mica_requests"].as_str(), stats["cmd_get"].as_str()), ("20", "20"));
    let bursts = tcp.stats("bursts");
    let of_one: u64 = bursts["1:1"].parse().unwrap();
    assert!((1..=10).contains(&of_one), "{bursts:?}");
    assert!(bursts.contains_key("0:64") && !bursts.contains_key("2:1"));
}

#[test]
fn datagrams_that_come_too_fast_or_are_too_long_are_counted() {
    const SENT: u64 = 30_000;
    let (server, client) = start();
    let question = Datagram::new(client.generation, 1, 1).with(GET, "key", b"", LIE);
    client.send(0, &[0; LONGEST + 1]);
    client.ask(0, &question);
    let mut tcp = server.connect();
    let count = |stats: &BTreeMap<String, String>, name: &str| stats[name].parse::<u64>().unwrap();
    let before = tcp.stats("");
    assert_eq!((count(&before, "mica_malformed"), count(&before, "mica_dropped")), (1, 0));
    assert_eq!(count(&before, "mica_unsent"), 0);
    server.signal("STOP");
    for _ in 0..SENT {
        client.send(0, &question.0);
    }
    server.signal("CONT");
    let after = wait_for("all datagrams", || {
        let stats = tcp.stats("");
        let taken = count(&stats, "mica_datagrams") - count(&before, "mica_datagrams");
        (taken + count(&stats, "mica_dropped") == SENT).then_some(stats)
    });
    assert!(count(&after, "mica_dropped") > 0, "{after:?}");
    tcp.exchange("stats reset\r\n", "RESET\r\n");
    assert_eq!(count(&tcp.stats(""), "mica_dropped"), 0);
}

#[test]
fn a_server_that_cannot_have_its_ports_says_which() {
    let (server, _client) = start();
    let address = server.connect().stats("settings")["mica"].clone();
    let output = run_guira(&["serve", "--listen", "127.0.0.1:0", "--workers", "1", "--mica", &address]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(&format!("MICA datagrams at {address}")), "{text}");
    let output = run_guira(&["serve", "--mica", "here"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("must be IP:PORT"));
}
