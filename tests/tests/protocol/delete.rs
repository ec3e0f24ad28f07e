//! `delete` removes an item.

use guira_tests::{Server, newer_than_peer};

#[test]
fn a_deleted_key_is_gone() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete key\r\n", "DELETED\r\n"),
        ("get key\r\n", "END\r\n"),
        ("delete key\r\n", "NOT_FOUND\r\n"),
    ]);
}

#[test]
fn an_expired_item_cannot_be_deleted() {
    let server = Server::start();
    server.connect().talk(&[("set key 0 -1 1\r\nx\r\n", "STORED\r\n"), ("delete key\r\n", "NOT_FOUND\r\n")]);
}

#[test]
fn other_keys_stay() {
    let server = Server::start();
    let mut client = server.connect();
    for number in 0..500 {
        client.set(&format!("key{number}"), "x");
    }
    for number in (0..500).step_by(2) {
        client.exchange(format!("delete key{number}\r\n"), "DELETED\r\n");
    }
    for number in 0..500 {
        let expected = if number % 2 == 0 { "EN\r\n" } else { "HD\r\n" };
        client.exchange(format!("mg key{number}\r\n"), expected);
    }
}

#[test]
fn the_old_zero_argument_is_accepted() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete key 0\r\n", "DELETED\r\n"),
        ("delete key 0\r\n", "NOT_FOUND\r\n"),
    ]);
    server.connect().expect_silence("delete key 0 noreply\r\n");
}

#[test]
fn further_arguments_are_ignored() {
    let server = Server::start();
    newer_than_peer!(server, "any argument but 0 and noreply is an error");
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete key 100\r\n", "DELETED\r\n"),
        ("delete key a b c\r\n", "NOT_FOUND\r\n"),
    ]);
}

#[test]
fn a_key_is_required() {
    let server = Server::start();
    newer_than_peer!(server, "too few words are an ERROR");
    server.connect().exchange("delete\r\n", "CLIENT_ERROR bad command line format\r\n");
}
