//! Bytes through an established connection.

use crate::support::{Client, Dice, Server, World, connect, connected, settle};
use guira_transport::{Interest, Progress};
use rustls::version::{TLS12, TLS13};
use std::io::{IoSlice, Write};

const LARGE: usize = 10 << 20;

/// The most bytes that a server accepts beyond the socket.
const AHEAD_MAX: usize = 64 << 10;

fn pair(name: &str) -> (World, Client, Server) {
    let world = World::new(name);
    let (client, server) = connected(&world.acceptor(), &world.client().config());
    (world, client, server)
}

/// The lengths of the records in some bytes.
fn records(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(*high) << 8 | usize::from(*low);
        lengths.push(length);
        bytes = &rest[length..];
    }
    lengths
}

#[test]
fn a_large_value_goes_out_to_a_slow_reader_without_being_kept() {
    let world = World::new("large-out");
    for version in [&TLS12, &TLS13] {
        let mut options = world.client();
        options.versions = Some(version);
        let (mut client, mut server) = connected(&world.acceptor(), &options.config());
        let value = Dice::new(2).bytes(LARGE);
        let mut taken = 0;
        let mut blocked = 0;
        while taken < LARGE {
            match server.stream.write(&value[taken..]).unwrap() {
                Progress::Moved(bytes) => {
                    assert!(bytes <= AHEAD_MAX);
                    taken += bytes;
                }
                Progress::Blocked => {
                    blocked += 1;
                    assert_eq!(server.stream.wants(Interest::Read), Interest::ReadWrite);
                    assert_eq!(server.stream.wants(Interest::Write), Interest::Write);
                    assert_eq!(server.stream.wants(Interest::End), Interest::Write);
                    // The socket's buffer is bounded; the library holds the difference.
                    let before = client.received.len();
                    client.step();
                    let in_socket = client.received.len() - before;
                    assert!(taken - before <= in_socket + AHEAD_MAX + (16 << 10));
                }
                Progress::Ended => panic!("ended"),
            }
        }
        assert!(blocked > 10, "the reader was not slow");
        while server.stream.flush().unwrap() == Progress::Blocked {
            client.step();
        }
        client.step();
        assert!(client.received == value);
        assert_eq!(server.stream.wants(Interest::Read), Interest::Read);
        assert_eq!(server.stream.wants(Interest::End), Interest::End);
    }
}

#[test]
fn a_large_value_comes_in_through_buffers_of_any_size() {
    let world = World::new("large-in");
    let value = Dice::new(3).bytes(LARGE);
    for buffer in [7_777, 24 << 10, 25 << 10, 128 << 10] {
        let (mut client, mut server) = connected(&world.acceptor(), &world.client().config());
        server.buffer.resize(buffer, 0);
        client.say(&value);
        settle(&mut client, &mut server);
        assert!(server.received == value, "{buffer}");
        assert!(!server.stream.has_input());
    }
}

#[test]
fn records_of_all_sizes_come_in_however_they_are_cut() {
    let world = World::new("cut");
    let mut dice = Dice::new(4);
    for round in 0..30 {
        let mut options = world.client();
        options.versions = Some([&TLS12, &TLS13][round % 2]);
        let (mut client, mut server) = connected(&world.acceptor(), &options.config());
        server.buffer.resize([1, 100, 24_576, 24_577, 30_000, 128 << 10][round % 6], 0);
        let mut expected = Vec::new();
        let mut bytes = Vec::new();
        for _ in 0..dice.below(60) {
            let length = [1, 50, 5_000, 16_384, 40_000][dice.below(5)];
            let length = 1 + dice.below(length);
            let piece = dice.bytes(length);
            client.say(&piece);
            bytes.extend(client.outgoing());
            expected.extend(piece);
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let cut = (1 + dice.below(60_000)).min(rest.len());
            client.socket.write_all(&rest[..cut]).unwrap();
            rest = &rest[cut..];
            server.step();
            assert!(!server.stream.has_input(), "input is left that no event reports");
        }
        assert!(server.error.is_none(), "{:?}", server.error);
        assert!(server.received == expected, "round {round}");
    }
}

#[test]
fn a_read_of_many_short_records_comes_to_an_end() {
    let (_world, mut client, mut server) = pair("short");
    let mut bytes = Vec::new();
    for _ in 0..4_000 {
        client.say(b"x");
        bytes.extend(client.outgoing());
    }
    client.socket.write_all(&bytes).unwrap();
    let mut buffer = vec![0; 16 << 10];
    let mut received = 0;
    let mut reads = 0;
    while let Progress::Moved(count) = server.stream.read(&mut buffer).unwrap() {
        assert!(!server.stream.has_input(), "the poller reports the rest");
        received += count;
        reads += 1;
    }
    assert_eq!(received, 4_000);
    assert!(reads >= 3, "others had their turn {reads} times");
}

#[test]
fn buffered_bytes_of_a_client_are_reported() {
    let (_world, mut client, mut server) = pair("holds");
    assert_eq!(server.stream.holds(), 0, "nothing after a handshake");
    client.say(&[b'x'; 10_000]);
    let record = client.outgoing();
    client.socket.write_all(&record[..9_000]).unwrap();
    server.step();
    assert_eq!(server.stream.holds(), 9_000, "a record of which the end is missing");
    client.socket.write_all(&record[9_000..]).unwrap();
    server.step();
    assert_eq!(server.stream.holds(), 0);
    client.say(&[b'x'; 10_000]);
    client.step();
    assert_eq!(server.stream.read(&mut [0; 1_000]).unwrap(), Progress::Moved(1_000));
    assert_eq!(server.stream.holds(), 9_000, "unread plaintext");
    server.step();
    assert_eq!(server.stream.holds(), 0);
    while let Progress::Moved(_) = server.stream.write(&[b'y'; 64 << 10]).unwrap() {}
    let unsent = server.stream.holds();
    assert!(server.stream.has_output(), "the socket took no more");
    assert!((1_000..AHEAD_MAX + 1_000).contains(&unsent), "{unsent}: what the socket does not take");
    while server.stream.flush().unwrap() == Progress::Blocked {
        client.step();
    }
    assert_eq!(server.stream.holds(), 0);
    assert!(!server.stream.has_output());
}

#[test]
fn buffered_bytes_of_an_unfinished_handshake_are_reported() {
    let world = World::new("endless");
    let (mut client, mut server) = connect(&world.acceptor(), &world.client().config());
    // A hello of 65,520 bytes, in four records, of which the last is missing.
    let mut hello = vec![1, 0, 0xff, 0xf0];
    hello.resize(48 << 10, 0);
    for part in hello.chunks(16 << 10) {
        client.socket.write_all(&[&[22, 3, 1, 0x40, 0][..], part].concat()).unwrap();
    }
    server.step();
    assert!(server.error.is_none(), "{:?}", server.error);
    assert_eq!(server.stream.holds(), hello.len() + 3 * 5);
}

#[test]
fn a_read_that_fills_the_buffer_says_that_there_is_more() {
    let (_world, mut client, mut server) = pair("filled");
    client.say(b"0123456789");
    client.step();
    let mut buffer = [0; 4];
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Moved(4));
    assert!(server.stream.has_input());
    assert_eq!(server.stream.wants(Interest::Read), Interest::ReadWrite);
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Moved(4));
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Moved(2));
    assert!(!server.stream.has_input());
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Blocked);
    assert_eq!(server.stream.wants(Interest::Read), Interest::Read);
}

#[test]
fn small_parts_go_into_one_record_and_long_ones_into_as_few_as_can_be() {
    let (_world, mut client, mut server) = pair("gather");
    let part = [b'x'; 50];
    let parts = [IoSlice::new(&part); 32];
    assert_eq!(server.stream.write_vectored(&parts).unwrap(), Progress::Moved(1_600));
    let mut bytes = vec![0; 200_000];
    let read = std::io::Read::read(&mut client.socket, &mut bytes).unwrap();
    // TLS 1.3 adds one byte for the type and sixteen of authentication.
    assert_eq!(records(&bytes[..read]), [1_617]);
    let value = vec![b'y'; 64 << 10];
    let parts = [IoSlice::new(&part), IoSlice::new(&value)];
    assert_eq!(server.stream.write_vectored(&parts).unwrap(), Progress::Moved(64 << 10));
    let read = std::io::Read::read(&mut client.socket, &mut bytes).unwrap();
    assert_eq!(records(&bytes[..read]), [16_384 + 17; 4]);
}

#[test]
fn nothing_is_lost_when_a_connection_is_finished_after_its_last_write() {
    let (_world, mut client, mut server) = pair("finish");
    let value = Dice::new(5).bytes(LARGE);
    let mut taken = 0;
    while let Progress::Moved(bytes) = server.stream.write(&value[taken..]).unwrap() {
        taken += bytes;
    }
    assert_eq!(server.stream.finish().unwrap(), Progress::Blocked);
    assert_eq!(server.stream.wants(Interest::End), Interest::Write);
    assert_eq!(server.stream.write(b"more").unwrap(), Progress::Ended);
    let mut rounds = 0;
    while server.stream.finish().unwrap() == Progress::Blocked {
        client.step();
        rounds += 1;
    }
    assert!(rounds > 0);
    drop(server);
    client.step();
    assert!(client.received == value[..taken]);
    assert!(client.closed, "the client knows that this was all");
}

#[test]
fn a_dropped_stream_sends_close_notify_if_the_socket_accepts_it() {
    let (_world, mut client, mut server) = pair("drop");
    server.say(b"the end");
    drop(server);
    client.step();
    assert_eq!(client.received, b"the end");
    assert!(client.closed);
}

#[test]
fn a_client_that_says_it_sends_no_more_still_gets_its_reply() {
    let (_world, mut client, mut server) = pair("half");
    client.say(b"last request");
    client.session.send_close_notify();
    client.step();
    let mut buffer = vec![0; 128 << 10];
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Moved(12));
    // No event of the socket reports the end, so the stream does.
    assert!(server.stream.has_input());
    assert_eq!(server.stream.wants(Interest::Read), Interest::ReadWrite);
    assert_eq!(server.stream.write(b"reply").unwrap(), Progress::Moved(5));
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Ended);
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Ended);
    client.step();
    assert_eq!(client.received, b"reply");
}

#[test]
fn an_end_without_a_word_is_an_end() {
    let (_world, mut client, mut server) = pair("abrupt");
    client.say(b"request");
    client.step();
    client.socket.shutdown(guira_transport::net::Shutdown::Write).unwrap();
    let mut buffer = vec![0; 128 << 10];
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Moved(7));
    assert_eq!(server.stream.read(&mut buffer).unwrap(), Progress::Ended);
    assert_eq!(server.stream.write(b"reply").unwrap(), Progress::Moved(5));
    client.step();
    assert_eq!(client.received, b"reply");
}

#[test]
fn a_write_to_a_disconnected_client_is_an_end_or_an_error() {
    let (_world, client, mut server) = pair("gone-writing");
    drop(client);
    let value = vec![0; 1 << 20];
    let mut result = server.stream.write(&value);
    for _ in 0..100 {
        if result.is_err() {
            break;
        }
        result = server.stream.write(&value);
    }
    assert!(result.is_err(), "{result:?}");
}

#[test]
fn a_client_may_change_its_keys_at_any_time() {
    let world = World::new("keys");
    let mut options = world.client();
    options.versions = Some(&TLS13);
    let (mut client, mut server) = connected(&world.acceptor(), &options.config());
    for round in 0..20u8 {
        client.session.refresh_traffic_keys().unwrap();
        client.say(&[round]);
        settle(&mut client, &mut server);
        server.say(&[round]);
        settle(&mut client, &mut server);
    }
    let expected = (0..20).collect::<Vec<u8>>();
    assert_eq!((server.received, client.received), (expected.clone(), expected));
}

#[test]
fn requests_that_come_with_the_end_of_the_handshake_are_read() {
    let world = World::new("together");
    let (mut client, mut server) = connect(&world.acceptor(), &world.client().config());
    client.say(&[b'x'; 3_000]);
    settle(&mut client, &mut server);
    assert_eq!(server.received, [b'x'; 3_000]);
}
