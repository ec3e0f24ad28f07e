//! Replies that arrive in any pieces, and bytes that are no reply.

use super::laws::{destination, destination_at, destination_of, obey, receive, server_at};
use super::*;
use crate::ticket::Ticket;
use guira_routing::{Dialect, Op, Origin, Outcome, Request};
use guira_transport::net::TcpListener;
use guira_transport::{Address, Poll, Stream, Token};
use std::path::Path;
use std::time::Duration;

/// A small generator: its seed reproduces a failure.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Pushes a random request, and returns the reply of a server.
fn push(destination: &mut Destination, random: &mut Random, part: u32) -> Vec<u8> {
    let key = format!("key{}", random.below(20));
    let (length, flags) = (random.below(300), random.below(10));
    let value: Vec<u8> = (0..length).map(|_| b"\r\nEVND x"[random.below(8)]).collect();
    let found = random.below(3) > 0;
    let block = |head: String| [head.as_bytes(), b"\r\n", &value, b"\r\n"].concat();
    let is_meta = random.below(3) == 0;
    let (op, meta, reply) = match (random.below(4), is_meta) {
        (0, false) => (Op::Set, "", b"STORED\r\n".to_vec()),
        (1, false) => (Op::Incr, "", if found { b"17\r\n".to_vec() } else { b"NOT_FOUND\r\n".to_vec() }),
        (0, true) => (Op::Set, "T0", b"HD\r\n".to_vec()),
        (_, true) if found => (Op::Get, "v f", block(format!("VA {length} f{flags}"))),
        (_, true) => (Op::Get, "v f", b"EN\r\n".to_vec()),
        (_, false) if found => {
            (Op::Gat, "", [block(format!("VALUE {key} {flags} {length}")), b"END\r\n".to_vec()].concat())
        }
        (_, false) => (Op::Gat, "", b"END\r\n".to_vec()),
    };
    let dialect = if is_meta { Dialect::Meta } else { Dialect::Classic };
    let it = Request::classic(op, key.as_bytes());
    let request = Request { dialect, meta: meta.as_bytes(), ..it };
    destination.push(&request, None, Origin::Client(Ticket { call: 0, part }), 0);
    reply
}

#[test]
fn the_pieces_in_which_replies_arrive_make_no_difference() {
    for seed in 0..200 {
        let push_all = || {
            let mut random = Random(seed);
            let (mut destination, mut replies) = (destination(), Vec::new());
            for part in 0..30 {
                replies.extend(push(&mut destination, &mut random, part));
            }
            (destination, replies, random)
        };
        let (mut one, replies, mut random) = push_all();
        let (mut other, ..) = push_all();
        let whole = receive(&mut one, &replies, || usize::MAX, |_, _, _| {});
        let pieces = receive(&mut other, &replies, || 1 + random.below(90), |_, _, _| {});
        assert_eq!(whole, pieces, "seed {seed}");
        assert!(whole.1 && whole.0.iter().map(|(part, ..)| *part).eq(0..30), "seed {seed}: {whole:?}");
        let is_error = |(_, outcome, _): &(u32, Outcome, Vec<u8>)| outcome.is_error();
        assert!(!whole.0.iter().any(is_error), "seed {seed}");
    }
}

#[test]
fn damaged_replies_complete_each_request_at_most_once_in_all_pieces() {
    for seed in 0..2000 {
        let push_all = || {
            let mut random = Random(seed);
            let (mut destination, mut replies) = (destination(), Vec::new());
            for part in 0..10 {
                replies.extend(push(&mut destination, &mut random, part));
            }
            for _ in 0..=random.below(3) {
                let at = random.below(replies.len());
                match random.below(4) {
                    0 => replies[at] = random.below(256) as u8,
                    1 => _ = replies.remove(at),
                    2 => replies.insert(at, b"\r\n 0V"[random.below(5)]),
                    _ => drop(replies.splice(at..at, *b"END\r\n")),
                }
            }
            (destination, replies, random)
        };
        let (mut one, replies, mut random) = push_all();
        let (mut other, ..) = push_all();
        let whole = receive(&mut one, &replies, || usize::MAX, |_, _, _| {});
        let pieces = receive(&mut other, &replies, || 1 + random.below(20), |_, _, _| {});
        assert_eq!(whole, pieces, "seed {seed}");
        assert!(whole.0.iter().map(|(part, ..)| *part).eq(0..whole.0.len() as u32), "seed {seed}: {whole:?}");
    }
}

#[test]
fn a_request_of_an_earlier_connection_has_the_whole_timeout_of_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The backlog is full: further connections stay in progress.
    rustix::net::listen(&listener, 0).unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let _waiting: Vec<Stream> = (0..2).map(|_| Stream::connect(&address).unwrap()).collect();
    let mut destination = destination_at(address, Duration::from_millis(100));
    let poll = Poll::new().unwrap();
    let get = Request::classic(Op::Get, b"key");
    destination.push(&get, None, Origin::Client(Ticket { call: 0, part: 0 }), 0);
    destination.flush(&poll, Token(0), 500_000).unwrap();
    assert_eq!(destination.deadline(500), Some(600));
    assert!(destination.time_out(599).is_none() && destination.tko().is_none());
    assert!(matches!(destination.time_out(600), Some(Expired::Connect(_))));
    assert!(destination.tko().is_some());
}

#[test]
fn a_request_is_outstanding_from_its_push_until_its_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let server = server_at(address, Duration::from_secs(1));
    let mut destination = destination_of(&server);
    let outstanding =
        || (server.meters().pending(), server.meters().inflight(), server.meters().most_pending());
    let get = Request::classic(Op::Get, b"key");
    let push_get = |destination: &mut Destination, part| {
        destination.push(&get, None, Origin::Client(Ticket { call: 0, part }), 0);
    };
    push_get(&mut destination, 0);
    push_get(&mut destination, 1);
    assert_eq!(outstanding(), (2, 0, 0));
    let poll = Poll::new().unwrap();
    destination.flush(&poll, Token(0), 0).unwrap();
    assert_eq!(outstanding(), (2, 0, 2), "the connection is being made");
    push_get(&mut destination, 2);
    assert_eq!(outstanding(), (3, 0, 2));
    destination.pretend_to_send();
    receive(&mut destination, b"END\r\n", || usize::MAX, |_, _, _| {});
    push_get(&mut destination, 3);
    destination.end_replies(0);
    assert_eq!(outstanding(), (1, 1, 2), "the first two are one get");
}

/// The seeds of the fuzz target, as they are, with each byte removed, and with each byte replaced.
#[test]
fn the_seeds_of_the_fuzz_target_obey_the_laws() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/replies"));
    let mut count = 0;
    for seed in guira_disk::read_dir(folder).unwrap() {
        let seed = guira_disk::read(seed.unwrap().path()).unwrap();
        obey(&seed);
        for at in 0..seed.len() {
            let (before, after) = (&seed[..at], &seed[at + 1..]);
            obey(&[before, after].concat());
            b"\0\n 1kV".iter().for_each(|byte| obey(&[before, &[*byte], after].concat()));
        }
        count += 1;
    }
    assert!(count > 3);
}
