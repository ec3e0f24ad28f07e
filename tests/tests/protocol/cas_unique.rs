//! `gets` tells a cas unique that every change of the item replaces; `cas` stores only when it still matches.

use guira_tests::binary::{Request, get, set};
use guira_tests::{Server, Setup, newer_than_peer};

#[test]
fn cas_stores_when_the_unique_matches_and_only_once() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "old");
    let unique = client.cas("key");
    client.exchange(format!("cas key 4 0 3 {unique}\r\nnew\r\n"), "STORED\r\n");
    client.exchange(format!("cas key 0 0 4 {unique}\r\nlate\r\n"), "EXISTS\r\n");
    let value = client.value("key").expect("the key is there");
    assert_eq!((value.flags, value.data.as_slice()), (4, b"new".as_slice()));
    assert_ne!(value.cas, unique);
}

#[test]
fn cas_without_an_item_is_not_found() {
    let server = Server::start();
    server.connect().talk(&[
        ("cas missing 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("cas missing 0 0 1 0\r\nx\r\n", "NOT_FOUND\r\n"),
        ("set gone 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("cas gone 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("get missing gone\r\n", "END\r\n"),
    ]);
}

#[test]
fn a_unique_that_was_never_given_does_not_match() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.talk(&[
        ("cas key 0 0 1 0\r\ny\r\n", "EXISTS\r\n"),
        ("cas key 0 0 1 18446744073709551615\r\ny\r\n", "EXISTS\r\n"),
    ]);
    client.expect_value("key", "x");
}

#[test]
fn every_change_gives_a_new_unique() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "10");
    let mut seen = vec![client.cas("key")];
    for change in [
        "set key 0 0 2\r\n11\r\n",
        "replace key 0 0 2\r\n12\r\n",
        "append key 0 0 1\r\n3\r\n",
        "prepend key 0 0 1\r\n4\r\n",
        "incr key 1\r\n",
        "decr key 1\r\n",
        "md key I\r\n",
        "ms key 2\r\n20\r\n",
        "ma key\r\n",
    ] {
        client.ask(change);
        let unique = client.cas("key");
        assert!(!seen.contains(&unique), "{change:?} kept or reused the unique {unique}");
        seen.push(unique);
    }
    client.talk(&[("delete key\r\n", "DELETED\r\n"), ("add key 0 0 1\r\n1\r\n", "STORED\r\n")]);
    let unique = client.cas("key");
    assert!(!seen.contains(&unique), "a new item reused the unique {unique}");
}

#[test]
fn reading_and_touching_keep_the_unique() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.talk(&[
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("touch key 500\r\n", "TOUCHED\r\n"),
        ("gat 200 key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("mg key T0\r\n", "HD\r\n"),
        ("add key 0 0 1\r\ny\r\n", "NOT_STORED\r\n"),
    ]);
    assert_eq!(client.cas("key"), unique);
}

#[test]
fn gets_of_several_keys_tells_each_unique() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("a", "1");
    client.set("b", "2");
    let (a, b) = (client.cas("a"), client.cas("b"));
    assert_ne!(a, b);
    client
        .exchange("gets a missing b\r\n", format!("VALUE a 0 1 {a}\r\n1\r\nVALUE b 0 1 {b}\r\n2\r\nEND\r\n"));
}

#[test]
fn the_failed_cas_keeps_the_item() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set key 3 500 1\r\nx\r\n", "STORED\r\n");
    let unique = client.cas("key");
    client.exchange(format!("cas key 9 0 1 {}\r\ny\r\n", unique + 1), "EXISTS\r\n");
    client.exchange("mg key v f t c\r\n", format!("VA 1 f3 t~500 c{unique}\r\nx\r\n"));
}

#[test]
fn a_bad_unique_is_refused_and_the_data_taken() {
    let server = Server::start();
    newer_than_peer!(server, "the data block of a refused cas is read as a command");
    let mut client = server.connect();
    for unique in ["x", "-1x", "18446744073709551616", ""] {
        client
            .exchange(format!("cas key 0 0 1 {unique}\r\nx\r\n"), "CLIENT_ERROR bad command line format\r\n");
        client.sync();
    }
}

#[test]
fn where_there_are_no_uniques_0_is_shown_and_nothing_is_equal() {
    let server = Setup::new().options(&["-C"]).start();
    let mut client = server.connect();
    client.talk(&[
        ("set k 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("gets k\r\n", "VALUE k 0 1 0\r\nx\r\nEND\r\n"),
        ("gats 0 k\r\n", "VALUE k 0 1 0\r\nx\r\nEND\r\n"),
        ("mg k c v\r\n", "VA 1 c0\r\nx\r\n"),
        ("cas k 0 0 1 1\r\ny\r\n", "EXISTS\r\n"),
        ("cas k 0 0 1 0\r\nz\r\n", "EXISTS\r\n"),
        ("cas missing 0 0 1 0\r\nz\r\n", "NOT_FOUND\r\n"),
        ("ms k 1 c\r\na\r\n", "HD c0\r\n"),
        ("ms k 1 C0\r\nb\r\n", "EX\r\n"),
        ("ms k 1 C5 I c\r\nd\r\n", "EX c0\r\n"),
        ("ms new 1 C5 c\r\nf\r\n", "NF c0\r\n"),
        ("ms k 1 MA c\r\ny\r\n", "HD c0\r\n"),
        ("ms k 1 MA C5\r\ny\r\n", "HD\r\n"),
        ("md k C5\r\n", "EX\r\n"),
        ("md k I\r\n", "HD\r\n"),
        ("mg k c v\r\n", "VA 3 c0 X W\r\nayy\r\n"),
        ("md k C0\r\n", "HD\r\n"),
        ("mg k c v\r\n", "EN\r\n"),
        ("set n 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("ma n c v\r\n", "VA 1 c0\r\n6\r\n"),
        ("ma n C0 c v\r\n", "VA 1 c0\r\n7\r\n"),
        ("ma n C9 c v\r\n", "EX\r\n"),
        ("ma auto N0 J5 c v\r\n", "VA 1 c0\r\n5\r\n"),
        ("mg viv N30 c v\r\n", "VA 0 c0 W\r\n\r\n"),
    ]);
    assert!(client.ask("me n\r\n").contains(" cas=0 "));
    assert_eq!(client.stats("settings")["cas_enabled"], "no");
}

#[test]
fn where_there_are_no_uniques_binary_stores_are_not_compared() {
    let server = Setup::new().options(&["-C"]).start();
    let mut client = server.connect();
    let mut status = |request: Request| {
        let response = client.ask_binary(&request);
        assert_eq!(response.cas, 0, "{request:?}");
        response.status
    };
    let count = |opcode| Request::new(opcode).long(1).long(0).word(0).key("n");
    assert_eq!(status(set("k", 0, "v")), 0);
    assert_eq!(status(get("k")), 0);
    assert_eq!(status(set("k", 0, "w").cas(5)), 0);
    assert_eq!(status(set("new", 0, "w").cas(5)), 0);
    assert_eq!(status(Request::new(0x0e).key("k").value("r").cas(5)), 0);
    assert_eq!(status(Request::new(0x1d).word(0).key("k")), 0);
    assert_eq!(status(count(0x05)), 0);
    assert_eq!(status(count(0x05).cas(5)), 2);
    assert_eq!(status(Request::new(0x04).key("k").cas(5)), 2);
    assert_eq!(status(Request::new(0x04).key("k")), 0);
}

/// Who has kept one, or a lease token, would store over what was stored since. memcached begins at 1 each time.
#[test]
fn a_unique_of_a_cache_that_was_lost_is_not_given_again() {
    let unique = || {
        let server = Setup::new().start_guira();
        let mut client = server.connect();
        client.set("key", "x");
        client.cas("key")
    };
    let [one, other] = [unique(), unique()];
    assert_ne!(one, other);
    assert!(one.max(other) < 1 << 53, "some clients hold no larger number: {one} {other}");
}
