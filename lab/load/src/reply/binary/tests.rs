use guira_workload::{Operation, ValuePool};

use super::super::{Check, Judge};
use crate::counters::Counters;
use crate::protocol::Protocol;
use crate::reply_error::ReplyError;
use crate::request::{ItemStyle, Outbox};
use crate::source::{Source, Subject};
use guira_workload::OnMiss;

const LEN: u32 = 5;

/// Keys key0, key1, … for a number of equal operations.
struct Keys {
    operation: Operation,
    left: u32,
    next_id: u64,
}

impl Source for Keys {
    fn next_operation(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        Some(self.operation)
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let id = self.next_id;
        self.next_id += 1;
        out.extend_from_slice(format!("key{id}").as_bytes());
        Subject { id, value_len: LEN, exptime: 0, on_miss: OnMiss::Fill }
    }
}

struct Bench {
    judge: Judge,
    outbox: Outbox,
    counters: Counters,
}

fn bench_with(operation: Operation, requests: u32, multiget_keys: u32) -> Bench {
    let values = ValuePool::new(100);
    let mut outbox = Outbox::new(Protocol::Binary);
    let mut keys = Keys { operation, left: requests, next_id: 0 };
    while outbox.push_next(&mut keys, &values, ItemStyle { flags: 7, multiget_keys }, 1000).unwrap() {}
    outbox.took(outbox.unsent().len());
    Bench {
        judge: Judge::new(values, Check::Contents { sample: 1 }, 7),
        outbox,
        counters: Counters::default(),
    }
}

/// A reply with the parts of its body.
fn packet(opcode: u8, status: u16, opaque: u32, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = [extras, key, value].concat();
    let mut bytes = vec![0x81, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0]);
    bytes.extend(status.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend([9; 8]);
    bytes.extend(body);
    bytes
}

const FLAGS: [u8; 4] = [0, 0, 0, 7];

impl Bench {
    fn value(&self, id: u64, len: u32) -> Vec<u8> {
        self.judge.values().get(id, len as usize).unwrap().to_vec()
    }

    fn hit(&self, id: u64, opaque: u32) -> Vec<u8> {
        packet(0x00, 0, opaque, &FLAGS, b"", &self.value(id, LEN))
    }

    fn quiet_hit(&self, id: u64, opaque: u32) -> Vec<u8> {
        packet(0x0d, 0, opaque, &FLAGS, format!("key{id}").as_bytes(), &self.value(id, LEN))
    }

    fn read(&mut self, input: &[u8]) -> Result<usize, ReplyError> {
        self.judge.read(input, &mut self.outbox, &mut self.counters, 4000)
    }

    /// Reads `input`, which is well formed and wrong once; returns the example that was kept.
    fn wrong(&mut self, input: &[u8]) -> String {
        assert_eq!(self.read(input), Ok(input.len()));
        assert_eq!(self.counters.counts.wrong, 1, "{:?}", self.counters.examples);
        self.counters.examples[0].clone()
    }
}

#[test]
fn a_hit_and_a_miss_may_come_byte_by_byte() {
    let mut bench = bench_with(Operation::Get, 2, 1);
    let input = [bench.hit(0, 0), packet(0x00, 1, 1, b"", b"", b"Not found")].concat();
    let (mut from, mut to) = (0, 0);
    while from < input.len() {
        to += 1;
        from += bench.read(&input[from..to]).unwrap();
    }
    let counts = &bench.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.wrong, counts.commands), (2, 1, 0, 2));
    assert_eq!(counts.contents_checked, 1);
    assert!(bench.outbox.has_fills());
}

#[test]
fn hits_and_misses_of_a_multiget_are_told_apart() {
    let mut bench = bench_with(Operation::Multiget, 2, 4);
    let noop = |opaque| packet(0x0a, 0, opaque, b"", b"", b"");
    let input =
        [bench.quiet_hit(1, 1), bench.quiet_hit(3, 3), noop(4), bench.quiet_hit(4, 5), noop(9)].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    let counts = &bench.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.wrong, counts.commands), (8, 3, 0, 2));
    assert_eq!(bench.outbox.open_requests(), 0);
}

#[test]
fn replies_out_of_order_are_wrong() {
    let mut bench = bench_with(Operation::Get, 2, 1);
    let input = [bench.hit(1, 1), bench.hit(0, 0)].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!((bench.counters.counts.wrong, bench.counters.counts.hits), (2, 0));
    assert!(bench.counters.examples[0].contains("has opaque 1, not 0"), "{:?}", bench.counters.examples);
    let mut bench = bench_with(Operation::Multiget, 1, 2);
    let input = [bench.quiet_hit(1, 1), bench.quiet_hit(0, 0)].concat();
    assert!(bench.wrong(&input).contains("opaque 0, which is not pending"));
    let mut bench = bench_with(Operation::Multiget, 2, 2);
    let input = bench.quiet_hit(2, 2);
    assert!(bench.wrong(&input).contains("opaque 2, which is not pending"), "that is the first Noop's");
    assert_eq!(bench.counters.counts.gets, 0);
}

#[test]
fn the_order_of_sets_deletes_and_noops_is_checked() {
    for (operation, opcode) in [(Operation::Set, 1), (Operation::Delete, 4)] {
        let mut bench = bench_with(operation, 2, 1);
        assert!(bench.wrong(&packet(opcode, 0, 1, b"", b"", b"")).contains("has opaque 1, not 0"));
    }
    let mut bench = bench_with(Operation::Multiget, 1, 2);
    assert!(bench.wrong(&packet(0x0a, 0, 1, b"", b"", b"")).contains("has opaque 1, not 2"));
}

#[test]
fn wrong_values_are_found() {
    let mut bench = bench_with(Operation::Get, 1, 1);
    let mut input = bench.hit(0, 0);
    *input.last_mut().unwrap() ^= 1;
    assert!(bench.wrong(&input).contains("wrong contents"));
    let mut bench = bench_with(Operation::Get, 1, 1);
    let input = packet(0, 0, 0, &FLAGS, b"", &bench.value(0, 4));
    assert!(bench.wrong(&input).contains("4 bytes, not 5"));
    let mut bench = bench_with(Operation::Get, 1, 1);
    let input = packet(0, 0, 0, &[0, 0, 0, 6], b"", &bench.value(0, LEN));
    assert!(bench.wrong(&input).contains("flags 6, not 7"));
    let mut bench = bench_with(Operation::Multiget, 1, 2);
    let input = packet(0x0d, 0, 0, &FLAGS, b"keyX", &bench.value(0, LEN));
    assert!(bench.wrong(&input).contains("\"keyX\", which was not requested"));
}

#[test]
fn refusals_are_counted_and_shown() {
    let mut bench = bench_with(Operation::Set, 2, 1);
    let input = [packet(1, 0x82, 0, b"", b"", b"Out of memory"), packet(1, 0, 1, b"", b"", b"")].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!((bench.counters.counts.sets, bench.counters.counts.refused), (2, 1));
    assert_eq!(bench.counters.examples, ["status 0x82: Out of memory"]);
}

#[test]
fn deletes_are_answered_either_way() {
    let mut bench = bench_with(Operation::Delete, 2, 1);
    let input = [packet(4, 0, 0, b"", b"", b""), packet(4, 1, 1, b"", b"", b"Not found")].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!((bench.counters.counts.deletes, bench.counters.counts.refused), (2, 0));
}

#[test]
fn the_floors_packets_are_taken_as_they_are() {
    let mut bench = bench_with(Operation::Multiget, 1, 2);
    bench.judge.check = Check::Framing;
    let value = packet(0x0d, 0, 0, &[0; 4], b"any", b"12345");
    let input = [value.clone(), value, packet(0x0a, 0, 0, b"", b"", b"")].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!(
        (bench.counters.counts.hits, bench.counters.counts.wrong, bench.counters.counts.commands),
        (2, 0, 1)
    );
}

#[test]
fn what_is_no_reply_ends_the_reading() {
    let value = [1; LEN as usize];
    let cases = [
        (Operation::Get, vec![0x80; 24], "is not a reply"),
        (Operation::Get, [&[0x81, 0, 0, 0, 0, 1][..], &[0; 18]].concat(), "is not a reply"),
        (Operation::Get, packet(1, 0, 0, b"", b"", b""), "does not match the oldest request"),
        (Operation::Get, packet(0, 0, 0, b"", b"", &value), "has no flags"),
        (Operation::Get, packet(0, 0, 0, &FLAGS, b"key0", &value), "has a key"),
        (Operation::Get, packet(0, 0x81, 0, b"", b"", b""), "does not match the request"),
        (Operation::Set, packet(1, 1, 0, b"", b"", b""), "does not match the request"),
        (Operation::Set, packet(1, 0, 0, b"", b"", b"x"), "has a body"),
    ];
    for (operation, input, told) in cases {
        let error = bench_with(operation, 1, 1).read(&input).unwrap_err();
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
    let mut input = packet(0, 0, 0, &FLAGS, b"", &value);
    input[8] = 1;
    let error = bench_with(Operation::Get, 1, 1).read(&input).unwrap_err();
    assert!(error.to_string().contains("impossible length"), "{error}");
}
