//! How numbers in classic commands are read.

use guira_tests::{Server, newer_than_peer};

#[test]
fn flags_have_32_bits() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 4294967295 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 4294967295 1\r\nx\r\nEND\r\n"),
        ("mg key f\r\n", "HD f4294967295\r\n"),
        ("set key 65536 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 65536 1\r\nx\r\nEND\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn leading_zeros_do_not_matter() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 007 007 01\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 7 1\r\nx\r\nEND\r\n"),
        ("set key 0 00 1\r\n5\r\n", "STORED\r\n"),
        ("incr key 0001\r\n", "6\r\n"),
    ]);
}

#[test]
fn flags_and_times_may_have_a_plus_sign() {
    let server = Server::start();
    server
        .connect()
        .talk(&[("set key +5 +500 1\r\nx\r\n", "STORED\r\n"), ("mg key f t\r\n", "HD f5 t~500\r\n")]);
}

#[test]
fn too_large_flags_of_set_are_cut_to_32_bits() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 4294967301 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 5 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn too_large_flags_of_ms_are_refused() {
    let server = Server::start();
    newer_than_peer!(server, "flags of ms are cut to 32 bits too");
    server.connect().talk(&[
        ("ms key 1 F4294967296\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("mg key\r\n", "EN\r\n"),
    ]);
}

#[test]
fn further_words_of_set_are_ignored() {
    let server = Server::start();
    newer_than_peer!(server, "more than one further word is an ERROR");
    server.connect().talk(&[
        ("set key 0 0 1 one\r\nx\r\n", "STORED\r\n"),
        ("set key 0 0 1 one two three\r\ny\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\ny\r\nEND\r\n"),
    ]);
}
