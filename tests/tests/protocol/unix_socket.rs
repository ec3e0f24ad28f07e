//! The same protocol over a socket in the file system.

use guira_tests::scratch::Scratch;
use guira_tests::{Server, Setup};

fn start(scratch: &Scratch) -> Server {
    Setup::new().unix_socket(&scratch.path().join("socket")).start()
}

#[test]
fn requests_are_served() {
    let scratch = Scratch::new();
    let server = start(&scratch);
    let mut client = server.connect();
    client.talk(&[
        ("set key 7 0 5\r\nhello\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 7 5\r\nhello\r\nEND\r\n"),
        ("mg key v k\r\n", "VA 5 kkey\r\nhello\r\n"),
        ("unknown\r\n", "ERROR\r\n"),
    ]);
    server.connect().exchange("get key\r\n", "VALUE key 7 5\r\nhello\r\nEND\r\n");
}

#[test]
fn large_values_pass() {
    let scratch = Scratch::new();
    let server = start(&scratch);
    let mut client = server.connect();
    let value = (0..900_000).map(|index| (index % 251) as u8).collect::<Vec<_>>();
    client.set("key", &value);
    client.expect_value("key", &value);
}

#[test]
fn quit_closes() {
    let scratch = Scratch::new();
    let server = start(&scratch);
    let mut client = server.connect();
    client.send("quit\r\n");
    client.expect_closed();
}
