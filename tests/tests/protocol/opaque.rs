//! The flag `O`: a token that comes back with the reply.

use guira_tests::Server;

const TOO_LONG: &str = "CLIENT_ERROR opaque token too long\r\n";

#[test]
fn every_meta_command_returns_it() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key O123\r\n", "EN O123\r\n"),
        ("ms key 1 Oabc\r\n1\r\n", "HD Oabc\r\n"),
        ("ms key 1 ME Oabc\r\n1\r\n", "NS Oabc\r\n"),
        ("mg key O!\"#$%\r\n", "HD O!\"#$%\r\n"),
        ("ma key O1\r\n", "HD O1\r\n"),
        ("ma missing O2\r\n", "NF O2\r\n"),
        ("md key O3\r\n", "HD O3\r\n"),
        ("md key O4\r\n", "NF O4\r\n"),
    ]);
}

#[test]
fn an_empty_one_is_returned_too() {
    let server = Server::start();
    server.connect().talk(&[("mg key O\r\n", "EN O\r\n"), ("ms key 1 O k\r\nx\r\n", "HD O kkey\r\n")]);
}

#[test]
fn thirty_one_bytes_are_the_most() {
    let server = Server::start();
    let mut client = server.connect();
    let longest = "o".repeat(31);
    client.exchange(format!("ms key 1 O{longest}\r\n5\r\n"), format!("HD O{longest}\r\n"));
    client.exchange(format!("mg key v O{longest}\r\n"), format!("VA 1 O{longest}\r\n5\r\n"));
    client.exchange(format!("ma key O{longest}\r\n"), format!("HD O{longest}\r\n"));
    let longer = "o".repeat(32);
    client.exchange(format!("mg key O{longer}\r\n"), TOO_LONG);
    client.exchange(format!("mg missing O{longer}\r\n"), TOO_LONG);
    client.exchange(format!("ma missing O{longer}\r\n"), TOO_LONG);
    client.exchange(format!("md missing O{longer}\r\n"), TOO_LONG);
    client.exchange(format!("ms missing 1 O{longer}\r\nx\r\n"), TOO_LONG);
    client.sync();
    client.exchange("mg missing\r\n", "EN\r\n");
}

#[test]
fn it_tells_pipelined_replies_apart() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("b", "x");
    client.exchange("mg a v q O1\r\nmg b v q O2\r\nmg c v O3\r\nmn\r\n", "VA 1 O2\r\nx\r\nEN O3\r\nMN\r\n");
}
