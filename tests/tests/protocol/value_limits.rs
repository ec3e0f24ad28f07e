//! How large a value may be, and what happens to one that is larger.

use guira_tests::{Server, Setup};

const MIB: usize = 1 << 20;
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";

/// The largest value that memcached stores under a key of `key_length` bytes with `-I 1m`.
fn largest(key_length: usize) -> usize {
    // Its item header, its cas unique, the end of the key and the end of the value count as well.
    MIB - 48 - 8 - (key_length + 1) - 2
}

fn request(line: &str, value: &[u8]) -> Vec<u8> {
    let mut request = format!("{line}\r\n").into_bytes();
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    request
}

#[test]
fn what_memcached_stores_is_stored() {
    let server = Server::start();
    let mut client = server.connect();
    for key_length in [1, 10, 250] {
        let key = "k".repeat(key_length);
        let value = vec![b'x'; largest(key_length)];
        client.set(&key, &value);
        client.expect_value(&key, &value);
    }
}

#[test]
fn a_mebibyte_is_too_large_and_its_data_is_taken() {
    let server = Server::start();
    let mut client = server.connect();
    let value = vec![b'x'; MIB];
    for command in ["set key 0 0", "add key 0 0", "ms key"] {
        client.exchange_at_once(&request(&format!("{command} {MIB}"), &value), TOO_LARGE.as_bytes());
        client.sync();
    }
    let twice = vec![b'\n'; 2 * MIB];
    client.exchange_at_once(&request(&format!("set key 0 0 {}", 2 * MIB), &twice), TOO_LARGE.as_bytes());
    client.sync();
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn a_refused_set_removes_the_old_item() {
    let server = Server::start();
    let mut client = server.connect();
    let value = vec![b'x'; MIB];
    for line in [format!("set key 0 0 {MIB}"), format!("ms key {MIB}"), format!("ms key {MIB} MR")] {
        client.set("key", "old");
        client.exchange_at_once(&request(&line, &value), TOO_LARGE.as_bytes());
        client.exchange("get key\r\n", "END\r\n");
    }
}

#[test]
fn other_refused_storage_commands_keep_the_old_item() {
    let server = Server::start();
    let mut client = server.connect();
    let value = vec![b'x'; MIB];
    client.set("key", "old");
    for command in ["add", "replace", "append", "prepend"] {
        client.exchange_at_once(&request(&format!("{command} key 0 0 {MIB}"), &value), TOO_LARGE.as_bytes());
        client.expect_value("key", "old");
    }
    client.exchange_at_once(&request(&format!("cas key 0 0 {MIB} 1"), &value), TOO_LARGE.as_bytes());
    client.expect_value("key", "old");
}

#[test]
fn noreply_hides_the_error_of_set_but_quiet_not_that_of_ms() {
    let server = Server::start();
    let mut client = server.connect();
    let value = vec![b'x'; MIB];
    client.set("key", "old");
    let mut silent = request(&format!("set key 0 0 {MIB} noreply"), &value);
    silent.extend_from_slice(b"mn\r\n");
    client.exchange_at_once(&silent, b"MN\r\n");
    client.exchange("get key\r\n", "END\r\n");
    client.exchange_at_once(&request(&format!("ms key {MIB} q"), &value), TOO_LARGE.as_bytes());
}

#[test]
fn an_append_beyond_the_limit_is_not_stored() {
    let server = Server::start();
    let mut client = server.connect();
    let half = vec![b'x'; 600_000];
    client.set("key", &half);
    client.exchange_at_once(&request("append key 0 0 600000", &half), b"NOT_STORED\r\n");
    client.exchange_at_once(&request("prepend key 0 0 600000", &half), b"NOT_STORED\r\n");
    client.expect_value("key", &half);
}

#[test]
fn the_limit_can_be_raised() {
    let server = Setup::new().max_item_mib(2).start();
    let mut client = server.connect();
    let value = (0..3 * MIB / 2).map(|index| (index % 251) as u8).collect::<Vec<_>>();
    client.set("key", &value);
    client.expect_value("key", &value);
    let twice = vec![b'x'; 2 * MIB];
    client.exchange_at_once(&request(&format!("set key 0 0 {}", 2 * MIB), &twice), TOO_LARGE.as_bytes());
}
