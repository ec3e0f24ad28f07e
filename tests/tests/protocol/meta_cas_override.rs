//! The flag `E`: the client says what the new cas unique is.

use guira_tests::{Server, newer_than_peer};

#[test]
fn every_changing_command_takes_it() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    server.connect().talk(&[
        ("ms key 1 E500 c\r\n5\r\n", "HD c500\r\n"),
        ("mg key c\r\n", "HD c500\r\n"),
        ("ms key 1 C500 E600 c\r\n6\r\n", "HD c600\r\n"),
        ("ms key 1 C500 E700 c\r\n7\r\n", "EX c0\r\n"),
        ("mg key c v\r\n", "VA 1 c600\r\n6\r\n"),
        ("ma key E701 c v\r\n", "VA 1 c701\r\n7\r\n"),
        ("ma key C701 E702 c v\r\n", "VA 1 c702\r\n8\r\n"),
        ("ma key C701 E703\r\n", "EX\r\n"),
        ("md key C702 I E900\r\n", "HD\r\n"),
        ("mg key c\r\n", "HD c900 X W\r\n"),
    ]);
}

#[test]
fn it_may_go_down() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    server.connect().talk(&[
        ("ms key 1 E1000000\r\nx\r\n", "HD\r\n"),
        ("ms key 1 E5\r\ny\r\n", "HD\r\n"),
        ("gets key\r\n", "VALUE key 0 1 5\r\ny\r\nEND\r\n"),
        ("cas key 0 0 1 5\r\nz\r\n", "STORED\r\n"),
        ("ms key 1 E18446744073709551615\r\nz\r\n", "HD\r\n"),
        ("mg key c\r\n", "HD c18446744073709551615\r\n"),
    ]);
}

#[test]
fn it_names_created_items() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    server.connect().talk(&[
        ("mg key N30 E55 c\r\n", "HD c55 W\r\n"),
        ("mg key c\r\n", "HD c55 Z\r\n"),
        ("mg key N30 E66 c\r\n", "HD c55 Z\r\n"),
        ("ma number N0 E77 c\r\n", "HD c77\r\n"),
        ("mg number c\r\n", "HD c77\r\n"),
        ("ms appended 1 MA N0 E88 c\r\nx\r\n", "HD c88\r\n"),
        ("ms appended 1 MA E89 c\r\nx\r\n", "HD c89\r\n"),
    ]);
}

#[test]
fn it_names_what_is_left_of_a_deleted_value() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    server.connect().talk(&[
        ("ms key 1 E9\r\nx\r\n", "HD\r\n"),
        ("md key x E10\r\n", "HD\r\n"),
        ("mg key c v\r\n", "VA 0 c10\r\n\r\n"),
    ]);
}

#[test]
fn zero_is_no_override() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    let mut client = server.connect();
    let line = client.ask("ms key 1 E0 c\r\nx\r\n");
    assert_ne!(line, "HD c0");
}

#[test]
fn a_bad_number_is_refused() {
    let server = Server::start();
    newer_than_peer!(server, "there is no E");
    server.connect().talk(&[
        ("ms key 1 Ex\r\nx\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
        ("mg key N0 E\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
        ("md key E-1\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
        ("ma key E1x\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
    ]);
}
