//! `mg`: what each flag returns, in the order of the request.

use guira_tests::lines::{flag, number};
use guira_tests::{Server, newer_than_peer};

#[test]
fn a_hit_without_flags_is_a_head() {
    let server = Server::start();
    server.connect().talk(&[("set key 0 0 2\r\nhi\r\n", "STORED\r\n"), ("mg key\r\n", "HD\r\n")]);
}

#[test]
fn a_miss_is_an_end() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key\r\n", "EN\r\n"),
        ("mg key v\r\n", "EN\r\n"),
        ("mg key s v t f c h l u\r\n", "EN\r\n"),
        ("mg key k O1 v\r\n", "EN kkey O1\r\n"),
        ("mg key O1 s k\r\n", "EN O1 kkey\r\n"),
    ]);
}

#[test]
fn the_value_comes_with_v() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 9 500 2\r\nhi\r\n", "STORED\r\n"),
        ("mg key v\r\n", "VA 2\r\nhi\r\n"),
        ("mg key s v\r\n", "VA 2 s2\r\nhi\r\n"),
        ("set empty 0 0 0\r\n\r\n", "STORED\r\n"),
        ("mg empty v s\r\n", "VA 0 s0\r\n\r\n"),
    ]);
}

#[test]
fn flags_return_in_the_order_of_the_request() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 9 500 2\r\nhi\r\n", "STORED\r\n"),
        ("mg key t f s\r\n", "HD t~500 f9 s2\r\n"),
        ("mg key s t f\r\n", "HD s2 t~500 f9\r\n"),
        ("mg key k v Oabc f\r\n", "VA 2 kkey Oabc f9\r\nhi\r\n"),
        ("mg key f v k t s\r\n", "VA 2 f9 kkey t~500 s2\r\nhi\r\n"),
    ]);
}

#[test]
fn c_is_the_cas_unique_of_gets() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange("mg key c\r\n", format!("HD c{unique}\r\n"));
}

#[test]
fn t_is_the_time_left_or_minus_one() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key t\r\n", "HD t-1\r\n"),
        ("set key 0 5000 1\r\nx\r\n", "STORED\r\n"),
        ("mg key t\r\n", "HD t~5000\r\n"),
    ]);
}

#[test]
fn capital_t_touches() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 500 1\r\nx\r\n", "STORED\r\n"),
        ("mg key T200 t\r\n", "HD t~200\r\n"),
        ("mg key t T300\r\n", "HD t~200\r\n"),
        ("mg key t\r\n", "HD t~300\r\n"),
        ("mg key T0 v t\r\n", "VA 1 t-1\r\nx\r\n"),
        ("mg key T-1\r\n", "HD\r\n"),
        ("mg key\r\n", "EN\r\n"),
        ("mg key T500\r\n", "EN\r\n"),
    ]);
}

#[test]
fn h_tells_whether_the_item_was_fetched_before() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key h\r\n", "HD h0\r\n"),
        ("mg key h\r\n", "HD h1\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key h u\r\n", "HD h0\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("mg key h u\r\n", "HD h1\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("gat 0 key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("mg key h u\r\n", "HD h1\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key v\r\n", "VA 1\r\nx\r\n"),
        ("mg key h u\r\n", "HD h1\r\n"),
    ]);
}

#[test]
fn u_leaves_the_item_unfetched() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key u v\r\n", "VA 1\r\nx\r\n"),
        ("mg key u h\r\n", "HD h0\r\n"),
        ("mg key h u\r\n", "HD h0\r\n"),
    ]);
}

#[test]
fn arithmetic_and_appending_are_no_fetch() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 2\r\n10\r\n", "STORED\r\n"),
        ("incr key 1\r\n", "11\r\n"),
        ("mg key h u\r\n", "HD h0\r\n"),
        ("ma key\r\n", "HD\r\n"),
        ("mg key h u\r\n", "HD h0\r\n"),
    ]);
}

#[test]
fn l_is_the_time_since_the_last_access() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let line = client.ask("mg key l\r\n");
    assert!(number(&line, 'l') <= 2, "{line}");
    let line = client.ask("mg key l t\r\n");
    assert!(number(&line, 'l') <= 2 && flag(&line, 't') == Some("-1"), "{line}");
}

#[test]
fn hints_for_proxies_are_ignored() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key Lsomewhere/ v Ppath\r\n", "VA 1\r\nx\r\n"),
        ("ms key 1 Lsomewhere/ Ppath\r\ny\r\n", "HD\r\n"),
        ("ma missing Lx Py\r\n", "NF\r\n"),
        ("md key Lx Py\r\n", "HD\r\n"),
    ]);
}

#[test]
fn switches_may_carry_a_token() {
    let server = Server::start();
    server
        .connect()
        .talk(&[("set key 0 0 1\r\nx\r\n", "STORED\r\n"), ("mg key value size\r\n", "VA 1 s1\r\nx\r\n")]);
}

#[test]
fn duplicate_and_unknown_flags_are_refused() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg key v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("mg key k v Ox t Oy\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("mg key z\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg key W\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg key v X\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg missing q z\r\n", "CLIENT_ERROR invalid flag\r\n"),
    ]);
}

#[test]
fn flags_are_letters() {
    let server = Server::start();
    newer_than_peer!(server, "what is no letter is an invalid or a duplicate flag");
    server.connect().talk(&[
        ("mg key !\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("mg key v -\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ]);
}

#[test]
fn bad_tokens_are_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for token in ["Tx", "T", "T1x", "Nx", "N", "Rx", "R", "T1.5"] {
        client.exchange(format!("mg key {token}\r\n"), "CLIENT_ERROR bad token in command line format\r\n");
    }
}

#[test]
fn eighteen_flags_are_enough() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.exchange(format!("mg key{}\r\n", " P".repeat(25)), "CLIENT_ERROR options flags are too long\r\n");
    let line = client.ask("mg key c f h k l s t u O1 Pp Ll T0\r\n");
    let (before, after) = line.split_once(" l").expect("a time since the last access");
    let (seconds, after) = after.split_once(' ').expect("flags behind it");
    assert!(before.starts_with("HD c") && before.ends_with(" f0 h0 kkey") && after == "s1 t-1 O1", "{line}");
    assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds < 60), "{line}");
}

#[test]
fn flags_of_other_commands_are_ignored() {
    let server = Server::start();
    newer_than_peer!(server, "some of them are invalid");
    server
        .connect()
        .talk(&[("set key 0 0 1\r\nx\r\n", "STORED\r\n"), ("mg key I x F5 D1 J1 MX v\r\n", "VA 1\r\nx\r\n")]);
}

#[test]
fn an_equal_cas_suppresses_the_value() {
    let server = Server::start();
    newer_than_peer!(server, "mg has no C");
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange(format!("mg key C{unique} v\r\n"), "HD\r\n");
    client.exchange(format!("mg key v C{unique} c k s\r\n"), format!("HD c{unique} kkey s1\r\n"));
    client.exchange(format!("mg key C{} v s\r\n", unique + 1), "VA 1 s1\r\nx\r\n");
    client.exchange(format!("mg key C{}\r\n", unique + 1), "HD\r\n");
    client.exchange(format!("mg missing C{unique} v\r\n"), "EN\r\n");
    client.exchange("mg key Cx v\r\n", "CLIENT_ERROR bad token in command line format\r\n");
    client.exchange(format!("mg key C{unique} v T500\r\n"), "HD\r\n");
    client.exchange("mg key t\r\n", "HD t~500\r\n");
}
