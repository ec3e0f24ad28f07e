//! The binary protocol.

use guira_tests::binary::{
    EXISTS, NEVER_CREATE, NO_NUMBER, NOT_FOUND, NOT_STORED, Request, expect_quiet_commands, get, noop, set,
};
use guira_tests::{Server, newer_than_peer, upstream_flaw};

const TOO_LARGE: (u16, &str) = (3, "Too large.");
const INVALID: (u16, &str) = (4, "Invalid arguments");
const UNKNOWN: (u16, &str) = (0x81, "Unknown command");

#[test]
fn what_is_set_is_got_with_flags_key_and_cas_unique() {
    let server = Server::start();
    let mut client = server.connect();
    let stored = client.ask_binary(&set("key", 0xdead_beef, "value").opaque(7));
    assert_eq!((stored.outcome(), stored.opaque, stored.extras.len()), ((0, ""), 7, 0));
    assert_ne!(stored.cas, 0);
    let got = client.ask_binary(&get("key").opaque(8));
    assert_eq!((got.outcome(), got.opaque, got.cas), ((0, "value"), 8, stored.cas));
    assert_eq!((got.extras.as_slice(), got.key.len()), (&[0xde, 0xad, 0xbe, 0xef][..], 0));
    let got = client.ask_binary(&Request::new(0x0c).key("key"));
    assert_eq!((got.key.as_slice(), got.outcome()), (b"key".as_slice(), (0, "value")));
    server.connect().expect_value("key", "value");
    assert_eq!(server.connect().cas("key"), stored.cas);
}

#[test]
fn an_item_of_a_text_client_gets_a_cas_unique_when_it_is_read() {
    let server = Server::start();
    server.connect().exchange("set key 5 0 5\r\nvalue\r\n", "STORED\r\n");
    let mut client = server.connect();
    let got = client.ask_binary(&get("key"));
    assert_eq!((got.outcome(), got.extras.as_slice()), ((0, "value"), &[0, 0, 0, 5][..]));
    assert_ne!(got.cas, 0);
    assert_eq!(client.ask_binary(&get("key")).cas, got.cas);
    assert_eq!(client.ask_binary(&set("key", 0, "x").cas(got.cas)).status, 0);
}

#[test]
fn a_miss_is_reported_in_words_or_with_the_key() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&get("none")).outcome(), NOT_FOUND);
    let missed = client.ask_binary(&Request::new(0x0c).key("none"));
    assert_eq!((missed.status, missed.key.as_slice(), missed.value.len()), (1, b"none".as_slice(), 0));
    let missed = client.ask_binary(&Request::new(0x23).word(0).key("none"));
    assert_eq!((missed.status, missed.key.as_slice()), (1, b"none".as_slice()));
}

#[test]
fn quiet_commands_tell_the_unexpected_only() {
    let server = Server::start();
    let mut client = server.connect();
    expect_quiet_commands(&mut client);
    assert!(client.ask_quietly(&[Request::new(0x18)]).is_empty(), "a quiet flush");
}

#[test]
fn add_replace_append_and_prepend_have_their_conditions() {
    let server = Server::start();
    let mut client = server.connect();
    let with = |opcode, key: &str, value: &str| Request::new(opcode).word(3).word(0).key(key).value(value);
    assert_eq!(client.ask_binary(&with(0x03, "k", "x")).outcome(), NOT_FOUND);
    assert_eq!(client.ask_binary(&with(0x02, "k", "b")).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&with(0x02, "k", "x")).outcome(), EXISTS);
    let appended = client.ask_binary(&Request::new(0x0e).key("k").value("c"));
    assert_eq!(
        client.ask_binary(&Request::new(0x0f).key("k").value("x").cas(appended.cas + 1)).outcome(),
        EXISTS
    );
    assert_eq!(
        client.ask_binary(&Request::new(0x0f).key("k").value("a").cas(appended.cas)).outcome(),
        (0, "")
    );
    let got = client.ask_binary(&get("k"));
    assert_eq!((got.outcome(), got.extras.as_slice()), ((0, "abc"), &[0, 0, 0, 3][..]));
    assert_eq!(client.ask_binary(&with(0x03, "k", "new")).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&Request::new(0x0e).key("none").value("x")).outcome(), NOT_STORED);
}

#[test]
fn a_cas_unique_guards_set_and_delete() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&set("k", 0, "x").cas(5)).outcome(), NOT_FOUND);
    let first = client.ask_binary(&set("k", 0, "x")).cas;
    let second = client.ask_binary(&set("k", 0, "y").cas(first)).cas;
    assert_ne!(first, second);
    assert_eq!(client.ask_binary(&set("k", 0, "z").cas(first)).outcome(), EXISTS);
    assert_eq!(
        client.ask_binary(&Request::new(0x02).word(0).word(0).key("k").value("z").cas(first)).outcome(),
        EXISTS
    );
    assert_eq!(client.ask_binary(&Request::new(0x04).key("k").cas(first)).outcome(), EXISTS);
    assert_eq!(client.ask_binary(&Request::new(0x04).key("k").cas(second)).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&Request::new(0x04).key("k")).outcome(), NOT_FOUND);
}

#[test]
fn numbers_are_counted_and_created() {
    let server = Server::start();
    let mut client = server.connect();
    let step = |opcode, delta, initial, time: u32| {
        Request::new(opcode).long(delta).long(initial).word(time).key("n")
    };
    assert_eq!(client.ask_binary(&step(0x05, 1, 10, NEVER_CREATE)).outcome(), NOT_FOUND);
    let created = client.ask_binary(&step(0x05, 1, 10, 0));
    assert_eq!((created.status, created.value.as_slice()), (0, 10u64.to_be_bytes().as_slice()));
    let counted = client.ask_binary(&step(0x05, 90, 0, 0));
    assert_eq!(counted.value, 100u64.to_be_bytes());
    assert_ne!(counted.cas, created.cas);
    assert_eq!(client.ask_binary(&get("n")).cas, counted.cas);
    assert_eq!(client.ask_binary(&step(0x06, 98, 0, 0)).value, 2u64.to_be_bytes());
    assert_eq!(client.ask_binary(&get("n")).outcome(), (0, "2  "), "padded with blanks");
    assert_eq!(client.ask_binary(&step(0x06, 5, 0, 0)).value, 0u64.to_be_bytes());
    assert_eq!(client.ask_binary(&step(0x05, u64::MAX, 0, 0)).value, u64::MAX.to_be_bytes());
    assert_eq!(client.ask_binary(&step(0x05, 2, 0, 0)).value, 1u64.to_be_bytes());
    assert_eq!(client.ask_binary(&step(0x05, 1, 0, 0).cas(created.cas)).outcome(), EXISTS);
    client.ask_binary(&set("n", 0, "text"));
    assert_eq!(client.ask_binary(&step(0x05, 1, 0, 0)).outcome(), NO_NUMBER);
}

#[test]
fn touch_and_gat_change_when_an_item_expires() {
    let server = Server::start();
    let mut client = server.connect();
    client.ask_binary(&set("k", 9, "value"));
    let touched = client.ask_binary(&Request::new(0x1c).word(100).key("k"));
    assert_eq!((touched.outcome(), touched.extras.as_slice()), ((0, ""), &[0, 0, 0, 9][..]));
    server.connect().exchange("mg k t\r\n", "HD t100\r\n");
    assert_eq!(client.ask_binary(&Request::new(0x1d).word(200).key("k")).outcome(), (0, "value"));
    server.connect().exchange("mg k t\r\n", "HD t200\r\n");
    let got = client.ask_binary(&Request::new(0x23).word(0).key("k"));
    assert_eq!((got.key.as_slice(), got.outcome()), (b"k".as_slice(), (0, "value")));
    server.connect().exchange("mg k t\r\n", "HD t-1\r\n");
    let no_time_is_negative = Request::new(0x1d).word(u32::MAX).key("k");
    assert_eq!(client.ask_binary(&no_time_is_negative).outcome(), (0, "value"));
    assert_eq!(client.ask_binary(&get("k")).outcome(), (0, "value"));
    let long_ago = 31 * 24 * 3600;
    assert_eq!(client.ask_binary(&Request::new(0x1d).word(long_ago).key("k")).outcome(), (0, "value"));
    assert_eq!(client.ask_binary(&get("k")).outcome(), NOT_FOUND);
    assert_eq!(client.ask_binary(&Request::new(0x1c).word(0).key("k")).outcome(), NOT_FOUND);
}

#[test]
fn flush_noop_version_and_stat_answer_and_quit_closes() {
    let server = Server::start();
    let mut client = server.connect();
    client.ask_binary(&set("k", 0, "x"));
    assert_eq!(client.ask_binary(&noop()).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&Request::new(0x08)).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&get("k")).outcome(), NOT_FOUND);
    client.ask_binary(&set("k", 0, "x"));
    assert_eq!(client.ask_binary(&Request::new(0x08).word(1000)).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&get("k")).outcome(), (0, "x"));
    let version = client.ask_binary(&Request::new(0x0b));
    assert!(version.value.starts_with(b"1.6."), "{version:?}");
    let stats = client.ask_quietly(&[Request::new(0x10)]);
    assert!(stats.iter().any(|stat| stat.key == b"cmd_get" && stat.value == b"2"), "{stats:?}");
    assert_eq!(stats.iter().filter(|stat| stat.key.is_empty() && stat.value.is_empty()).count(), 1);
    assert_eq!(client.ask_binary(&Request::new(0x10).key("reset")).outcome(), (0, ""));
    assert_eq!(client.ask_binary(&Request::new(0x10).key("nonsense")).outcome(), NOT_FOUND);
    assert_eq!(client.ask_binary(&Request::new(0x07)).outcome(), (0, ""));
    client.expect_closed();
    let mut client = server.connect();
    client.send(Request::new(0x17).bytes());
    client.expect_closed();
}

#[test]
fn verbosity_is_unknown() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&Request::new(0x1b)).outcome(), UNKNOWN);
    assert_eq!(client.ask_binary(&Request::new(0x1b).value("x")).outcome(), UNKNOWN);
    assert_eq!(client.ask_binary(&noop()).outcome(), (0, ""));
}

#[test]
fn what_is_unknown_is_passed_over() {
    let server = Server::start();
    upstream_flaw!(server, "extras and key of what is unknown are passed over twice");
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&Request::new(0x1b).word(1)).outcome(), UNKNOWN);
    assert_eq!(client.ask_binary(&Request::new(0x50).word(1).key("k").value("value")).outcome(), UNKNOWN);
    assert_eq!(client.ask_binary(&Request::new(0xff)).outcome(), UNKNOWN);
    assert_eq!(client.ask_binary(&noop()).outcome(), (0, ""));
}

#[test]
fn what_makes_no_sense_is_refused_and_closes_the_connection() {
    let server = Server::start();
    for (request, expected) in [
        (Request::new(0x00), INVALID),
        (Request::new(0x00).key("k").value("x"), INVALID),
        (get(&"k".repeat(251)), INVALID),
        (Request::new(0x01).word(0).key("k").value("x"), INVALID),
        (Request::new(0x01).word(0).word(0).value("x"), INVALID),
        (Request::new(0x05).long(1).key("k"), INVALID),
        (Request::new(0x0e).word(0).word(0).key("k").value("x"), INVALID),
        (Request::new(0x08).key("k"), INVALID),
        (Request::new(0x00).key("kkkk").pretending(2), UNKNOWN),
    ] {
        let mut client = server.connect();
        client.send(request.bytes());
        assert_eq!(client.hear_binary().outcome(), expected, "{request:?}");
        client.expect_closed();
    }
    let mut client = server.connect();
    client.send([noop().bytes(), b"get a-key-of-some-length\r\n".to_vec()].concat());
    assert_eq!(client.hear_binary().status, 0);
    client.expect_closed();
}

#[test]
fn a_body_of_more_than_a_gibibyte_is_not_waited_for() {
    let server = Server::start();
    newer_than_peer!(server, "the limit is 2 GiB");
    let mut client = server.connect();
    client.send(set("k", 0, "").pretending((1 << 30) + 1).bytes());
    assert_eq!(client.hear_binary().outcome(), INVALID);
    client.expect_closed();
}

#[test]
fn keys_are_any_bytes_up_to_250_of_them() {
    let server = Server::start();
    let mut client = server.connect();
    for key in [b" \r\n\0".to_vec(), vec![0xff; 250]] {
        client.ask_binary(&Request::new(0x01).word(0).word(0).key(&key).value("v"));
        let got = client.ask_binary(&Request::new(0x0c).key(&key));
        assert_eq!((got.key, got.value), (key, b"v".to_vec()));
    }
}

#[test]
fn values_of_every_size_arrive_in_pieces_and_whole() {
    let server = Server::start();
    let mut client = server.connect();
    for length in [0, 1, 7, 8, 2000, 16_384, 16_385, 65_536, 131_072, 400_000, 1_000_000] {
        let value: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        let bytes = set("k", 1, &value).bytes();
        for piece in bytes.chunks(bytes.len() / 7 + 1) {
            client.send(piece);
        }
        assert_eq!(client.hear_binary().status, 0, "{length}");
        let got = client.ask_binary(&Request::new(0x0c).key("k"));
        assert_eq!(
            (got.status, got.extras.as_slice(), got.key.as_slice()),
            (0, &[0, 0, 0, 1][..], &b"k"[..])
        );
        assert!(got.value == value, "{length}");
    }
}

#[test]
fn a_value_that_is_too_large_is_refused_and_what_was_there_is_gone() {
    let server = Server::start();
    let mut client = server.connect();
    client.ask_binary(&set("k", 0, "x"));
    for opcode in [0x01, 0x11] {
        let request = Request::new(opcode).word(0).word(0).key("k").value(vec![0; 1 << 20]);
        assert_eq!(client.ask_binary(&request).outcome(), TOO_LARGE);
        assert_eq!(client.ask_binary(&get("k")).outcome(), NOT_FOUND);
    }
    client.ask_binary(&set("k", 0, vec![1; 900_000]));
    assert_eq!(client.ask_binary(&Request::new(0x0e).key("k").value(vec![1; 400_000])).outcome(), NOT_STORED);
}

#[test]
fn packets_may_be_cut_anywhere_and_come_in_crowds() {
    let server = Server::start();
    let mut client = server.connect();
    let requests: Vec<u8> = [set("a", 1, "first"), get("a"), set("b", 2, ""), get("b"), noop()]
        .iter()
        .flat_map(Request::bytes)
        .collect();
    for cut in 1..requests.len() {
        client.send(&requests[..cut]);
        client.send(&requests[cut..]);
        let replies: Vec<_> = (0..5).map(|_| client.hear_binary()).collect();
        assert_eq!((replies[1].outcome(), replies[3].outcome()), ((0, "first"), (0, "")), "cut at {cut}");
    }
    let crowd: Vec<Request> = (0..1000)
        .map(|i| match i % 3 {
            0 => Request::new(0x11).word(0).word(0).key(format!("k{i}")).value(format!("v{i}")),
            1 => Request::new(0x0d).key(format!("k{}", i - 1)).opaque(i),
            _ => Request::new(0x09).key(format!("missing{i}")),
        })
        .collect();
    let replies = client.ask_quietly(&crowd);
    assert_eq!(replies.len(), 333);
    for response in replies {
        let number = response.opaque - 1;
        assert_eq!(response.key, format!("k{number}").into_bytes());
        assert_eq!(response.value, format!("v{number}").into_bytes());
    }
}
