//! `incr` and `decr`: decimal numbers of 64 bits.

use guira_tests::{Client, Server, newer_than_peer};

const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";

#[test]
fn numbers_go_up_and_down() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "6\r\n"),
        ("incr key 100\r\n", "106\r\n"),
        ("decr key 6\r\n", "100\r\n"),
        ("incr key 0\r\n", "100\r\n"),
        ("decr key 0\r\n", "100\r\n"),
    ]);
}

#[test]
fn decr_stops_at_zero() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("decr key 6\r\n", "0\r\n"),
        ("decr key 1\r\n", "0\r\n"),
        ("decr key 18446744073709551615\r\n", "0\r\n"),
    ]);
}

#[test]
fn incr_wraps_at_64_bits() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "0\r\n"),
        ("set key 0 0 20\r\n18446744073709551610\r\n", "STORED\r\n"),
        ("incr key 10\r\n", "4\r\n"),
        ("incr key 18446744073709551615\r\n", "3\r\n"),
    ]);
}

#[test]
fn a_missing_key_is_not_found() {
    let server = Server::start();
    server.connect().talk(&[
        ("incr missing 1\r\n", "NOT_FOUND\r\n"),
        ("decr missing 1\r\n", "NOT_FOUND\r\n"),
        ("get missing\r\n", "END\r\n"),
    ]);
}

#[test]
fn the_number_grows_in_length() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 7 0 2\r\n99\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "100\r\n"),
        ("get key\r\n", "VALUE key 7 3\r\n100\r\nEND\r\n"),
        ("incr key 18446744073709551515\r\n", "18446744073709551615\r\n"),
        ("get key\r\n", "VALUE key 7 20\r\n18446744073709551615\r\nEND\r\n"),
    ]);
}

/// The protocol allows a server to pad a number that loses digits with blanks to its old length.
fn expect_perhaps_padded(client: &mut Client, key: &str, number: &str) {
    let value = client.value(key).expect("the key is there");
    let text = String::from_utf8(value.data).expect("digits and blanks");
    assert_eq!(text.trim_end_matches(' '), number, "the value is \"{text}\"");
}

#[test]
fn a_number_that_loses_digits_may_be_padded_but_counts_on() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set key 7 0 3\r\n100\r\n", "STORED\r\n");
    client.exchange("decr key 1\r\n", "99\r\n");
    expect_perhaps_padded(&mut client, "key", "99");
    client.exchange("decr key 90\r\n", "9\r\n");
    expect_perhaps_padded(&mut client, "key", "9");
    client.exchange("incr key 1\r\n", "10\r\n");
    client.exchange("incr key 990\r\n", "1000\r\n");
    client.exchange("get key\r\n", "VALUE key 7 4\r\n1000\r\nEND\r\n");
}

#[test]
fn flags_and_expiry_stay() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 42 500 1\r\n9\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "10\r\n"),
        ("mg key v f t\r\n", "VA 2 f42 t~500\r\n10\r\n"),
    ]);
}

#[test]
fn blanks_around_a_stored_number_are_accepted() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 2\r\n5 \r\n", "STORED\r\n"),
        ("incr key 1\r\n", "6\r\n"),
        ("set key 0 0 2\r\n 5\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "6\r\n"),
        ("set key 0 0 20\r\n00000000000000000005\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "6\r\n"),
    ]);
}

#[test]
fn what_is_no_number_is_refused_and_stays() {
    let server = Server::start();
    let mut client = server.connect();
    for value in ["", "x", "5x", "-5", "1.5", "18446744073709551616", "a5"] {
        client.set("key", value);
        client.exchange("incr key 1\r\n", NOT_A_NUMBER);
        client.exchange("decr key 1\r\n", NOT_A_NUMBER);
        client.expect_value("key", value);
    }
    client.set("key", "1".repeat(1000));
    client.exchange("incr key 1\r\n", NOT_A_NUMBER);
}

#[test]
fn a_bad_delta_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "5");
    for delta in ["x", "-1", "1x", "1.5", "18446744073709551616", "-"] {
        client.exchange(format!("incr key {delta}\r\n"), BAD_DELTA);
        client.exchange(format!("decr key {delta}\r\n"), BAD_DELTA);
        client.exchange(format!("incr missing {delta}\r\n"), BAD_DELTA);
    }
    client.expect_value("key", "5");
}

#[test]
fn a_delta_has_no_sign() {
    let server = Server::start();
    newer_than_peer!(server, "a plus sign before the delta is accepted");
    let mut client = server.connect();
    client.set("key", "5");
    client.exchange("incr key +1\r\n", BAD_DELTA);
}

#[test]
fn a_delta_is_required() {
    let server = Server::start();
    newer_than_peer!(server, "too few words are an ERROR");
    server.connect().talk(&[
        ("incr key\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("decr\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ]);
}

#[test]
fn two_connections_count_together() {
    let server = Server::start();
    server.connect().set("key", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                client.send("incr key 1 noreply\r\n".repeat(2500));
                client.sync();
            });
        }
    });
    server.connect().expect_value("key", "10000");
}

#[test]
fn a_number_may_have_any_number_of_zeros_before_it() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("long", format!("{}5", "0".repeat(500)));
    client.exchange("incr long 1\r\n", "6\r\n");
    client.set("no", format!("{}x", "0".repeat(500)));
    client.exchange("incr no 1\r\n", NOT_A_NUMBER);
}
