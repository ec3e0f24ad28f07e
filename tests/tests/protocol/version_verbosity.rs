//! `version`, `verbosity` and other small commands.

use guira_tests::{Server, newer_than_peer};

#[test]
fn version_tells_three_numbers() {
    let server = Server::start();
    let mut client = server.connect();
    for request in ["version\r\n", "version further words\r\n", "version noreply\r\n"] {
        let line = client.ask(request);
        let version = line.strip_prefix("VERSION ").unwrap_or_else(|| panic!("not a version: {line}"));
        let number = version.split([' ', '-', '+']).next().unwrap_or_default();
        // Clients parse this: some refuse what does not look like memcached's 1.6.x.
        let parts = number.split('.').map(str::parse::<u32>).collect::<Vec<_>>();
        assert!(parts.len() == 3 && parts.iter().all(Result::is_ok), "{version} does not begin with a.b.c");
    }
}

#[test]
fn verbosity_takes_a_level() {
    let server = Server::start();
    server.connect().talk(&[
        ("verbosity 1\r\n", "OK\r\n"),
        ("verbosity 0\r\n", "OK\r\n"),
        ("verbosity x\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("verbosity -1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ]);
    server.connect().expect_silence("verbosity 0 noreply\r\n");
}

#[test]
fn verbosity_without_a_level_is_a_bad_line() {
    let server = Server::start();
    newer_than_peer!(server, "too few words are an ERROR, too many too");
    server.connect().talk(&[
        ("verbosity\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("verbosity 0 1 2\r\n", "OK\r\n"),
    ]);
}

#[test]
fn shutdown_is_not_allowed_by_default() {
    let server = Server::start();
    newer_than_peer!(server, "the error begins with ERROR");
    server.connect().exchange("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    server.connect().sync();
}
