//! `touch` gives an item a new expiration time; `gat` and `gats` also fetch it.

use guira_tests::{Server, newer_than_peer};

#[test]
fn touch_sets_the_expiration_time() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 3 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch key 500\r\n", "TOUCHED\r\n"),
        ("mg key t v f\r\n", "VA 1 t~500 f3\r\nx\r\n"),
        ("touch key 0\r\n", "TOUCHED\r\n"),
        ("mg key t\r\n", "HD t-1\r\n"),
        ("touch missing 0\r\n", "NOT_FOUND\r\n"),
    ]);
}

#[test]
fn a_negative_time_removes_the_item_at_once() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch key -1\r\n", "TOUCHED\r\n"),
        ("get key\r\n", "END\r\n"),
        ("touch key 500\r\n", "NOT_FOUND\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("gat -1 key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("get key\r\n", "END\r\n"),
    ]);
}

#[test]
fn gat_fetches_several_keys_and_touches_each() {
    let server = Server::start();
    server.connect().talk(&[
        ("set a 1 0 1\r\nx\r\n", "STORED\r\n"),
        ("set b 2 0 1\r\ny\r\n", "STORED\r\n"),
        ("gat 500 a missing b\r\n", "VALUE a 1 1\r\nx\r\nVALUE b 2 1\r\ny\r\nEND\r\n"),
        ("mg a t\r\n", "HD t~500\r\n"),
        ("mg b t\r\n", "HD t~500\r\n"),
        ("gat 0 missing\r\n", "END\r\n"),
    ]);
}

#[test]
fn gats_tells_the_cas_unique() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange("gats 500 key\r\n", format!("VALUE key 0 1 {unique}\r\nx\r\nEND\r\n"));
    client.exchange("mg key t c\r\n", format!("HD t~500 c{unique}\r\n"));
}

#[test]
fn gat_knows_no_noreply() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("gat 10 key noreply\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn a_bad_time_is_refused() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch key x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
        ("gat x key\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
        ("gats 1x key\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
        ("mg key t\r\n", "HD t-1\r\n"),
    ]);
}

#[test]
fn missing_words_are_refused() {
    let server = Server::start();
    newer_than_peer!(server, "too few words are an ERROR");
    server.connect().talk(&[
        ("touch key\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("touch\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("gat 0\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("gats\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ]);
}
