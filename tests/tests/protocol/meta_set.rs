//! `ms`: modes, flags, replies.

use guira_tests::lines::number;
use guira_tests::{Server, newer_than_peer};

#[test]
fn it_stores_value_flags_and_time() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 2\r\nhi\r\n", "HD\r\n"),
        ("get key\r\n", "VALUE key 0 2\r\nhi\r\nEND\r\n"),
        ("ms key 3 T500 F7\r\nabc\r\n", "HD\r\n"),
        ("mg key v t f\r\n", "VA 3 t~500 f7\r\nabc\r\n"),
        ("ms key 0\r\n\r\n", "HD\r\n"),
        ("mg key v t f\r\n", "VA 0 t-1 f0\r\n\r\n"),
        ("ms key 1 T-1\r\nx\r\n", "HD\r\n"),
        ("mg key\r\n", "EN\r\n"),
    ]);
}

#[test]
fn key_opaque_and_cas_are_returned_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("ms key 1 k Oxyz\r\nx\r\n", "HD kkey Oxyz\r\n");
    client.exchange("ms key 1 Oxyz k\r\nx\r\n", "HD Oxyz kkey\r\n");
    let line = client.ask("ms key 1 Oxyz k c\r\nx\r\n");
    assert_eq!(number(&line, 'c'), client.cas("key"));
    assert!(line.starts_with("HD Oxyz kkey c"), "{line}");
}

#[test]
fn modes() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 1 MR\r\nx\r\n", "NS\r\n"),
        ("ms key 1 MA\r\nx\r\n", "NS\r\n"),
        ("ms key 1 MP\r\nx\r\n", "NS\r\n"),
        ("mg key\r\n", "EN\r\n"),
        ("ms key 2 ME\r\nhi\r\n", "HD\r\n"),
        ("ms key 3 ME\r\nabc\r\n", "NS\r\n"),
        ("ms key 3 MR\r\nabc\r\n", "HD\r\n"),
        ("ms key 1 MA F9 T9\r\n>\r\n", "HD\r\n"),
        ("ms key 1 MP F9 T9\r\n<\r\n", "HD\r\n"),
        ("mg key v f t\r\n", "VA 5 f0 t-1\r\n<abc>\r\n"),
        ("ms key 1 MS\r\nz\r\n", "HD\r\n"),
        ("mg key v\r\n", "VA 1\r\nz\r\n"),
    ]);
}

#[test]
fn bad_modes_are_refused_and_the_data_taken() {
    let server = Server::start();
    let mut client = server.connect();
    for mode in ["Mx", "Me", "MI", "M1"] {
        client.exchange(format!("ms key 2 {mode}\r\nhi\r\n"), "CLIENT_ERROR invalid mode for ms M token\r\n");
        client.sync();
    }
}

#[test]
fn only_the_first_letter_of_a_mode_counts() {
    let server = Server::start();
    newer_than_peer!(server, "a mode of another length is refused");
    server.connect().talk(&[
        ("ms key 2 Mset\r\nhi\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n"),
        ("ms key 2 MSet\r\nhi\r\n", "HD\r\n"),
        ("ms key 2 M\r\nhi\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n"),
    ]);
}

#[test]
fn compare_and_swap() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("ms key 1 C1\r\nx\r\n", "NF\r\n");
    client.exchange("ms key 1 C1 k O1 c\r\nx\r\n", "NF kkey O1 c0\r\n");
    client.set("key", "old");
    let unique = client.cas("key");
    client.exchange(format!("ms key 3 C{}\r\nbad\r\n", unique + 1), "EX\r\n");
    client.exchange(format!("ms key 3 C{} c\r\nbad\r\n", unique + 1), "EX c0\r\n");
    client.exchange("ms key 3 C0\r\nbad\r\n", "EX\r\n");
    client.expect_value("key", "old");
    let line = client.ask(format!("ms key 3 C{unique} c\r\nnew\r\n"));
    assert!(line.starts_with("HD c"), "{line}");
    assert_ne!(number(&line, 'c'), unique);
    client.exchange(format!("ms key 3 C{unique}\r\nbad\r\n"), "EX\r\n");
    client.expect_value("key", "new");
    client.exchange(format!("ms key 3 MR C{unique}\r\nbad\r\n"), "EX\r\n");
    let unique = client.cas("key");
    client.exchange(format!("ms key 1 MR C{unique}\r\nr\r\n"), "HD\r\n");
    client.expect_value("key", "r");
}

#[test]
fn compare_and_append() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "b");
    let unique = client.cas("key");
    client.exchange(format!("ms key 1 MA C{unique}\r\nc\r\n"), "HD\r\n");
    client.exchange(format!("ms key 1 MA C{unique}\r\nc\r\n"), "EX\r\n");
    client.exchange(format!("ms key 1 MP C{unique}\r\na\r\n"), "EX\r\n");
    let unique = client.cas("key");
    client.exchange(format!("ms key 1 MP C{unique}\r\na\r\n"), "HD\r\n");
    client.expect_value("key", "abc");
    client.exchange("ms missing 1 MA C1\r\nc\r\n", "NS\r\n");
}

#[test]
fn add_looks_for_the_key_only() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 1 ME C5\r\nx\r\n", "HD\r\n"),
        ("ms key 1 ME C5\r\ny\r\n", "NS\r\n"),
        ("mg key v\r\n", "VA 1\r\nx\r\n"),
    ]);
}

#[test]
fn s_is_the_size_stored() {
    let server = Server::start();
    newer_than_peer!(server, "ms ignores s");
    server.connect().talk(&[
        ("ms key 2 s\r\nhi\r\n", "HD s2\r\n"),
        ("ms key 3 MA s k\r\nabc\r\n", "HD s5 kkey\r\n"),
        ("ms key 1 MP s\r\n>\r\n", "HD s6\r\n"),
        ("ms key 0 s\r\n\r\n", "HD s0\r\n"),
    ]);
}

#[test]
fn n_creates_what_is_appended_to() {
    let server = Server::start();
    newer_than_peer!(server, "ms ignores N");
    server.connect().talk(&[
        ("ms key 1 MA N500 T7 F5\r\nb\r\n", "HD\r\n"),
        ("mg key v t\r\n", "VA 1 t~500\r\nb\r\n"),
        ("ms key 1 MP N50\r\na\r\n", "HD\r\n"),
        ("mg key v t\r\n", "VA 2 t~500\r\nab\r\n"),
        ("ms other 1 MP N0\r\na\r\n", "HD\r\n"),
        ("mg other v t\r\n", "VA 1 t-1\r\na\r\n"),
    ]);
}

#[test]
fn bad_flags_are_refused_and_the_data_taken() {
    let server = Server::start();
    let mut client = server.connect();
    for (flags, error) in [
        ("k k", "duplicate flag"),
        ("z", "invalid flag"),
        ("Tx", "bad token in command line format"),
        ("Cx", "bad token in command line format"),
        ("Fx", "bad command line format"),
        ("F-1", "bad command line format"),
        ("q z", "invalid flag"),
    ] {
        client.exchange(format!("ms key 2 {flags}\r\nhi\r\n"), format!("CLIENT_ERROR {error}\r\n"));
        client.sync();
    }
    client.exchange("mg key\r\n", "EN\r\n");
}

#[test]
fn too_many_flags_are_refused_and_the_data_taken() {
    let server = Server::start();
    newer_than_peer!(server, "the data block is read as a command");
    let mut client = server.connect();
    client.exchange(
        format!("ms key 2{}\r\nhi\r\n", " P".repeat(30)),
        "CLIENT_ERROR options flags are too long\r\n",
    );
    client.sync();
}

#[test]
fn appending_creates_values_of_any_length() {
    let server = Server::start();
    newer_than_peer!(server, "append creates nothing");
    let mut client = server.connect();
    for length in [16_384, 16_385, 32_000, 32_768, 40_000, 65_536, 300_000, 900_000] {
        let value = "a".repeat(length);
        for mode in ["MA", "MP"] {
            client.exchange(format!("ms key {length} {mode} N0 F7\r\n{value}\r\n"), "HD\r\n");
            client.exchange("mg key s f t\r\n", format!("HD s{length} f7 t-1\r\n"));
            client.exchange("get key\r\n", format!("VALUE key 7 {length}\r\n{value}\r\nEND\r\n"));
            client.exchange("delete key\r\n", "DELETED\r\n");
        }
    }
}
