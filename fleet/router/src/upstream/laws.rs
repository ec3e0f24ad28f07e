//! Laws that hold for all bytes that a server sends as replies to known requests: for tests, and
//! for the fuzz target `replies`.

use super::{Destination, FailedRequest, Parsed, Server};
use crate::counters::Counters;
use crate::ticket::Ticket;
use guira_protocol::{KeyBuffer, encode_key};
use guira_routing::{Answer, Dialect, Op, Origin, Outcome, Request};
use guira_transport::Address;
use guira_upstream::answers::found;
use guira_upstream::{Addresses, HealthOptions, Intake};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn destination() -> Destination {
    destination_at(Address::Unix(PathBuf::from("nowhere")), Duration::from_secs(1))
}

/// A destination with a timeout of one second.
pub(super) fn destination_at(address: Address, connect_timeout: Duration) -> Destination {
    destination_of(&server_at(address, connect_timeout))
}

pub(super) fn server_at(address: Address, connect_timeout: Duration) -> Server {
    let timeouts = [Duration::from_secs(1), connect_timeout];
    Server::new(Addresses::new([address]), None, timeouts, 1, &Arc::default())
}

pub(super) fn destination_of(server: &Server) -> Destination {
    let health = HealthOptions {
        timeouts_until_tko: Some(3),
        soft_tkos_max: 0,
        probe_initial: Duration::from_secs(1),
        probe_max: Duration::from_secs(1),
        inactive_after: Duration::ZERO,
    };
    Destination::new(server, health, usize::MAX, Arc::new(Counters::of(0)))
}

/// The number of the request of a reply, its outcome, and its text.
pub(super) type Answered = (u32, Outcome, Vec<u8>);

/// Receives `input` in pieces of the lengths that `cut` returns. Returns the replies, and whether
/// all of the input was valid. `check` receives each reply with its bytes, unless these are also
/// the reply to the next request.
pub(super) fn receive(
    destination: &mut Destination,
    input: &[u8],
    mut cut: impl FnMut() -> usize,
    mut check: impl FnMut(u32, &Answer<'_>, &[u8]),
) -> (Vec<Answered>, bool) {
    let (mut replies, mut rest) = (Vec::new(), input);
    let mut shared = Some(Intake::default());
    while !rest.is_empty() {
        let mut intake = destination.take_intake(&mut shared);
        let space = intake.space();
        let length = cut().clamp(1, rest.len()).min(space.len());
        space[..length].copy_from_slice(&rest[..length]);
        intake.filled(length);
        rest = &rest[length..];
        let (mut at, input) = (0, intake.input());
        let wanted = loop {
            at += destination.take_hits(&input[at..], |Ticket { part, .. }, value| {
                check(part, &found(value), value.block);
                replies.push((part, Outcome::Found, value.value.to_vec()));
            });
            let (origin, answer, taken) = match destination.next(&input[at..]) {
                Parsed::Reply(origin, answer, taken) => (origin, answer, taken),
                Parsed::FailedDelete(FailedRequest { origin, .. }, answer, taken) => (origin, answer, taken),
                Parsed::OwnReply(taken) | Parsed::Discarded(taken) => {
                    at += taken;
                    continue;
                }
                Parsed::Incomplete(wanted) => break wanted,
                Parsed::Invalid => return (replies, false),
            };
            if let Origin::Client(Ticket { part, .. }) = origin {
                check(part, &answer, &input[at..at + taken]);
                let text = answer.item.map_or(answer.line, |item| item.value);
                replies.push((part, answer.outcome, text.to_vec()));
            }
            at += taken;
        };
        intake.taken(at, wanted);
        destination.keep_intake(intake, &mut shared);
        destination.end_replies(0);
    }
    (replies, true)
}

/// A request of an input: a letter for its operation, and a digit as its key.
#[derive(Clone, Copy, Debug)]
struct Sent {
    letter: u8,
    key: [u8; 1],
}

impl Sent {
    /// The operation, and the flags of a meta command, which request the key and the opaque.
    fn op(self) -> Option<(Op, Option<&'static str>)> {
        Some(match self.letter {
            b'g' => (Op::Get, None),
            b'c' => (Op::Gets, None),
            b't' => (Op::Gat, None),
            b'l' => (Op::LeaseGet, None),
            b's' => (Op::Set, None),
            b'd' => (Op::Delete, None),
            b'i' => (Op::Incr, None),
            b'G' => (Op::Get, Some("v f k O")),
            b'S' => (Op::Set, Some("k O")),
            b'D' => (Op::Delete, Some("k O")),
            b'I' => (Op::Incr, Some("v k O")),
            _ => return None,
        })
    }

    fn push(self, number: usize, destination: &mut Destination) {
        let Some((op, flags)) = self.op() else { return };
        let meta = flags.map(|flags| format!("{flags}{number}")).unwrap_or_default();
        let dialect = if flags.is_some() { Dialect::Meta } else { Dialect::Classic };
        let it = Request { dialect, meta: meta.as_bytes(), ..Request::classic(op, &self.key) };
        destination.push(&it, None, Origin::Client(Ticket { call: 0, part: number as u32 }), 0);
    }

    /// A reply without an error was read from bytes that belong to this request and to no other
    /// key.
    fn check(self, number: usize, answer: &Answer<'_>, from: &[u8]) {
        let Some((op, flags)) = self.op() else { unreachable!("the request was not pushed") };
        if answer.outcome.is_error() {
            return;
        }
        let has = |words: &[u8]| from.windows(words.len()).any(|part| part == words);
        if flags.is_some() {
            let is_miss = matches!(from.trim_ascii_start().get(..2), Some(b"EN" | b"NF" | b"NS" | b"EX"));
            let mut buffer: KeyBuffer = [0; 336];
            let has_key = [&self.key[..], encode_key(&self.key, &mut buffer)]
                .iter()
                .any(|key| has(&[b" k", *key].concat()));
            let is_own = has_key && has(format!(" O{number}").as_bytes());
            assert!(is_miss || is_own, "{number}: {self:?} {}", from.escape_ascii());
        } else if let (Op::Get | Op::Gets | Op::Gat | Op::LeaseGet, Some(item)) = (op, answer.item) {
            let key = char::from(self.key[0]);
            let begins = |word: &str| from.starts_with(format!("{word} {key} ").as_bytes());
            assert!(begins("VALUE") || begins("LVALUE"), "{number}: {self:?} {}", from.escape_ascii());
            let end = [item.value, b"\r\n"].concat();
            assert!(from.ends_with(&end), "{number}: {self:?} {}", from.escape_ascii());
        }
    }
}

/// The input is a line of requests, as letters and digits, and then the bytes of a server. Each
/// request has at most one reply, in order, from bytes that belong to it; and the pieces in which
/// the bytes arrive make no difference.
pub(crate) fn obey(input: &[u8]) {
    let line_end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, replies) = (&input[..line_end], input.get(line_end + 1..).unwrap_or_default());
    let pairs = line.as_chunks::<2>().0.iter().map(|[letter, key]| Sent { letter: *letter, key: [*key] });
    let sent: Vec<Sent> = pairs.filter(|it| it.key[0].is_ascii_digit() && it.op().is_some()).collect();
    let push_all = || {
        let mut destination = destination();
        sent.iter().enumerate().for_each(|(number, it)| it.push(number, &mut destination));
        destination.pretend_to_send();
        destination
    };
    let check =
        |part: u32, answer: &Answer<'_>, from: &[u8]| sent[part as usize].check(part as usize, answer, from);
    let whole = receive(&mut push_all(), replies, || usize::MAX, check);
    assert!(whole.0.iter().map(|(part, ..)| *part).eq(0..whole.0.len() as u32), "{whole:?}");
    assert!(whole.0.len() <= sent.len(), "{whole:?}");
    let mut state = input.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (state >> 33) as usize % 16
    };
    assert_eq!(whole, receive(&mut push_all(), replies, &mut random, check), "in pieces");
    assert_eq!(whole, receive(&mut push_all(), replies, || 1, check), "byte by byte");
}
