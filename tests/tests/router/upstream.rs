//! Connections to servers: what was asked and what is answered stay together, whatever servers and clients do.

use crate::{Router, config_of, name};
use guira_harness::socket::Address;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::{Server, Setup, skip};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;
use std::time::Duration;

/// A server that answers what `reply` makes of each request that it reads, for as long as that is something; then it waits for the end.
pub(crate) fn scripted(
    mut reply: impl FnMut(usize, &[u8]) -> Option<Vec<u8>> + Send + 'static,
    connections: usize,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let serve = move || {
        for connection in 0..connections {
            let (mut stream, _) = listener.accept().expect("the router connects");
            let mut request = vec![0; 1 << 16];
            loop {
                let length = stream.read(&mut request).unwrap_or(0);
                match reply(connection, &request[..length]) {
                    Some(reply) if length > 0 => stream.write_all(&reply).expect("the router listens"),
                    _ => break,
                }
            }
        }
    };
    (address, std::thread::spawn(serve))
}

fn router(addresses: &[&str], options: &[&str]) -> Router {
    let servers = addresses.iter().map(|address| format!("{address:?}")).collect::<Vec<_>>().join(", ");
    let configuration =
        format!(r#"{{"pools": {{"A": {{"servers": [{servers}]}}}}, "route": "PoolRoute|A"}}"#);
    let fixed = ["--config-str", &configuration];
    Router::start(&[&fixed, options].concat())
}

#[test]
fn a_key_with_a_byte_0_reaches_no_server_and_its_value_is_no_command() {
    let node = Server::start();
    let router = Router::start(&["--config-str", &config_of(&node)]);
    let mut client = router.connect();
    client.exchange("set y 0 0 1\r\nY\r\n", "STORED\r\n");
    client.exchange("set a\0b 0 0 9\r\nflush_all\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.exchange("set a\0b 0 0 9 noreply\r\nflush_all\r\nmn\r\n", "MN\r\n");
    client.exchange("ms a\0b 9\r\nflush_all\r\n", "CLIENT_ERROR bad command line format\r\n");
    for line in [
        "get q\0",
        "get q\0 y",
        "gets y q\0",
        "gat 0 q\0",
        "delete y\0b",
        "touch y\0 0",
        "incr y\0 1",
        "mg y\0 v",
        "md y\0",
    ] {
        client.exchange(
            format!("{line}\r\nget y\r\n"),
            "CLIENT_ERROR bad command line format\r\nVALUE y 0 1\r\nY\r\nEND\r\n",
        );
    }
    // In base64 a server takes it for what it is.
    client.exchange("ms YQBi 1 b\r\nZ\r\nmg YQBi b k v\r\n", "HD\r\nVA 1 kYQBi b\r\nZ\r\n");
}

#[test]
fn a_store_with_more_flags_than_servers_take_reaches_none_and_its_value_is_no_command() {
    let peer = Setup::new().start_peer();
    if peer.is_none() {
        skip::say("memcached is not installed");
    }
    let flags = "T0 N0 R0 F0 C0 J0 D1 MS O1 P L I c f h k l";
    for node in [Some(Server::start()), peer].into_iter().flatten() {
        let configuration = format!(
            r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "routes": [
                {{"aliases": ["/a/b/"], "route": "PoolRoute|A"}},
                {{"aliases": ["/a/late/"], "route": {{"type": "ModifyExptimeRoute", "exptime": 60, "target": "PoolRoute|A"}}}}
            ]}}"#,
            name(&node)
        );
        let router = Router::start(&["--config-str", &configuration, "-R", "/a/b/"]);
        let mut client = router.connect();
        client.exchange("set y 0 0 1\r\nY\r\n", "STORED\r\n");
        client.exchange(format!("ms z 8 {flags}\r\ndelete y\r\n"), "CLIENT_ERROR malformed request\r\n");
        // With a time that the route adds there is one more.
        let flags = flags.trim_start_matches("T0 ");
        client.exchange(
            format!("ms /a/late/z 8 {flags}\r\ndelete y\r\n"),
            "CLIENT_ERROR malformed request\r\n",
        );
        client.exchange(
            format!("ms z 8 {flags}\r\ndelete y\r\nget y\r\n"),
            "NF O1 c0 kz\r\nVALUE y 0 1\r\nY\r\nEND\r\n",
        );
        assert_eq!(client.stats("")["num_connections_closed"], "0");
    }
}

#[test]
fn a_store_that_a_server_does_not_understand_costs_its_connection() {
    // As a server that knows no meta commands: the line is an error, and the value is another line.
    let reply = |connection: usize, request: &[u8]| match (connection, request) {
        (0, b"ms k 5\r\nhello\r\n") => Some(b"ERROR\r\nERROR\r\n".to_vec()),
        (1, b"get k\r\n") => Some(b"END\r\n".to_vec()),
        _ => None,
    };
    let (address, server) = scripted(reply, 2);
    let router = router(&[&address], &[]);
    let mut client = router.connect();
    client.exchange("ms k 5\r\nhello\r\n", "ERROR\r\n");
    client.exchange("get k\r\n", "END\r\n");
    drop(client);
    drop(router);
    server.join().expect("it has answered");
}

#[test]
fn a_flag_that_a_server_does_not_know_costs_no_connection() {
    let Some(node) = Setup::new().start_peer() else {
        skip::say("memcached is not installed");
        return;
    };
    let router = Router::start(&["--config-str", &config_of(&node)]);
    let mut client = router.connect();
    client.exchange("set y 0 0 1\r\nY\r\n", "STORED\r\n");
    // Invalidation without deleting is only of md.
    client.exchange(
        "ms z 8 x\r\ndelete y\r\nget y\r\n",
        "CLIENT_ERROR invalid flag\r\nVALUE y 0 1\r\nY\r\nEND\r\n",
    );
    assert_eq!(client.stats("")["num_connections_closed"], "0");
}

#[test]
fn a_flag_without_meaning_for_a_command_costs_no_connection() {
    let node = Server::start();
    let router = Router::start(&["--config-str", &config_of(&node)]);
    let mut client = router.connect();
    client.exchange("set y 0 0 1\r\nY\r\nmd y v k\r\nmd y v\r\n", "STORED\r\nHD ky\r\nNF\r\n");
    client.exchange("ms y 1 v\r\nY\r\nmd y v q\r\nmn\r\n", "HD\r\nMN\r\n");
    let stats = client.stats("");
    assert_eq!((&*stats["num_connections_closed"], &*stats["result_remote_error_count"]), ("0", "0"));
}

#[test]
fn a_key_that_is_no_text_is_repeated_in_base64_and_costs_no_connection() {
    let nodes = [Some(Server::start()), Setup::new().start_peer()];
    for node in nodes.into_iter().flatten() {
        let router = Router::start(&["--config-str", &config_of(&node)]);
        let mut client = router.connect();
        for key in ["YSBi", "YQpi", "DQo="] {
            client.exchange(format!("mg {key} b k N30 v\r\n"), format!("VA 0 W k{key} b\r\n\r\n"));
            client.exchange(format!("mg {key} k v O1 b\r\n"), format!("VA 0 O1 Z k{key} b\r\n\r\n"));
            client.exchange(format!("ms {key} 1 b k\r\nx\r\n"), format!("HD k{key} b\r\n"));
            client.exchange(format!("md {key} k b q\r\nmd {key} k b\r\n"), format!("NF k{key} b\r\n"));
        }
        assert_eq!(client.stats("")["num_connections_closed"], "0");
    }
}

#[test]
fn flags_of_64_bits_are_passed_on_and_cost_no_connection() {
    const HIT: &str = "VALUE k 18446744073709551615 1\r\nx\r\nEND\r\n";
    const UNIQUE: &str = "VALUE k 4294967296 1 7\r\nx\r\nEND\r\n";
    const LEASE: &str = "LVALUE k 9 4294967297 1\r\nx\r\nEND\r\n";
    const META: &str = "VA 1 kk f4294967298\r\nx\r\n";
    let exchanges =
        [("get k\r\n", HIT), ("gets k\r\n", UNIQUE), ("lease-get k\r\n", LEASE), ("mg k v k f\r\n", META)];
    let reply = move |_: usize, request: &[u8]| {
        let known = exchanges.iter().find(|(line, _)| line.as_bytes() == request);
        known.map(|(_, reply)| reply.as_bytes().to_vec())
    };
    let (address, server) = scripted(reply, 1);
    let router = router(&[&address], &[]);
    let mut client = router.connect();
    for (line, reply) in exchanges {
        client.exchange(line, reply);
    }
    drop(client);
    drop(router);
    server.join().expect("it has answered all over one connection");
}

#[test]
fn a_reply_to_another_kind_of_request_is_nobodys() {
    for (request, reply) in [
        ("set k 0 0 1\r\nx\r\n", "DELETED\r\n"),
        ("set k 0 0 1\r\nx\r\n", "VERSION 1.6.45\r\n"),
        ("touch k 0\r\n", "STORED\r\n"),
        ("incr k 1\r\n", "STORED\r\n"),
        ("ms k 1\r\nx\r\n", "EN\r\n"),
        ("mg k v\r\n", "HDx\r\n"),
        ("get k\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 0 1\r\nx\r\nSTORED\r\n"),
    ] {
        let answer = move |connection, request: &[u8]| match connection {
            0 => Some(reply.as_bytes().to_vec()),
            _ => (request == b"get other\r\n").then(|| b"END\r\n".to_vec()),
        };
        let (address, server) = scripted(answer, 2);
        let router = router(&[&address], &[]);
        let mut client = router.connect();
        client.send(request);
        let line = client.line();
        if reply.starts_with("VALUE") {
            assert_eq!(
                (line.as_str(), client.line(), client.line()),
                ("VALUE k 0 1", "x".into(), "END".into())
            );
        } else {
            assert_eq!(line, "SERVER_ERROR remote error", "{request:?} {reply:?}");
        }
        client.exchange("get other\r\n", "END\r\n");
        drop(client);
        drop(router);
        server.join().expect("it was asked twice");
    }
}

#[test]
fn what_was_not_sent_over_a_connection_that_has_ended_is_sent_over_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let router = router(&[&address], &[]);
    let mut client = router.connect();
    let answer = |stream: &mut TcpStream, expected: &[u8], reply: &[u8]| {
        let mut request = vec![0; expected.len()];
        stream.read_exact(&mut request).expect("the router asks");
        assert_eq!(request, expected);
        stream.write_all(reply).expect("the router listens");
    };
    listener.set_nonblocking(true).expect("a socket of ours");
    let mut lost = 0;
    for number in 0..50 {
        client.send(format!("incr n {number}\r\n"));
        // A kernel with much to do may tell the router of the end when the request has gone after it.
        let Some((mut stream, _)) = Deadline::after(Duration::from_secs(2)).poll(|| listener.accept().ok())
        else {
            assert_eq!(client.line(), "SERVER_ERROR remote error");
            lost += 1;
            continue;
        };
        stream.set_nonblocking(false).expect("a socket of ours");
        answer(&mut stream, format!("incr n {number}\r\n").as_bytes(), b"7\r\n");
        assert_eq!(client.line(), "7");
        // The router hears of the end, and of the next request, in any order.
        drop(stream);
    }
    assert!(lost < 5, "{lost} of 50 requests were lost");
}

#[test]
fn a_server_that_always_answers_too_late_is_put_out() {
    // Replies come when the router has given up, which it does before it sends the next request.
    let mut held: Vec<u8> = Vec::new();
    let reply = move |_: usize, request: &[u8]| {
        let before = std::mem::take(&mut held);
        held = if request.starts_with(b"get") { b"END\r\n".to_vec() } else { Vec::new() };
        Some(before)
    };
    let (address, _server) = scripted(reply, 1000);
    let router = router(&[&address], &["--server-timeout-ms", "50", "--probe-timeout-initial-ms", "60000"]);
    let mut client = router.connect();
    for _ in 0..3 {
        client.exchange("get k\r\n", "SERVER_ERROR Reply timeout\r\n");
    }
    client.exchange("get k\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n");
}

#[test]
fn a_server_that_has_not_accepted_others_yet_is_busy_and_not_out() {
    let folder = guira_harness::scratch::Scratch::new();
    let path = folder.path().join("full");
    let listener = UnixListener::bind(&path).expect("a free path");
    rustix::net::listen(&listener, 0).expect("it listens");
    let _waiting: Vec<_> = (0..2).map_while(|_| connect_at_once(&path)).collect();
    let router = router(&[&format!("unix:{}", path.display())], &["--probe-timeout-initial-ms", "60000"]);
    let mut client = router.connect();
    client.exchange("get k\r\n", "SERVER_ERROR 307 busy\r\n");
    client.exchange("get k\r\n", "SERVER_ERROR 307 busy\r\n");
}

/// A connection, if that takes no time.
fn connect_at_once(path: &std::path::Path) -> Option<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let (stream, flags) = (SocketType::STREAM, SocketFlags::NONBLOCK);
    let socket = socket_with(AddressFamily::UNIX, stream, flags, None).expect("a socket");
    connect(&socket, &SocketAddrUnix::new(path).expect("a short path")).ok().map(|()| socket)
}

#[test]
fn a_long_get_does_not_end_since_another_get_has_failed() {
    let node = Server::start();
    let name_of_node = name(&node);
    let router = router(&[&name_of_node], &[]);
    let mut client = router.connect();
    let keys: Vec<String> = (0..1500).map(|number| format!("key{number}")).collect();
    client.exchange("set key1499 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange(
        format!("get /no/route/a /no/route/b\r\nget {}\r\nmn\r\n", keys.join(" ")),
        "SERVER_ERROR RootRoute: No rh found\r\nVALUE key1499 0 1\r\nx\r\nEND\r\nMN\r\n",
    );
}

#[test]
fn long_gets_are_answered_in_parts_and_fail_in_one_place() {
    let (node, other) = (Server::start(), Server::start());
    let (name_of_one, name_of_other) = (name(&node), name(&other));
    let router = router(&[&name_of_one, &name_of_other], &[]);
    let mut client = router.connect();
    let keys: Vec<String> = (0..5000).map(|number| format!("key{number}")).collect();
    let mut hits = String::new();
    for key in keys.iter().step_by(7) {
        client.exchange(format!("set {key} 3 0 5\r\nvalue\r\n"), "STORED\r\n");
        hits += &format!("VALUE {key} 3 5\r\nvalue\r\n");
    }
    for blanks in ["", "   "] {
        let get = format!("get {}{blanks}\r\nmn\r\n", keys.join(" "));
        client.exchange(get, format!("{hits}END\r\nMN\r\n"));
    }
    node.stop("KILL");
    client.send(format!("get {}\r\nmn\r\n", keys.join(" ")));
    let lines = std::iter::from_fn(|| Some(client.line()).filter(|line| line != "MN"));
    let lines: Vec<String> = lines.filter(|line| !line.starts_with("VALUE") && line != "value").collect();
    assert!(lines.len() == 1 && lines[0].starts_with("SERVER_ERROR"), "{lines:?}");
}

#[test]
fn quiet_flushes_are_not_answered() {
    let node = Server::start();
    let router = Router::start(&["--config-str", &config_of(&node)]);
    router
        .connect()
        .exchange("flush_all noreply\r\nflush_all 5 noreply\r\nflush_prefix a noreply\r\nmn\r\n", "MN\r\n");
}

#[test]
fn a_meta_reply_repeats_what_its_client_has_sent_whoever_answers() {
    let node = Server::start();
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "routes": [
            {{"aliases": ["/a/null/"], "route": "NullRoute"}},
            {{"aliases": ["/a/long/"], "route": {{"type": "ModifyKeyRoute", "ensure_key_prefix": "long:", "target": "PoolRoute|A"}}}},
            {{"aliases": ["/a/b/"], "route": "PoolRoute|A"}}
        ]}}"#,
        name(&node)
    );
    let router = Router::start(&["--config-str", &configuration, "-R", "/a/b/"]);
    let mut client = router.connect();
    client.exchange("ms /a/null/k 1 O78 k\r\nx\r\n", "NS O78 k/a/null/k\r\n");
    client.exchange("mg /a/null/k k v O9 q\r\nmg /a/null/k k v O9\r\nmn\r\n", "EN k/a/null/k O9\r\nMN\r\n");
    client.exchange("md /a/null/k O1\r\n", "NF O1\r\n");
    client.exchange("ms /a/b/k 1 k O7\r\nx\r\n", "HD k/a/b/k O7\r\n");
    client.exchange("mg /a/b/k k v\r\n", "VA 1 k/a/b/k\r\nx\r\n");
    client.exchange("ms /a/long/k 1 O5\r\ny\r\n", "HD O5\r\n");
    client.exchange("mg /a/long/k O6 k v\r\n", "VA 1 O6 k/a/long/k\r\ny\r\n");
    node.connect().exchange("get long:k\r\n", "VALUE long:k 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn a_carriage_return_in_a_meta_command_ends_neither_its_line_nor_the_connection_to_its_server() {
    let node = Server::start();
    let router = Router::start(&["--config-str", &config_of(&node)]);
    let mut client = router.connect();
    client.exchange("ms a\rb 1 O1 k\r\nx\r\n", "HD O1 ka\rb\r\n");
    client.exchange("mg a\rb O2\r3 k v\r\n", "VA 1 O2\r3 ka\rb\r\nx\r\n");
    client.exchange("ma a\rb v O4\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    client.exchange("md a\rb O5\r\n", "HD O5\r\n");
    assert_eq!(client.stats("")["num_connections_closed"], "0");
}

#[test]
fn a_connection_that_is_not_used_is_closed_and_opened_again() {
    let node = Server::start();
    let router = router(
        &[&name(&node)],
        &["--reset-inactive-connection-interval", "50", "--server-timeout-ms", "1000"],
    );
    let mut client = router.connect();
    let connections = || node.connect().stats("")["curr_connections"].parse::<u64>().expect("a number");
    let without = connections();
    for _ in 0..3 {
        client.exchange("get k\r\n", "END\r\n");
        Deadline::after(PATIENCE).poll(|| (connections() == without).then_some(())).expect("it is closed");
    }
    let servers = client.stats("servers");
    assert!(servers.values().any(|line| line.contains(" closed:1;")), "{servers:?}");
}

#[test]
fn no_more_requests_than_are_allowed_wait_for_a_server() {
    let node = Server::start();
    let limits = ["--target-max-inflight-requests", "2", "--target-max-pending-requests", "3"];
    let router = router(&[&name(&node)], &limits);
    let mut client = router.connect();
    client.exchange("get a b c d e\r\n", "END\r\n");
    client.exchange("get a b c d e f\r\n", "SERVER_ERROR 307 busy\r\n");
    client.exchange("get a b c d e\r\n", "END\r\n");
}

#[test]
fn a_client_has_the_replica_of_its_host() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}},
            "route": {{"type": "OriginalClientHashRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#,
        name(&one),
        name(&other)
    );
    let router = Router::start(&["--config-str", &configuration]);
    for (node, value) in [(&one, "1"), (&other, "2")] {
        node.connect().exchange(format!("set k 0 0 1\r\n{value}\r\n"), "STORED\r\n");
    }
    let value_of = |host: u8, port: u16| {
        let Address::Tcp(address) = router.address else { panic!("it listens on TCP") };
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .expect("a socket");
        rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, host], port)))
            .expect("a free port");
        rustix::net::connect(&socket, &address).expect("it listens");
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"get k\r\nquit\r\n").expect("it reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("it answers");
        reply.lines().nth(1).expect("a value").to_owned()
    };
    let values: Vec<String> = (1..=16).map(|host| value_of(host, 0)).collect();
    assert!(values.contains(&"1".to_owned()) && values.contains(&"2".to_owned()), "{values:?}");
    let again: Vec<String> = (1..=16).map(|host| value_of(host, 0)).collect();
    assert_eq!(values, again, "whatever the port");
}
