//! Keys have 1 to 250 bytes of anything but blanks and line ends.

use guira_tests::{Server, newer_than_peer, upstream_flaw};

const BAD_LINE: &str = "CLIENT_ERROR bad command line format\r\n";

#[test]
fn keys_of_every_length_up_to_250_work() {
    let server = Server::start();
    let mut client = server.connect();
    for length in 1..=250 {
        let key = "k".repeat(length);
        client.set(&key, format!("{length}"));
    }
    for length in 1..=250 {
        let key = "k".repeat(length);
        client.expect_value(&key, format!("{length}"));
        client.exchange(format!("mg {key} k\r\n"), format!("HD k{key}\r\n"));
        client.exchange(format!("touch {key} 0\r\n"), "TOUCHED\r\n");
        client.exchange(format!("delete {key}\r\n"), "DELETED\r\n");
    }
}

#[test]
fn longer_keys_are_refused_by_commands_without_data() {
    let server = Server::start();
    let mut client = server.connect();
    for length in [251, 300, 1000] {
        let key = "k".repeat(length);
        for request in [
            format!("delete {key}\r\n"),
            format!("incr {key} 1\r\n"),
            format!("decr {key} 1\r\n"),
            format!("touch {key} 1\r\n"),
            format!("mg {key} v\r\n"),
            format!("md {key}\r\n"),
            format!("me {key}\r\n"),
        ] {
            client.exchange(request, BAD_LINE);
        }
    }
}

#[test]
fn meta_arithmetic_has_one_error_for_all() {
    let server = Server::start();
    newer_than_peer!(server, "ma names the bad key as the other commands do");
    let key = "k".repeat(251);
    server.connect().exchange(format!("ma {key}\r\n"), "CLIENT_ERROR invalid or duplicate flag\r\n");
}

#[test]
fn longer_keys_are_refused_by_storage_commands_and_the_data_is_taken() {
    let server = Server::start();
    newer_than_peer!(server, "the data block of a refused set is read as a command");
    let mut client = server.connect();
    let key = "k".repeat(251);
    for command in ["set", "add", "replace", "append", "prepend"] {
        client.exchange(format!("{command} {key} 0 0 5\r\nhello\r\n"), BAD_LINE);
    }
    client.exchange(format!("cas {key} 0 0 5 1\r\nhello\r\n"), BAD_LINE);
    client.exchange(format!("ms {key} 5\r\nhello\r\n"), BAD_LINE);
    client.sync();
}

#[test]
fn one_long_key_spoils_the_whole_multiget() {
    let server = Server::start();
    upstream_flaw!(server, "1.6.45 sends an empty line after this error; 1.6.18 is as we are");
    let mut client = server.connect();
    client.set("a", "x");
    let key = "k".repeat(251);
    client.exchange(format!("get {key}\r\n"), BAD_LINE);
    client.sync();
    client.exchange(format!("get a {key} a\r\n"), BAD_LINE);
    client.sync();
    client.exchange(format!("gats 0 a {key}\r\n"), BAD_LINE);
    client.sync();
}

#[test]
fn keys_hold_any_byte_but_blanks_and_newlines() {
    let server = Server::start();
    let mut client = server.connect();
    for byte in (1..=255_u8).filter(|byte| !b" \r\n".contains(byte)) {
        let key = [b'a', byte, b'b'];
        let mut set = b"set ".to_vec();
        set.extend_from_slice(&key);
        set.extend_from_slice(b" 0 0 1\r\nx\r\n");
        client.exchange(set, "STORED\r\n");
        let mut get = b"get ".to_vec();
        get.extend_from_slice(&key);
        get.extend_from_slice(b"\r\n");
        let mut value = b"VALUE ".to_vec();
        value.extend_from_slice(&key);
        value.extend_from_slice(b" 0 1\r\nx\r\nEND\r\n");
        client.exchange(get, value);
    }
}

#[test]
fn a_zero_byte_is_a_byte_like_others() {
    let server = Server::start();
    newer_than_peer!(server, "a zero byte ends the line");
    server.connect().talk(&[
        ("set a\0b 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get a\0b a\r\n", "VALUE a\0b 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn keys_that_look_like_commands_or_numbers_are_keys() {
    let server = Server::start();
    let mut client = server.connect();
    for key in ["get", "0", "-1", "noreply0", "END", "mg", "\"", "*", "VALUE", "a:b/c?d=e&f"] {
        client.set(key, key);
        client.expect_value(key, key);
    }
}
