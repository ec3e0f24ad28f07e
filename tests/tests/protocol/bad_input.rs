//! Garbage, half requests and lies: the server answers or closes, and serves everybody else.

use guira_tests::random::Random;
use guira_tests::{Server, newer_than_peer, upstream_flaw};

const BAD_LINE: &str = "CLIENT_ERROR bad command line format\r\n";
const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";

#[test]
fn an_unknown_command_is_an_error_and_the_connection_goes_on() {
    let server = Server::start();
    let mut client = server.connect();
    for request in
        ["unknown\r\n", "GET key\r\n", "getx key\r\n", "mx key\r\n", "MN\r\n", "ge key\r\n", "verb 1\r\n"]
    {
        client.exchange(request, "ERROR\r\n");
    }
    client.sync();
}

#[test]
fn missing_words_are_a_bad_line() {
    let server = Server::start();
    newer_than_peer!(server, "too few words are an ERROR");
    let mut client = server.connect();
    for request in [
        "get\r\n",
        "get \r\n",
        "gets\r\n",
        "set\r\n",
        "set a\r\n",
        "set a 0 0\r\n",
        "add a 0\r\n",
        "cas a 0 0\r\n",
        "mg\r\n",
        "ms\r\n",
        "ms a\r\n",
        "md\r\n",
        "ma\r\n",
        "me\r\n",
    ] {
        client.exchange(request, BAD_LINE);
    }
    client.sync();
}

#[test]
fn very_short_lines_are_a_bad_line() {
    let server = Server::start();
    newer_than_peer!(server, "short lines are an ERROR");
    let mut client = server.connect();
    for request in ["\r\n", "\n", "x\r\n", "xy\n"] {
        client.exchange(request, BAD_LINE);
    }
    client.exchange("xy\r\n", "ERROR\r\n");
}

#[test]
fn a_blank_before_the_command_is_an_error() {
    let server = Server::start();
    newer_than_peer!(server, "blanks before the command are skipped");
    server.connect().exchange(" get key\r\n", "ERROR\r\n");
}

#[test]
fn an_unreadable_length_takes_no_data() {
    let server = Server::start();
    let mut client = server.connect();
    for length in ["x", "-1", "1x", "2147483647", "99999999999999999999"] {
        client.exchange(format!("set key 0 0 {length}\r\n"), BAD_LINE);
        client.sync();
        client.exchange(format!("ms key {length}\r\n"), BAD_LINE);
        client.sync();
    }
}

#[test]
fn lengths_are_plain_digits_of_31_bits() {
    let server = Server::start();
    newer_than_peer!(server, "lengths are cut to 32 bits and may have a sign");
    let mut client = server.connect();
    for length in ["+1", "4294967297", "2147483646"] {
        client.exchange(format!("set key 0 0 {length}\r\n"), BAD_LINE);
        client.sync();
    }
}

#[test]
fn a_bad_number_in_a_readable_line_takes_the_data() {
    let server = Server::start();
    newer_than_peer!(server, "the data block is read as a command");
    let mut client = server.connect();
    for line in ["set key x 0 5", "set key -1 0 5", "set key 0 x 5", "set key 0 1.5 5", "cas key 0 0 5 x"] {
        client.exchange(format!("{line}\r\nhello\r\n"), BAD_LINE);
        client.sync();
    }
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn a_digit_where_a_flag_should_be_takes_the_data() {
    let server = Server::start();
    let mut client = server.connect();
    for flag in ["1", "60", "0", "v 9 k", "1 1"] {
        let injected = format!("ms k 12 {flag}\r\nflush_all 10\r\nmn\r\n");
        client.exchange(injected, "CLIENT_ERROR invalid flag\r\nMN\r\n");
        client.exchange(format!("mg k {flag}\r\n"), "CLIENT_ERROR invalid flag\r\n");
        client.exchange(format!("ma k {flag}\r\n"), "CLIENT_ERROR invalid or duplicate flag\r\n");
    }
    client.exchange("ms k 12 7 S\r\nflush_all 10\r\nmn\r\n", "CLIENT_ERROR invalid flag\r\nMN\r\n");
}

#[test]
fn every_fault_of_a_store_whose_length_is_known_takes_the_data() {
    let server = Server::start();
    newer_than_peer!(server, "takes the data of few of them");
    let mut client = server.connect();
    let long = "k".repeat(251);
    let many = " v".repeat(18);
    let lines = [
        format!("set {long} 0 0 10"),
        "set k x 0 10".to_owned(),
        "set k 0 x 10".to_owned(),
        "cas k 0 0 10 x".to_owned(),
        "cas k 0 0 10".to_owned(),
        format!("append {long} 0 0 10"),
        format!("ms {long} 10"),
        "ms !!! 10 b".to_owned(),
        "ms k 10 z".to_owned(),
        "ms k 10 T".to_owned(),
        "ms k 10 Fx".to_owned(),
        "ms k 10 Mx".to_owned(),
        "ms k 10 k k".to_owned(),
        format!("ms k 10 O{}", "o".repeat(32)),
        format!("ms k 10{many}"),
        "ms k 10 noreply".to_owned(),
    ];
    for line in lines {
        client.send(format!("{line}\r\nincr i 1\r\n\r\n"));
        let error = client.loose_line();
        assert!(error.starts_with("CLIENT_ERROR "), "{line}: {error}");
        client.sync();
    }
}

#[test]
fn a_bad_data_chunk_takes_its_length_and_two_bytes() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "old");
    for request in
        ["set key 0 0 3\r\nabcde", "ms key 3\r\nabcde", "add new 0 0 0\r\nab", "set key 0 0 3\r\nabc\ne"]
    {
        client.exchange(request, BAD_CHUNK);
        client.sync();
    }
    client.expect_value("key", "old");
    client.exchange("get new\r\n", "END\r\n");
}

#[test]
fn the_rest_of_a_bad_data_chunk_is_the_next_command() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set key 0 0 3\r\nabcdeunknown\r\n", format!("{BAD_CHUNK}ERROR\r\n"));
    client.exchange("set key 0 0 3\r\nabcdemn\r\n", format!("{BAD_CHUNK}MN\r\n"));
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn noreply_hides_a_bad_data_chunk_but_quiet_does_not() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect_silence("set key 0 0 3 noreply\r\nabcde");
    client.exchange("ms key 3 q\r\nabcde", BAD_CHUNK);
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn a_large_bad_data_chunk_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    let length = 700_000;
    let mut request = format!("set key 0 0 {length}\r\n").into_bytes();
    request.extend(vec![b'x'; length + 2]);
    client.exchange_at_once(&request, BAD_CHUNK.as_bytes());
    client.sync();
    client.exchange("get key\r\n", "END\r\n");
}

#[test]
fn a_line_without_end_is_cut_off() {
    let server = Server::start();
    for byte in [b'x', b' ', 0, 0xff, b'\r'] {
        let mut client = server.connect();
        client.send_until_closed(vec![byte; 3000]);
        client.expect_closed();
    }
    server.connect().sync();
}

#[test]
fn an_endless_key_does_not_eat_the_memory() {
    let mut server = Server::start();
    upstream_flaw!(server, "its buffer grows with a get without end");
    let before = server.memory();
    let mut client = server.connect();
    client.send_until_closed("get ");
    client.send_until_closed(vec![b'x'; 64 << 20]);
    server.expect_running();
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "one key made the server grow by {grown} bytes");
    server.connect().sync();
    client.abandon();
}

#[test]
fn a_huge_length_reserves_nothing() {
    let mut server = Server::start();
    let before = server.memory();
    for command in ["set key 0 0 2147483645", "append key 0 0 1000000000", "ms key 2147483645"] {
        let mut client = server.connect();
        client.send_until_closed(format!("{command}\r\n"));
        client.send_until_closed(vec![b'x'; 4 << 20]);
        client.abandon();
    }
    server.connect().sync();
    server.expect_running();
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "lengths that nothing followed made the server grow by {grown} bytes");
    server.connect().exchange("get key\r\n", "END\r\n");
}

#[test]
fn an_http_request_is_closed() {
    let server = Server::start();
    for request in ["GET / HTTP/1.1\r\n", "POST /x HTTP/1.0\r\n", "unknown HTTP/\r\n"] {
        let mut client = server.connect();
        client.send(request);
        client.expect_closed();
    }
}

#[test]
fn half_requests_wait_for_the_other_half() {
    let server = Server::start();
    let mut client = server.connect();
    for (first, second, reply) in [
        ("get ke", "y\r\n", "END\r\n"),
        ("get key\r", "\n", "END\r\n"),
        ("set key 0 0 5\r\n", "hello\r\n", "STORED\r\n"),
        ("set key 0 0 5\r\nhel", "lo\r\n", "STORED\r\n"),
        ("set key 0 0 5\r\nhello\r", "\n", "STORED\r\n"),
        ("ms key 5 ", "c\r\nhello\r\n", "HD c"),
    ] {
        client.send(first);
        // Another connection is served while this one waits.
        server.connect().sync();
        client.exchange(second, reply);
    }
    client.line();
}

#[test]
fn a_client_that_vanishes_in_a_request_leaves_nothing() {
    let server = Server::start();
    for request in [
        "set key 0 0 100\r\nhalf",
        "set key 0 0 5\r\nhello",
        "set key 0 0 5\r\nhello\r",
        "get ",
        "ms key 9\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        client.abandon();
    }
    let mut client = server.connect();
    client.exchange("get key\r\n", "END\r\n");
    client.set("key", "x");
}

#[test]
fn random_bytes_do_not_stop_the_server() {
    let mut server = Server::start();
    let mut random = Random::new(2026);
    for _ in 0..100 {
        let mut client = server.connect();
        let length = random.below(3000) as usize;
        let mut garbage = random.bytes(length);
        if garbage.first() == Some(&0x80) {
            garbage[0] = b'x';
        }
        client.send_until_closed(garbage);
        client.abandon();
        server.expect_running();
    }
    let mut client = server.connect();
    client.set("key", "x");
    client.expect_value("key", "x");
}

#[test]
fn random_lines_of_known_words_do_not_stop_the_server() {
    let mut server = Server::start();
    let mut random = Random::new(2027);
    let words = [
        "get",
        "set",
        "cas",
        "gat",
        "mg",
        "ms",
        "md",
        "ma",
        "me",
        "mn",
        "incr",
        "touch",
        "delete",
        "key",
        "0",
        "1",
        "-1",
        "noreply",
        "v",
        "T0",
        "N1",
        "b",
        "E5",
        "C5",
        "I",
        "x",
        "q",
        "Zm9v",
        "stats",
        "\t",
        "",
        "99999999999999999999",
    ];
    for _ in 0..50 {
        let mut client = server.connect();
        let mut lines = Vec::new();
        for _ in 0..200 {
            for _ in 0..=random.below(6) {
                lines.extend_from_slice(random.pick(&words).as_bytes());
                lines.push(b' ');
            }
            lines.extend_from_slice(b"\r\n");
        }
        client.send_until_closed(lines);
        client.abandon();
    }
    server.expect_running();
    server.connect().sync();
}
