//! One `get` of many keys.

use std::fmt::Write;

use guira_tests::Server;

/// Stores every second of `count` keys and gives the request for all and its reply.
fn request_and_reply(server: &Server, count: usize, key: impl Fn(usize) -> String) -> (String, String) {
    let mut client = server.connect();
    let (mut request, mut reply) = (String::from("get"), String::new());
    for number in 0..count {
        let key = key(number);
        write!(request, " {key}").expect("a string takes everything");
        if number % 2 == 0 {
            client.send(format!("set {key} {number} 0 6 noreply\r\nv{number:05}\r\n"));
            write!(reply, "VALUE {key} {number} 6\r\nv{number:05}\r\n").expect("a string takes everything");
        }
    }
    client.sync();
    (request + "\r\n", reply + "END\r\n")
}

#[test]
fn values_come_in_the_order_of_the_keys() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 150, |number| format!("k{number}"));
    assert!(request.len() < 2048);
    server.connect().exchange(request, reply);
}

#[test]
fn a_line_of_more_than_2_kib() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 300, |number| format!("key-number-{number}"));
    assert!(request.len() > 2048);
    server.connect().exchange(&request, &reply);
    server.connect().exchange(request.replace("get ", "get     "), reply);
}

#[test]
fn a_line_of_more_than_64_kib() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 1000, |number| format!("{number}-{}", "k".repeat(100)));
    assert!(request.len() > 65_536);
    server.connect().exchange_at_once(request.as_bytes(), reply.as_bytes());
}

#[test]
fn a_long_line_in_small_pieces() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 600, |number| format!("key-number-{number}"));
    let mut client = server.connect();
    for piece in request.as_bytes().chunks(700) {
        client.send(piece);
    }
    client.hear(reply);
}

#[test]
fn two_thousand_keys_of_250_bytes() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 2000, |number| format!("{number:0>250}"));
    server.connect().exchange_at_once(request.as_bytes(), reply.as_bytes());
}

#[test]
fn the_same_key_many_times() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let request = format!("get{}\r\n", " key".repeat(20_000));
    let reply = format!("{}END\r\n", "VALUE key 0 1\r\nx\r\n".repeat(20_000));
    client.exchange_at_once(request.as_bytes(), reply.as_bytes());
}

#[test]
fn long_multigets_one_after_the_other() {
    let server = Server::start();
    let (request, reply) = request_and_reply(&server, 400, |number| format!("key-number-{number}"));
    server.connect().exchange_at_once(request.repeat(20).as_bytes(), reply.repeat(20).as_bytes());
}
