//! Replies that come in any pieces, and what is no reply.

use super::*;
use crate::counters::Counters;
use crate::flow::Ticket;
use crate::running::Health;
use guira_routing::{Dialect, Op, Origin, Outcome, Request};
use guira_transport::Address;
use std::path::PathBuf;
use std::time::Duration;

/// A small generator: a seed is all that a failure needs.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn destination() -> Destination {
    let address = Address::Unix(PathBuf::from("nowhere"));
    let server =
        Server::new(Addresses::new([address]), None, [Duration::from_secs(1); 2], 1, &Arc::default());
    let health = Health {
        timeouts_until_tko: Some(3),
        soft_tkos_max: 0,
        probe_initial: Duration::from_secs(1),
        probe_max: Duration::from_secs(1),
        inactive_after: Duration::ZERO,
    };
    Destination::new(&server, health, usize::MAX, Arc::new(Counters::of(0)))
}

/// Asks for something, and returns what a server answers.
fn ask(destination: &mut Destination, random: &mut Random, part: u32) -> Vec<u8> {
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
        // What is closed by the end of its line.
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

/// What comes of `input` in pieces as `cut` says: who is answered what, and whether it made sense.
fn hear(
    destination: &mut Destination,
    input: &[u8],
    mut cut: impl FnMut() -> usize,
) -> (Vec<(u32, Outcome, Vec<u8>)>, bool) {
    let (mut heard, mut rest) = (Vec::new(), input);
    let mut intake = Intake::default();
    while !rest.is_empty() {
        if let Some(before) = destination.take_rest() {
            intake.put_back(&before);
        }
        let space = intake.space();
        let length = cut().clamp(1, rest.len()).min(space.len());
        space[..length].copy_from_slice(&rest[..length]);
        intake.filled(length);
        rest = &rest[length..];
        let (mut at, input) = (0, intake.input());
        let wanted = loop {
            match destination.next(&input[at..]) {
                Heard::Answer(Origin::Client(ticket), answer, taken) => {
                    let value = answer.item.map_or(answer.line, |item| item.value);
                    heard.push((ticket.part, answer.outcome, value.to_vec()));
                    at += taken;
                }
                Heard::Failed(Lost { origin: Origin::Client(ticket), .. }, answer, taken) => {
                    heard.push((ticket.part, answer.outcome, answer.line.to_vec()));
                    at += taken;
                }
                Heard::Answer(_, _, taken) | Heard::Failed(_, _, taken) | Heard::Nothing(taken) => {
                    at += taken
                }
                Heard::Silence(wanted) => break wanted,
                Heard::Garbage => return (heard, false),
            }
        };
        intake.taken(at, wanted);
        if !intake.is_empty() {
            destination.keep(intake.take_rest());
        }
        destination.tidy();
    }
    (heard, true)
}

#[test]
fn replies_mean_the_same_in_whatever_pieces_they_come() {
    for seed in 0..200 {
        let ask_all = || {
            let mut random = Random(seed);
            let (mut destination, mut replies) = (destination(), Vec::new());
            for part in 0..30 {
                replies.extend(ask(&mut destination, &mut random, part));
            }
            (destination, replies, random)
        };
        let (mut one, replies, mut random) = ask_all();
        let (mut other, ..) = ask_all();
        let whole = hear(&mut one, &replies, || usize::MAX);
        let pieces = hear(&mut other, &replies, || 1 + random.below(90));
        assert_eq!(whole, pieces, "seed {seed}");
        assert!(whole.1 && whole.0.iter().map(|(part, ..)| *part).eq(0..30), "seed {seed}: {whole:?}");
        let is_error = |(_, outcome, _): &(u32, Outcome, Vec<u8>)| outcome.is_error();
        assert!(!whole.0.iter().any(is_error), "seed {seed}");
    }
}

#[test]
fn what_is_damaged_answers_nobody_twice_and_means_the_same_in_pieces() {
    for seed in 0..2000 {
        let ask_all = || {
            let mut random = Random(seed);
            let (mut destination, mut replies) = (destination(), Vec::new());
            for part in 0..10 {
                replies.extend(ask(&mut destination, &mut random, part));
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
        let (mut one, replies, mut random) = ask_all();
        let (mut other, ..) = ask_all();
        let whole = hear(&mut one, &replies, || usize::MAX);
        let pieces = hear(&mut other, &replies, || 1 + random.below(20));
        assert_eq!(whole, pieces, "seed {seed}");
        assert!(whole.0.iter().map(|(part, ..)| *part).eq(0..whole.0.len() as u32), "seed {seed}: {whole:?}");
    }
}
