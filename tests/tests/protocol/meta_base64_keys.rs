//! The flag `b`: keys of any bytes, sent as base64.

use guira_tests::binary::Request;
use guira_tests::{Server, newer_than_peer, upstream_flaw};

#[test]
fn the_decoded_bytes_are_the_key() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms Zm9v 2 b\r\nhi\r\n", "HD\r\n"),
        ("get foo\r\n", "VALUE foo 0 2\r\nhi\r\nEND\r\n"),
        ("mg Zm9v b v\r\n", "VA 2\r\nhi\r\n"),
        ("mg Zm9v v\r\n", "EN\r\n"),
        ("set bar 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg YmFy b v\r\n", "VA 1\r\nx\r\n"),
        ("md Zm9v b\r\n", "HD\r\n"),
        ("get foo\r\n", "END\r\n"),
    ]);
}

#[test]
fn keys_hold_blanks_line_ends_and_zeros() {
    let server = Server::start();
    server.connect().talk(&[
        // The bytes 0, 13, 10, 32 and 255.
        ("ms AA0KIP8= 1 b\r\nx\r\n", "HD\r\n"),
        ("mg AA0KIP8= b v k\r\n", "VA 1 kAA0KIP8= b\r\nx\r\n"),
        ("ma AA0KIQ== b N0 v k\r\n", "VA 1 kAA0KIQ== b\r\n0\r\n"),
        ("md AA0KIP8= b k\r\n", "HD kAA0KIP8= b\r\n"),
        ("mg AA0KIP8= b k\r\n", "EN kAA0KIP8= b\r\n"),
    ]);
}

#[test]
fn the_key_is_returned_as_base64_with_b() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms Zm9v 2 b k\r\nhi\r\n", "HD kZm9v b\r\n"),
        ("ms Zm9v 2 k b O1\r\nhi\r\n", "HD kZm9v b O1\r\n"),
        ("mg Zm9v k b v\r\n", "VA 2 kZm9v b\r\nhi\r\n"),
        ("md YmFy b k O1\r\n", "NF kYmFy b O1\r\n"),
        ("ma YmFy b k\r\n", "NF kYmFy b\r\n"),
    ]);
}

#[test]
fn the_item_remembers_how_its_key_was_given() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms Zm9v 2 b\r\nhi\r\n", "HD\r\n"),
        ("mg foo k\r\n", "HD kZm9v b\r\n"),
        ("set foo 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg Zm9v b k\r\n", "HD kfoo\r\n"),
    ]);
}

#[test]
fn what_is_no_base64_is_refused() {
    let server = Server::start();
    let error = "CLIENT_ERROR error decoding key\r\n";
    let mut client = server.connect();
    for key in ["!!!", "a", "ab", "a==="] {
        client.exchange(format!("mg {key} b v\r\n"), error);
        client.exchange(format!("ms {key} 2 b\r\nhi\r\n"), error);
        client.exchange(format!("ma {key} b\r\n"), "CLIENT_ERROR invalid or duplicate flag\r\n");
    }
    client.sync();
}

#[test]
fn a_delete_names_the_bad_key() {
    let server = Server::start();
    newer_than_peer!(server, "one error stands for all of md");
    server.connect().exchange("md !!! b\r\n", "CLIENT_ERROR error decoding key\r\n");
}

#[test]
fn the_text_of_a_key_has_250_bytes_at_most() {
    let server = Server::start();
    let mut client = server.connect();
    let longest = "QUJD".repeat(62);
    client.exchange(format!("ms {longest} 1 b\r\nx\r\n"), "HD\r\n");
    client.exchange(format!("mg {longest} b v k\r\n"), format!("VA 1 k{longest} b\r\nx\r\n"));
    let longer = "QUJD".repeat(63);
    client.exchange(format!("mg {longer} b\r\n"), "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_key_of_the_binary_protocol_that_does_not_fit_in_text_is_shown_in_base64() {
    let server = Server::start();
    upstream_flaw!(server, "it writes blanks and line feeds of such keys into its replies as they are");
    let mut binary = server.connect();
    let set = |key: &str| Request::new(0x01).word(0).word(0).key(key).value("x");
    for key in ["a\nb", "a b"] {
        assert_eq!(binary.ask_binary(&set(key)).status, 0);
    }
    server.connect().talk(&[
        ("mg YQpi b k v\r\n", "VA 1 kYQpi b\r\nx\r\n"),
        ("mg YSBi b k s\r\n", "HD kYSBi b s1\r\n"),
        ("md YSBi b k\r\n", "HD kYSBi b\r\n"),
        ("lru_crawler mgdump all\r\n", "OK\r\nmg YQpi b\r\nEN\r\n"),
    ]);
}

#[test]
fn what_is_almost_base64_is_decoded() {
    let server = Server::start();
    server.connect().talk(&[
        // Bits that are left over are dropped, other bytes passed over, and what follows padding is not looked at.
        ("ms Zm9= 1 b k\r\nx\r\n", "HD kZm8= b\r\n"),
        ("get fo\r\n", "VALUE fo 0 1\r\nx\r\nEND\r\n"),
        ("ms Zm!9v 1 b k\r\nx\r\n", "HD kZm9v b\r\n"),
        ("mg Zg==Zm9v b v\r\n", "EN\r\n"),
        ("set f 0 0 1\r\ny\r\n", "STORED\r\n"),
        ("mg Zg==Zm9v b v\r\n", "VA 1\r\ny\r\n"),
    ]);
}
