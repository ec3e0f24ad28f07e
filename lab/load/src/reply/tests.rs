use guira_workload::{Operation, ValuePool};

use super::{Check, Judge};
use crate::counters::Counters;
use crate::reply_error::ReplyError;
use crate::request::{ItemStyle, Outbox};
use crate::source::{Source, Subject};
use guira_workload::OnMiss;

const LEN: u32 = 5;

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
    let mut outbox = Outbox::default();
    let mut keys = Keys { operation, left: requests, next_id: 0 };
    while outbox.push_next(&mut keys, &values, ItemStyle { flags: 0, multiget_keys }, 1000).unwrap() {}
    outbox.took(outbox.unsent().len());
    Bench {
        judge: Judge::new(values, Check::Contents { sample: 1 }, 0),
        outbox,
        counters: Counters::default(),
    }
}

impl Bench {
    fn value(&self, id: u64, len: usize) -> Vec<u8> {
        self.judge.values().get(id, len).unwrap().to_vec()
    }

    fn reply(&self, id: u64) -> Vec<u8> {
        let mut bytes = format!("VALUE key{id} 0 {LEN}\r\n").into_bytes();
        bytes.extend(self.value(id, LEN as usize));
        bytes.extend(b"\r\n");
        bytes
    }

    fn read(&mut self, input: &[u8]) -> Result<usize, ReplyError> {
        self.judge.read(input, &mut self.outbox, &mut self.counters, 4000)
    }
}

#[test]
fn hits_and_misses_of_a_multiget_are_told_apart() {
    let mut bench = bench_with(Operation::Multiget, 1, 4);
    let input = [bench.reply(1), bench.reply(3), b"END\r\n".to_vec()].concat();
    assert_eq!(bench.read(&input), Ok(input.len()));
    let counts = &bench.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.wrong, counts.commands), (4, 2, 0, 1));
    assert!(bench.outbox.has_fills());
    assert_eq!(bench.counters.get_ns.max(), bench.counters.get_ns.highest_equivalent(3000));
}

#[test]
fn a_reply_may_come_byte_by_byte() {
    let mut bench = bench_with(Operation::Get, 2, 1);
    let input = [bench.reply(0), b"END\r\nEND\r\n".to_vec()].concat();
    let (mut from, mut to) = (0, 0);
    while from < input.len() {
        to += 1;
        from += bench.read(&input[from..to]).unwrap();
    }
    assert_eq!((bench.counters.counts.gets, bench.counters.counts.hits), (2, 1));
    assert_eq!(bench.outbox.open_requests(), 0);
}

#[test]
fn wrong_contents_are_found() {
    let mut bench = bench_with(Operation::Get, 1, 1);
    let mut input = bench.reply(0);
    let last = input.len() - 3;
    input[last] ^= 1;
    input.extend(b"END\r\n");
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!(bench.counters.counts.wrong, 1);
    assert!(bench.counters.examples[0].contains("wrong contents"), "{:?}", bench.counters.examples);
}

#[test]
fn another_keys_value_is_found() {
    let mut bench = bench_with(Operation::Get, 1, 1);
    let mut input = b"VALUE key0 0 5\r\n".to_vec();
    input.extend(bench.value(1, 5));
    input.extend(b"\r\nEND\r\n");
    bench.read(&input).unwrap();
    assert_eq!(bench.counters.counts.wrong, 1);
}

#[test]
fn a_wrong_length_is_found_even_without_a_look_at_the_contents() {
    let mut bench = bench_with(Operation::Get, 1, 1);
    bench.judge.check = Check::Contents { sample: 1000 };
    bench.judge.until_sample = 500;
    bench.read(b"VALUE key0 0 4\r\nabcd\r\nEND\r\n").unwrap();
    assert_eq!(bench.counters.counts.wrong, 1);
    assert!(bench.counters.examples[0].contains("4 bytes, not 5"), "{:?}", bench.counters.examples);
}

#[test]
fn wrong_flags_and_wrong_keys_are_found() {
    let mut bench = bench_with(Operation::Get, 1, 1);
    let mut input = b"VALUE key0 9 5\r\n".to_vec();
    input.extend(bench.value(0, 5));
    input.extend(b"\r\nEND\r\n");
    bench.read(&input).unwrap();
    assert_eq!(bench.counters.counts.wrong, 1);
    let mut bench = bench_with(Operation::Get, 1, 1);
    bench.read(b"VALUE nobody 0 1\r\nx\r\nEND\r\n").unwrap();
    assert_eq!(bench.counters.counts.wrong, 1);
}

#[test]
fn a_traces_value_may_have_any_length_whose_contents_are_right() {
    let mut bench = bench_with(Operation::Get, 2, 1);
    bench.judge.check = Check::AnyLength { sample: 1 };
    let mut input = b"VALUE key0 0 7\r\n".to_vec();
    input.extend(bench.value(0, 7));
    input.extend(b"\r\nEND\r\nVALUE key1 0 7\r\n1234567\r\nEND\r\n");
    assert_eq!(bench.read(&input), Ok(input.len()));
    assert_eq!(bench.counters.counts.wrong, 1, "the second value's contents are wrong, the first's are not");
}

#[test]
fn framing_only_accepts_any_key_and_value() {
    let mut bench = bench_with(Operation::Multiget, 1, 2);
    bench.judge.check = Check::Framing;
    bench.read(b"VALUE any0 0 5\r\n12345\r\nVALUE other 0 3\r\nabc\r\nEND\r\n").unwrap();
    assert_eq!((bench.counters.counts.hits, bench.counters.counts.wrong), (2, 0));
}

#[test]
fn refusals_are_counted_and_shown() {
    let mut bench = bench_with(Operation::Set, 2, 1);
    bench.read(b"SERVER_ERROR out of memory storing object\r\nSTORED\r\n").unwrap();
    assert_eq!((bench.counters.counts.sets, bench.counters.counts.refused), (2, 1));
    assert_eq!(bench.counters.examples, ["SERVER_ERROR out of memory storing object"]);
}

#[test]
fn deletes_are_answered_either_way() {
    let mut bench = bench_with(Operation::Delete, 2, 1);
    bench.read(b"DELETED\r\nNOT_FOUND\r\n").unwrap();
    assert_eq!((bench.counters.counts.deletes, bench.counters.counts.refused), (2, 0));
}

#[test]
fn what_is_no_reply_ends_the_reading() {
    let mut bench = bench_with(Operation::Set, 1, 1);
    assert!(matches!(bench.read(b"ERROR\r\n"), Err(ReplyError::Unexpected { .. })));
    let mut bench = bench_with(Operation::Get, 1, 1);
    assert!(matches!(bench.read(b"VALUE key0 0 5\r\n12345XXEND\r\n"), Err(ReplyError::Malformed(_))));
    let mut bench = bench_with(Operation::Get, 1, 1);
    assert!(matches!(bench.read(&[b'x'; 5000]), Err(ReplyError::Malformed(_))));
    let mut bench = bench_with(Operation::Get, 1, 1);
    let input = [bench.reply(0), b"END\r\nEND\r\n".to_vec()].concat();
    assert!(matches!(bench.read(&input), Err(ReplyError::Unasked(_))));
}
