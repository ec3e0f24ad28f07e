use std::net::UdpSocket;

use guira_workload::{Operation, ValuePool};

use super::{Datagrams, PATIENCE_NS};
use crate::counters::Counters;
use crate::flow::{Flow, OPEN_MAX, ReadError};
use crate::protocol::Protocol;
use crate::reply::{Check, Judge};
use crate::request::ItemStyle;
use crate::source::{Source, Subject};
use guira_workload::OnMiss;

const STYLE: ItemStyle = ItemStyle { flags: 0, multiget_keys: 3 };

/// Gets of key0, key1, …
struct Gets {
    next_id: u64,
    operation: Operation,
}

impl Gets {
    fn from(next_id: u64) -> Self {
        Self { next_id, operation: Operation::Get }
    }
}

impl Source for Gets {
    fn next_operation(&mut self) -> Option<Operation> {
        Some(self.operation)
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let id = self.next_id;
        self.next_id += 1;
        out.extend_from_slice(format!("key{id}").as_bytes());
        Subject { id, value_len: 5, exptime: 0, on_miss: OnMiss::Fill }
    }
}

/// A client, and a server that the test plays. On the loopback network a sent datagram has arrived.
struct Bench {
    server: UdpSocket,
    client: Datagrams,
    judge: Judge,
    counters: Counters,
}

/// A client that sent gets of this many keys at the time 1000.
fn bench_with(requests: usize) -> Bench {
    asked_by(requests, Gets::from(0))
}

fn asked_by(requests: usize, mut gets: Gets) -> Bench {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let addr = server.local_addr().unwrap();
    let values = ValuePool::new(100);
    let mut bench = Bench {
        server,
        client: Datagrams::open(addr, Protocol::Text).unwrap(),
        judge: Judge::new(values.clone(), Check::Contents { sample: 1 }, 0),
        counters: Counters::default(),
    };
    for _ in 0..requests {
        assert!(bench.client.push_next(&mut gets, &values, STYLE, 1000).unwrap());
    }
    assert_eq!(bench.client.flush(&mut bench.counters, 1000).unwrap(), Flow::Done);
    bench
}

impl Bench {
    /// The next request at the server: header and text.
    fn request(&self) -> (Vec<u8>, String) {
        let mut bytes = [0; 2000];
        let (count, client) = self.server.recv_from(&mut bytes).unwrap();
        self.server.connect(client).unwrap();
        (bytes[..8].to_vec(), String::from_utf8_lossy(&bytes[8..count]).into_owned())
    }

    fn send(&self, id: u16, sequence: u16, total: u16, text: &[u8]) {
        let mut bytes: Vec<u8> =
            [id, sequence, total, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(text);
        self.server.send(&bytes).unwrap();
    }

    fn hit(&self, id: u64) -> Vec<u8> {
        let value = self.judge.values().get(id, 5).unwrap();
        [format!("VALUE key{id} 0 5\r\n").as_bytes(), value, b"\r\nEND\r\n"].concat()
    }

    fn receive(&mut self) -> Result<Flow, ReadError> {
        self.client.receive(&mut self.judge, &mut self.counters, || 4000)
    }
}

#[test]
fn replies_come_in_any_order_and_in_pieces() {
    let mut bench = bench_with(3);
    for id in 0..3_u8 {
        let (header, text) = bench.request();
        assert_eq!((header, text), (vec![0, id, 0, 0, 0, 1, 0, 0], format!("get key{id}\r\n")));
    }
    let hit = bench.hit(1);
    bench.send(2, 0, 1, &bench.hit(2));
    bench.send(1, 2, 3, &hit[12..]);
    bench.send(1, 0, 3, &hit[..5]);
    assert_eq!(bench.receive().unwrap(), Flow::Done);
    assert_eq!((bench.counters.counts.hits, bench.client.open_requests()), (1, 2));
    bench.send(0, 0, 1, &bench.hit(0));
    bench.send(1, 1, 3, &hit[5..12]);
    bench.receive().unwrap();
    let counts = &bench.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.wrong, counts.commands), (3, 3, 0, 3));
    assert_eq!((counts.contents_checked, bench.client.open_requests()), (3, 0));
    assert_eq!(bench.counters.get_ns.max(), bench.counters.get_ns.highest_equivalent(3000));
}

#[test]
fn the_values_of_a_get_of_several_keys_may_have_messages_of_their_own() {
    let several = || asked_by(1, Gets { operation: Operation::Multiget, ..Gets::from(0) });
    let mut bench = several();
    assert_eq!(bench.request().1, "get key0 key1 key2\r\n");
    let value = |bench: &Bench, id| bench.hit(id).strip_suffix(b"END\r\n").unwrap().to_vec();
    for id in [0, 2] {
        bench.send(0, 0, 1, &value(&bench, id));
        bench.receive().unwrap();
        assert_eq!(bench.client.open_requests(), 1, "the end has not come");
        if id == 0 {
            bench.send(0, 0, 0, b"");
        }
    }
    bench.send(0, 0, 1, b"END\r\n");
    bench.receive().unwrap();
    let counts = &bench.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.commands, counts.wrong), (3, 2, 1, 0));
    assert_eq!(bench.counters.get_ns.len(), 1);
    // Missed keys are set by one datagram, and each set gets a reply.
    assert!(bench.client.has_fills());
    let values = bench.judge.values().clone();
    bench.client.push_fills(&values, STYLE, 2000).unwrap();
    bench.client.flush(&mut bench.counters, 2000).unwrap();
    assert!(bench.request().1.starts_with("set key1 0 0 5\r\n"));
    bench.send(1, 0, 1, b"STORED\r\n");
    bench.receive().unwrap();
    assert_eq!((bench.counters.counts.fills, bench.client.open_requests()), (1, 0));
    // The reply may also come as one message, or in several datagrams.
    let mut bench = several();
    bench.request();
    let whole = [value(&bench, 0), value(&bench, 1), bench.hit(2)].concat();
    bench.send(0, 1, 2, &whole[30..]);
    bench.send(0, 0, 2, &whole[..30]);
    bench.receive().unwrap();
    assert_eq!((bench.counters.counts.hits, bench.client.open_requests()), (3, 0));
}

#[test]
fn an_unanswered_request_is_given_up_and_its_reply_is_late() {
    let mut bench = bench_with(2);
    bench.request();
    bench.send(1, 0, 1, &bench.hit(1));
    bench.receive().unwrap();
    assert!(!bench.client.give_up(&mut bench.counters, 1000 + PATIENCE_NS));
    assert!(bench.client.give_up(&mut bench.counters, 1001 + PATIENCE_NS));
    assert_eq!((bench.counters.counts.lost, bench.client.open_requests()), (1, 0));
    assert!((bench.counters.counts.lost_ratio() - 0.5).abs() < 1e-12);
    bench.send(0, 0, 1, &bench.hit(0));
    bench.receive().unwrap();
    let counts = &bench.counters.counts;
    assert_eq!((counts.late, counts.wrong, counts.hits), (1, 0, 1), "a late value is no hit");
    bench.send(7, 0, 1, b"END\r\n");
    bench.receive().unwrap();
    assert_eq!(bench.counters.counts.wrong, 1, "nobody asked");
}

#[test]
fn a_number_that_is_used_again_is_not_given_up_any_more() {
    let mut bench = bench_with(1);
    bench.request();
    assert!(bench.client.give_up(&mut bench.counters, 1001 + PATIENCE_NS));
    // As after 65,536 requests.
    bench.client.next_id = 0;
    let values = bench.judge.values().clone();
    assert!(bench.client.push_next(&mut Gets::from(5), &values, STYLE, 2000).unwrap());
    bench.client.flush(&mut bench.counters, 2000).unwrap();
    for _ in 0..2 {
        bench.send(0, 0, 1, &bench.hit(5));
    }
    bench.receive().unwrap();
    let counts = &bench.counters.counts;
    assert_eq!((counts.hits, counts.late, counts.wrong), (1, 0, 1), "the second reply is not late but wrong");
}

#[test]
fn a_miss_is_followed_by_a_datagram_with_a_set() {
    let mut bench = bench_with(1);
    bench.request();
    bench.send(0, 0, 1, b"END\r\n");
    bench.receive().unwrap();
    assert!(bench.client.has_fills());
    let values = bench.judge.values().clone();
    bench.client.push_fills(&values, STYLE, 2000).unwrap();
    bench.client.flush(&mut bench.counters, 2000).unwrap();
    let (header, text) = bench.request();
    assert_eq!(header, [0, 1, 0, 0, 0, 1, 0, 0]);
    assert!(text.starts_with("set key0 0 0 5\r\n"), "{text}");
    bench.send(1, 0, 1, b"STORED\r\n");
    bench.receive().unwrap();
    assert_eq!((bench.counters.counts.fills, bench.client.open_requests()), (1, 0));
}

#[test]
fn wrong_values_are_found() {
    let mut bench = bench_with(1);
    bench.request();
    let mut hit = bench.hit(0);
    hit[20] ^= 1;
    bench.send(0, 0, 1, &hit);
    bench.receive().unwrap();
    assert_eq!(bench.counters.counts.wrong, 1);
}

#[test]
fn what_is_no_part_of_a_reply_ends_the_reading() {
    let hit = |bench: &Bench| bench.hit(0);
    type Send = fn(&Bench, &[u8]);
    let cases: [(Send, &str); 6] = [
        (|bench, _| assert_eq!(bench.server.send(b"short").unwrap(), 5), "is shorter than its header"),
        (|bench, hit| bench.send(0, 1, 1, hit), "has an impossible header"),
        (|bench, hit| (0..2).for_each(|_| bench.send(0, 0, 2, hit)), "came twice"),
        (|bench, hit| (2..4).for_each(|total| bench.send(0, 0, total, hit)), "of another length"),
        (|bench, hit| bench.send(0, 0, 1, &hit[..9]), "only a part"),
        (|bench, hit| bench.send(0, 0, 1, &[hit, b"END\r\n"].concat()), "received without a request"),
    ];
    for (send, told) in cases {
        let mut bench = bench_with(1);
        bench.request();
        send(&bench, &hit(&bench));
        let Err(ReadError::Reply(error)) = bench.receive() else { panic!("{told}: it was taken") };
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
}

#[test]
fn no_more_is_open_than_numbers_tell_apart() {
    let mut bench = bench_with(OPEN_MAX - 1);
    assert!(!bench.client.is_full());
    let values = ValuePool::new(100);
    bench.client.push_next(&mut Gets::from(0), &values, STYLE, 1000).unwrap();
    assert!(bench.client.is_full());
    assert!(bench.client.give_up(&mut bench.counters, 2000 + PATIENCE_NS));
    assert!(!bench.client.is_full());
}
