//! `stats detail`: uses of keys by prefix.

use guira_tests::binary::{Request, get};
use guira_tests::{Server, Setup, newer_than_peer, upstream_flaw};

const STAT: u8 = 0x10;

#[test]
fn uses_are_counted_by_prefix_while_it_is_on() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("stats detail dump\r\n", "END\r\n");
    client.exchange("stats detail on\r\n", "OK\r\n");
    client.exchange("set foo:1 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange("get foo:1\r\n", "VALUE foo:1 0 1\r\nx\r\nEND\r\n");
    client.exchange("get foo:2\r\n", "END\r\n");
    client.exchange("delete foo:2\r\n", "NOT_FOUND\r\n");
    client.exchange("get plain\r\n", "END\r\n");
    client.exchange("stats detail dump\r\n", "PREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n");
    client.exchange("stats detail off\r\n", "OK\r\n");
    client.exchange("get foo:1\r\n", "VALUE foo:1 0 1\r\nx\r\nEND\r\n");
    client.exchange("stats detail dump\r\n", "PREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n");
    client.exchange("stats reset\r\n", "RESET\r\n");
    client.exchange("stats detail dump\r\n", "END\r\n");
    client.exchange("stats detail nonsense\r\n", "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
}

#[test]
fn what_is_stored_by_the_way_is_not_counted() {
    let server = Server::start();
    newer_than_peer!(server, "has no md with x");
    let mut client = server.connect();
    client.exchange("stats detail on\r\n", "OK\r\n");
    client.exchange("ma foo:n N0\r\n", "HD\r\n");
    client.exchange("incr foo:n 1\r\n", "1\r\n");
    let big = format!("set foo:big 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    client.exchange(&big, "SERVER_ERROR object too large for cache\r\n");
    client.exchange("stats detail dump\r\n", "PREFIX foo get 0 hit 0 set 1 del 0\r\nEND\r\n");
}

#[test]
fn the_binary_protocol_has_it_too() {
    let server = Server::start();
    let (mut text, mut binary) = (server.connect(), server.connect());
    let mut ask = |about: &str| {
        let replies = binary.ask_quietly(&[Request::new(STAT).key(about)]).into_iter();
        replies.map(|reply| (reply.status, text_of(&reply.key), text_of(&reply.value))).collect::<Vec<_>>()
    };
    let end = || (0, String::new(), String::new());
    let counted = || (0, "detailed".to_owned(), "PREFIX foo get 1 hit 0 set 0 del 0\r\nEND\r\n".to_owned());
    assert_eq!(ask("detail on"), [end()]);
    text.exchange("get foo:1\r\n", "END\r\n");
    assert_eq!(ask("detail dump"), [counted(), end()]);
    assert_eq!(ask("detail off"), [end()]);
    text.exchange("get foo:1\r\n", "END\r\n");
    assert_eq!(ask("detail dump"), [counted(), end()]);
    assert_eq!(ask("detail nonsense"), [(1, String::new(), "Not found".to_owned())]);
}

#[test]
fn a_prefix_that_does_not_fit_in_text_breaks_no_line() {
    let server = Server::start();
    upstream_flaw!(server, "writes it as it is");
    let (mut text, mut binary) = (server.connect(), server.connect());
    text.exchange("stats detail on\r\n", "OK\r\n");
    binary.ask_quietly(&[get("a\r\nEND\r\nfoo:b")]);
    text.exchange("stats detail dump\r\n", "PREFIX a%0D%0AEND%0D%0Afoo get 1 hit 0 set 0 del 0\r\nEND\r\n");
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_delimiter_that_is_given_switches_it_on() {
    let server = Setup::new().options(&["-D", "/"]).start();
    let mut client = server.connect();
    client.exchange("get a/b/c\r\n", "END\r\n");
    client.exchange("stats detail dump\r\n", "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n");
}

#[test]
fn it_can_be_forbidden() {
    let server = Setup::new().options(&["-X"]).start();
    newer_than_peer!(server, "allows stats detail all the same");
    let mut client = server.connect();
    client.exchange("stats detail on\r\n", "CLIENT_ERROR stats detail not allowed\r\n");
    client.exchange("stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n");
    client.exchange("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n");
}
