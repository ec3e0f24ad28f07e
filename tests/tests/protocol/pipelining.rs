//! How requests are cut into packets does not matter, and replies come in the order of requests.

use guira_tests::{Client, Server};

/// Requests of every kind and their replies; the second run gives the same replies as the first.
const DIALOGUE: &[(&str, &str)] = &[
    ("flush_all\r\n", "OK\r\n"),
    ("set key 7 0 5\r\nhello\r\n", "STORED\r\n"),
    ("get key missing key\r\n", "VALUE key 7 5\r\nhello\r\nVALUE key 7 5\r\nhello\r\nEND\r\n"),
    ("add key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("append key 0 0 3\r\n\r\n!\r\n", "STORED\r\n"),
    ("mg key v s k Oabc\r\n", "VA 8 s8 kkey Oabc\r\nhello\r\n!\r\n"),
    ("set number 0 0 1 noreply\r\n5\r\n", ""),
    ("incr number 10\r\n", "15\r\n"),
    ("ma number v\r\n", "VA 2\r\n16\r\n"),
    ("mg missing v q\r\n", ""),
    ("ms other 2 T0 k\r\nhi\r\n", "HD kother\r\n"),
    ("mn\r\n", "MN\r\n"),
    ("touch key 0\r\n", "TOUCHED\r\n"),
    ("unknown\r\n", "ERROR\r\n"),
    ("delete key\r\n", "DELETED\r\n"),
    ("get key\r\n", "END\r\n"),
    ("set bad 0 0 2\r\nabcd", "CLIENT_ERROR bad data chunk\r\n"),
    ("md other q\r\n", ""),
    ("gat 0 number\r\n", "VALUE number 0 2\r\n16\r\nEND\r\n"),
];

fn requests() -> Vec<u8> {
    DIALOGUE.iter().flat_map(|(request, _)| request.bytes()).collect()
}

fn replies() -> Vec<u8> {
    DIALOGUE.iter().flat_map(|(_, reply)| reply.bytes()).collect()
}

/// Makes sure that the server has read what was sent, by working on another connection.
fn let_the_server_read(other: &mut Client) {
    other.sync();
}

#[test]
fn one_after_the_other() {
    let server = Server::start();
    server.connect().talk(DIALOGUE);
}

#[test]
fn all_in_one_write() {
    let server = Server::start();
    server.connect().exchange(requests(), replies());
}

#[test]
fn one_byte_at_a_time() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for byte in requests() {
        client.send([byte]);
        let_the_server_read(&mut other);
    }
    client.hear(replies());
}

#[test]
fn cut_in_two_at_every_byte() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let (requests, replies) = (requests(), replies());
    for cut in 1..requests.len() {
        client.send(&requests[..cut]);
        let_the_server_read(&mut other);
        client.exchange(&requests[cut..], &replies);
    }
}

#[test]
fn cut_into_pieces_of_every_length() {
    let server = Server::start();
    let mut client = server.connect();
    let (requests, replies) = (requests(), replies());
    for length in 2..100 {
        for piece in requests.chunks(length) {
            client.send(piece);
        }
        client.hear(&replies);
    }
}

#[test]
fn thousands_of_requests_in_one_go() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange_at_once(&requests().repeat(3000), &replies().repeat(3000));
}

#[test]
fn many_sets_then_many_gets() {
    let server = Server::start();
    let mut client = server.connect();
    let (mut sets, mut gets, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..5000 {
        let value = "v".repeat(number % 300);
        sets.extend(format!("set key{number} {number} 0 {}\r\n{value}\r\n", value.len()).bytes());
        gets.extend(format!("get key{number}\r\n").bytes());
        values.extend(format!("VALUE key{number} {number} {}\r\n{value}\r\nEND\r\n", value.len()).bytes());
    }
    client.exchange_at_once(&sets, &b"STORED\r\n".repeat(5000));
    client.exchange_at_once(&gets, &values);
}

#[test]
fn a_pipeline_sees_its_own_writes() {
    let server = Server::start();
    let mut client = server.connect();
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for number in 0..2000 {
        requests
            .extend(format!("set key 0 0 4\r\n{number:04}\r\nget key\r\ndelete key\r\nget key\r\n").bytes());
        replies
            .extend(format!("STORED\r\nVALUE key 0 4\r\n{number:04}\r\nEND\r\nDELETED\r\nEND\r\n").bytes());
    }
    client.exchange_at_once(&requests, &replies);
}

#[test]
fn large_and_small_requests_mixed() {
    let server = Server::start();
    let mut client = server.connect();
    let large = "l".repeat(300_000);
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for number in 0..40 {
        requests
            .extend(format!("set large 0 0 300000\r\n{large}\r\nset small 0 0 2\r\n{number:02}\r\n").bytes());
        requests.extend(b"get small large small\r\nmn\r\n");
        replies.extend(format!("STORED\r\nSTORED\r\nVALUE small 0 2\r\n{number:02}\r\n").bytes());
        replies.extend(
            format!("VALUE large 0 300000\r\n{large}\r\nVALUE small 0 2\r\n{number:02}\r\nEND\r\nMN\r\n")
                .bytes(),
        );
    }
    client.exchange_at_once(&requests, &replies);
}
