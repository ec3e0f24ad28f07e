//! `md`: deletes, or marks as stale.

use guira_tests::{Server, newer_than_peer};

#[test]
fn it_deletes() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("md key\r\n", "HD\r\n"),
        ("get key\r\n", "END\r\n"),
        ("md key\r\n", "NF\r\n"),
    ]);
}

#[test]
fn key_and_opaque_are_returned() {
    let server = Server::start();
    server.connect().talk(&[
        ("md key k O1\r\n", "NF kkey O1\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("md key C1000000 O2 k\r\n", "EX O2 kkey\r\n"),
        ("md key O3 k\r\n", "HD O3 kkey\r\n"),
    ]);
}

#[test]
fn only_a_matching_unique_deletes() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange(format!("md key C{}\r\n", unique + 1), "EX\r\n");
    client.exchange("md key C0\r\n", "EX\r\n");
    client.expect_value("key", "x");
    client.exchange(format!("md key C{unique}\r\n"), "HD\r\n");
    client.exchange(format!("md key C{unique}\r\n"), "NF\r\n");
}

#[test]
fn a_time_without_i_changes_nothing() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("md key T30\r\n", "HD\r\n"),
        ("mg key\r\n", "EN\r\n"),
    ]);
}

#[test]
fn x_removes_the_value_but_not_the_item() {
    let server = Server::start();
    newer_than_peer!(server, "md has no x");
    let mut client = server.connect();
    client.talk(&[
        ("md key x\r\n", "NF\r\n"),
        ("set key 5 500 1\r\nx\r\n", "STORED\r\n"),
        ("md key x\r\n", "HD\r\n"),
        ("mg key v f t\r\n", "VA 0 f0 t-1\r\n\r\n"),
        ("set key 5 500 1\r\nx\r\n", "STORED\r\n"),
        ("md key x T50\r\n", "HD\r\n"),
        ("mg key v f t\r\n", "VA 0 f0 t~50\r\n\r\n"),
        ("set key 5 500 1\r\nx\r\n", "STORED\r\n"),
        ("md key x I T50\r\n", "HD\r\n"),
        ("mg key v f t\r\n", "VA 0 f0 t~50 X W\r\n\r\n"),
        ("mg key v\r\n", "VA 0 Z X\r\n\r\n"),
    ]);
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange(format!("md key x C{}\r\n", unique + 1), "EX\r\n");
    client.exchange(format!("md key x C{unique}\r\n"), "HD\r\n");
    client.exchange("mg key v c\r\n", format!("VA 0 c{unique}\r\n\r\n"));
}

#[test]
fn bad_flags_are_named() {
    let server = Server::start();
    newer_than_peer!(server, "one error stands for all");
    server.connect().talk(&[
        ("md key q q\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("md key z\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("md key Cx\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
        ("md key Tx\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
    ]);
}
