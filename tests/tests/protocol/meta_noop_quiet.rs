//! `mn`, and the flag `q`: silence for the expected answer, never for the unexpected one.

use guira_tests::{Server, newer_than_peer};

#[test]
fn mn_is_answered_by_mn() {
    let server = Server::start();
    server.connect().talk(&[
        ("mn\r\n", "MN\r\n"),
        ("mn further words\r\n", "MN\r\n"),
        ("mn\r\nmn\r\n", "MN\r\nMN\r\n"),
    ]);
}

#[test]
fn quiet_gets_hide_misses_only() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("here", "x");
    client.expect_silence("mg missing v q\r\n");
    client.expect_silence("mg missing v k O1 q\r\n");
    client.exchange("mg here v q\r\n", "VA 1\r\nx\r\n");
    client.exchange("mg here q k\r\n", "HD khere\r\n");
    client.exchange("mg a v q k\r\nmg here v q k\r\nmg b v q k\r\nmn\r\n", "VA 1 khere\r\nx\r\nMN\r\n");
}

#[test]
fn quiet_sets_hide_success_only() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect_silence("ms key 1 q\r\nx\r\n");
    client.expect_silence("ms key 1 q k O1 c\r\ny\r\n");
    client.exchange("ms key 1 ME q\r\nz\r\n", "NS\r\n");
    client.exchange("ms missing 1 MR q k\r\nz\r\n", "NS kmissing\r\n");
    client.exchange("ms missing 1 C1 q\r\nz\r\n", "NF\r\n");
    client.exchange("ms key 1 C1000000 q O1\r\nz\r\n", "EX O1\r\n");
    client.expect_value("key", "y");
}

#[test]
fn quiet_deletes_hide_success_only() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("md key q\r\n", "NF\r\n");
    client.set("key", "x");
    client.exchange("md key q C1000000 k\r\n", "EX kkey\r\n");
    client.expect_silence("md key q I\r\n");
    client.expect_silence("md key q k O1\r\n");
    client.exchange("mg key\r\n", "EN\r\n");
}

#[test]
fn quiet_arithmetic_hides_success_only() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("ma key q\r\n", "NF\r\n");
    client.set("key", "5");
    client.expect_silence("ma key q\r\n");
    client.expect_silence("ma key q v\r\n");
    client.exchange("ma key q C1000000\r\n", "EX\r\n");
    client.expect_value("key", "7");
}

#[test]
fn quiet_arithmetic_hides_a_creation() {
    let server = Server::start();
    newer_than_peer!(server, "a creation is answered in spite of q");
    server.connect().expect_silence("ma key N0 q\r\n");
}

#[test]
fn errors_are_never_quiet() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key q z\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms key 1 q z\r\nx\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ma key q z\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("mn\r\n", "MN\r\n"),
    ]);
}
