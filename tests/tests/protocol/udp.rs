//! UDP (`-U`): frames, replies of several datagrams, and whatever else comes in datagrams.

use guira_tests::binary::{get, set};
use guira_tests::server::wait_for;
use guira_tests::udp::UdpClient;
use guira_tests::{Server, Setup, upstream_flaw};
use std::net::{TcpListener, UdpSocket};
use std::ops::Range;

fn with_udp() -> (Server, UdpClient) {
    let server = Setup::new().options(&["-U", "-1"]).start();
    let client = UdpClient::connect(server.udp_address());
    (server, client)
}

#[test]
fn a_request_in_a_datagram_is_answered_in_one() {
    let (server, client) = with_udp();
    server.connect().exchange("set foo 0 0 6\r\nfooval\r\n", "STORED\r\n");
    for id in [0, 161, 162, 162, 0xffff] {
        client.exchange(id, "get foo\r\n", "VALUE foo 0 6\r\nfooval\r\nEND\r\n");
    }
    client.exchange(1, "get nothing\r\n", "END\r\n");
    client.exchange(2, "set bar 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange(3, "incr foo 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    client.exchange(4, "delete bar\r\n", "DELETED\r\n");
    client.exchange(5, "mg foo v\r\n", "VA 6\r\nfooval\r\n");
}

#[test]
fn a_long_reply_takes_several_datagrams() {
    let (server, client) = with_udp();
    for length in [1391, 1392, 20_000, 80_000] {
        let value = "x".repeat(length);
        let mut writer = server.connect();
        writer.exchange(format!("set big 0 0 {length}\r\n{value}\r\n"), "STORED\r\n");
        client.exchange(7, "get big\r\n", format!("VALUE big 0 {length}\r\n{value}\r\nEND\r\n"));
    }
}

#[test]
fn each_command_of_a_datagram_has_a_reply_of_its_own() {
    let (server, client) = with_udp();
    let value = "x".repeat(5000);
    let mut writer = server.connect();
    writer.exchange("set foo 0 0 6\r\nfooval\r\n", "STORED\r\n");
    writer.exchange(format!("set big 0 0 5000\r\n{value}\r\n"), "STORED\r\n");
    let foo = "VALUE foo 0 6\r\nfooval\r\nEND\r\n";
    let big = format!("VALUE big 0 5000\r\n{value}\r\nEND\r\n");
    client.request(1, "get foo\r\nget big\r\nget nothing\r\nget big\r\n");
    for expected in [foo, &big, "END\r\n", &big] {
        client.hear(1, expected);
    }
    client.request(2, "mg foo v\r\nmg nothing v q\r\nmn\r\n");
    for expected in ["VA 6\r\nfooval\r\n", "MN\r\n"] {
        client.hear(2, expected);
    }
    // Data blocks, faults, and what asks for no reply.
    client.request(3, "set a 0 0 1\r\nx\r\nnonsense\r\nset c 0 0 1 noreply\r\nx\r\nget c\r\n");
    for expected in ["STORED\r\n", "ERROR\r\n", "VALUE c 0 1\r\nx\r\nEND\r\n"] {
        client.hear(3, expected);
    }
    client.request(4, [get("foo").bytes(), get("foo").bytes()].concat());
    assert_eq!((client.reply(4).len(), client.reply(4).len()), (34, 34));
    client.exchange(5, "get foo\r\n", foo);
}

#[test]
fn gets_of_many_keys_are_answered_together_whatever_follows() {
    let server = Setup::new().options(&["-U", "-1"]).start_guira();
    let client = UdpClient::connect(server.udp_address());
    server.connect().exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    client.request(1, format!("mn\r\nget{}\r\nget k\r\n", " k".repeat(500)));
    let one = "VALUE k 0 1\r\nx\r\n";
    for expected in ["MN\r\n".to_owned(), format!("{}END\r\n", one.repeat(500)), format!("{one}END\r\n")] {
        client.hear(1, expected);
    }
    // A datagram sets off this many messages and no more.
    client.request(2, "mn\r\n".repeat(100));
    for _ in 0..63 {
        client.hear(2, "MN\r\n");
    }
    client.hear(2, "MN\r\n".repeat(37));
}

#[test]
fn gets_of_many_keys_are_answered_together() {
    let (server, client) = with_udp();
    upstream_flaw!(server, "each value is a message of its own, all with the same number");
    let mut writer = server.connect();
    let mut expected = String::new();
    let mut request = "get".to_owned();
    for key in 0..100 {
        writer.exchange(format!("set key{key} 0 0 1000\r\n{}\r\n", "v".repeat(1000)), "STORED\r\n");
        expected += &format!("VALUE key{key} 0 1000\r\n{}\r\n", "v".repeat(1000));
        request += &format!(" key{key}");
    }
    client.exchange(9, format!("{request}\r\n"), format!("{expected}END\r\n"));
}

#[test]
fn the_binary_protocol_is_spoken_too() {
    let (_server, client) = with_udp();
    client.request(1, set("k", 5, "value").bytes());
    assert_eq!(client.reply(1)[6..8], [0, 0]);
    client.request(2, get("k").bytes());
    let reply = client.reply(2);
    assert!(reply.ends_with(b"\0\0\0\x05value"), "{reply:?}");
}

#[test]
fn what_is_no_request_does_no_harm() {
    let (server, client) = with_udp();
    upstream_flaw!(server, "it puts one client's datagram together with another's");
    // Too short for a frame; without a request; with half of one; said to be one of several.
    let datagrams: [&[u8]; 5] = [
        b"",
        b"\0\x01\0",
        b"\0\x01\0\0\0\x01\0\0",
        b"\0\x01\0\0\0\x01\0\0set k 0 0 5\r\nab",
        b"\0\x05\0\0\0\x02\0\0get k\r\n",
    ];
    for datagram in datagrams {
        client.send(datagram);
    }
    client.exchange(6, "nonsense\r\n", "ERROR\r\n");
    let unfinished = "get k";
    client.request(7, unfinished);
    client.exchange(8, "get k\r\n", "END\r\n");
    // Each datagram is a conversation of its own.
    server.connect().exchange("get k\r\n", "END\r\n");
}

#[test]
fn what_would_be_a_flood_is_refused() {
    let server = Setup::new().options(&["-U", "-1"]).start_guira();
    let client = UdpClient::connect(server.udp_address());
    let value = "x".repeat(1_000_000);
    server.connect().exchange(format!("set big 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    client.exchange(1, "get big big big big big\r\n", "SERVER_ERROR reply too large for UDP\r\n");
    client.exchange(2, "watch fetchers\r\n", "SERVER_ERROR not over UDP\r\n");
    client.exchange(3, "lru_crawler metadump all\r\n", "SERVER_ERROR not over UDP\r\n");
    client.request(4, "set a 0 x 5\r\nvalue\r\nmn\r\n");
    for expected in ["CLIENT_ERROR bad command line format\r\n", "MN\r\n"] {
        client.hear(4, expected);
    }
}

#[test]
fn nor_do_many_commands_in_a_datagram_set_off_a_flood() {
    let server = Setup::new().options(&["-U", "-1", "-t", "1"]).start_guira();
    let client = UdpClient::connect(server.udp_address());
    let mut tcp = server.connect();
    let value = "x".repeat(1_000_000);
    tcp.exchange(format!("set big 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    client.request(1, "get big\r\n".repeat(10));
    let written = wait_for("the replies", || {
        let written: usize = tcp.stats("")["bytes_written"].parse().expect("a number");
        (written > 1_000_000).then_some(written)
    });
    assert!((4_000_000..5_000_000).contains(&written), "{written} bytes were sent");
}

#[test]
fn each_worker_can_have_a_port_of_its_own() {
    let claim = Claim::of(2);
    let first = claim.first;
    let server = Setup::new()
        .guira_argument(&format!("--udp=127.0.0.1:{first}"))
        .guira_argument("--udp-port-per-worker")
        .start_guira();
    server.connect().exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    for port in [first, first + 1] {
        let client = UdpClient::connect(([127, 0, 0, 1], port).into());
        client.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn what_a_server_says_is_not_answered() {
    let (server, client) = with_udp();
    upstream_flaw!(server, "answers, so that two servers can be made to answer each other for ever");
    for (id, reply) in ["ERROR\r\n", "CLIENT_ERROR bad\r\n", "SERVER_ERROR bad\r\n"].into_iter().enumerate() {
        client.request(id as u16, reply);
    }
    client.send(&[&[0, 8, 0, 0, 0, 1, 0, 0, 0x81], &[0; 23][..]].concat());
    client.exchange(9, "get k\r\n", "END\r\n");
}

#[test]
fn many_long_replies_are_all_sent_though_others_have_their_turn_between_them() {
    let server = Setup::new().options(&["-U", "-1", "-t", "1"]).start_guira();
    let client = UdpClient::connect(server.udp_address());
    let mut tcp = server.connect();
    tcp.exchange(format!("set k 0 0 60000\r\n{}\r\n", "x".repeat(60_000)), "STORED\r\n");
    // Short requests, which a worker receives together, with replies of several turns. Some may get lost on the way, but all are sent.
    for id in 0..32 {
        client.request(id, "get k k k\r\n");
    }
    let number = |client: &mut guira_tests::Client, name: &str| {
        client.stats("")[name].parse::<usize>().expect("a number")
    };
    wait_for("all replies", || (number(&mut tcp, "bytes_written") > 32 * 180_000).then_some(()));
    assert_eq!(number(&mut tcp, "udp_datagrams"), 32);
}

/// Consecutive UDP ports that are free. As long as the claim exists, no other test is given them: the claim listens on
/// the TCP ports of the same numbers.
struct Claim {
    first: u16,
    _listeners: Vec<TcpListener>,
}

impl Claim {
    /// Claims `count` ports below those that the system gives to clients.
    fn of(count: u16) -> Self {
        const RANGE: Range<u16> = 20_000..32_000;
        let claim =
            |port| UdpSocket::bind(("127.0.0.1", port)).and_then(|_| TcpListener::bind(("127.0.0.1", port)));
        for first in RANGE.step_by(count.into()) {
            let listeners: Result<Vec<_>, _> = (first..first + count).map(claim).collect();
            if let Ok(listeners) = listeners {
                return Self { first, _listeners: listeners };
            }
        }
        panic!("no {count} consecutive ports are free in {RANGE:?}");
    }
}

#[test]
fn datagrams_are_answered_whichever_worker_has_their_keys() {
    for access in ["erew", "crew"] {
        let setup = Setup::new().not_with("mica").not_with("memc3").not_with("classic").not_with("fleec");
        let setup = setup.guira_argument("--engine=mica").guira_argument(&format!("--access={access}"));
        let claim = Claim::of(1);
        let port = claim.first;
        let server = setup
            .guira_argument("--workers=4")
            .guira_argument(&format!("--udp=127.0.0.1:{port}"))
            .start_guira();
        let value = "x".repeat(20_000);
        server.connect().exchange(format!("set long 0 0 20000\r\n{value}\r\n"), "STORED\r\n");
        // The system gives the datagrams of each client to one worker, which finds many at once.
        let clients: Vec<UdpClient> =
            (0..8).map(|_| UdpClient::connect(([127, 0, 0, 1], port).into())).collect();
        for (number, client) in clients.iter().enumerate() {
            for id in 0..20_u16 {
                let key = format!("key{number}.{id}");
                client.request(id, format!("set {key} 0 0 {}\r\n{key}\r\n", key.len()));
                client.request(100 + id, format!("get {key}\r\n"));
                client.request(200 + id, get(&key).bytes());
                client.request(300 + id, format!("get {key} nothing {key}\r\n"));
                client.request(400 + id, format!("set {key} 0 0 1 noreply\r\n7\r\nincr {key} 1\r\n"));
                client.request(500 + id, "get long\r\n");
                client.hear(id, "STORED\r\n");
                let item = format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len());
                client.hear(100 + id, format!("{item}END\r\n"));
                assert!(client.reply(200 + id).ends_with(key.as_bytes()));
                client.hear(300 + id, format!("{item}{item}END\r\n"));
                client.hear(400 + id, "8\r\n");
                client.hear(500 + id, format!("VALUE long 0 20000\r\n{value}\r\nEND\r\n"));
            }
        }
        let forwarded = server.connect().stats("")["forwarded_requests"].clone();
        assert!(
            forwarded.parse::<u64>().unwrap() <= 1,
            "{forwarded}: each worker answers what it has received"
        );
    }
}
