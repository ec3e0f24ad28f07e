//! Leases: a server is asked for them as its pool says. What is stored with them is sent only once the server was seen to know what it is stored
//! by: one that does not would take the values for commands.

use super::{Destination, Expected, Heard, Kind, Next};
use crate::counters::Event;
use crate::ticket::Ticket;
use crate::upstream::leases::{self, Filled, NO_LEASES, NO_META, UNCLEAR, interval};
use crate::upstream::meter::ServerCount;
use guira_client::text::is_refusal;
use guira_routing::config::Leases;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Outcome, Request};
use guira_upstream::reply::{Reply, Value};
use guira_upstream::{answers, wire};

/// What a server was asked about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A lease-get, in meta commands.
    Get,
    /// A lease-set, in meta commands.
    Set,
    /// Whether it knows what a lease-set needs.
    First,
    /// Nothing that matters, in place of a lease-set that it does not know.
    Instead,
    /// Whether an empty value is one.
    Again,
    /// The same about one whose time a gat has changed.
    AgainTouched,
    /// To give a key that is to be filled its time back.
    Time,
}

impl Asked {
    pub(super) fn group(self) -> Group {
        match self {
            Asked::Set | Asked::First | Asked::Instead => Group::Update,
            Asked::Get | Asked::Again | Asked::AgainTouched | Asked::Time => Group::Get,
        }
    }
}

/// What is known of a server and of leases.
#[derive(Debug)]
pub(super) struct Lessor {
    leases: Leases,
    proof: Proof,
    /// What comes from here on, among all bytes that were ever asked, waits for the answer to [`Asked::First`].
    barrier: Option<u64>,
    /// Why lease-sets are refused.
    refusal: &'static [u8],
    /// The server was asked something that no client has asked.
    has_asked: bool,
}

/// Whether a server was seen to know leases, over the present connection: the next may lead to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    None,
    /// It does not, which was logged.
    Denied,
    Given,
}

/// Asks for something that only who knows leases can answer …
const FIRST_NATIVE: &[u8] = b"lease-get guira-router-asks\r\n";
/// … about a key that nobody has.
const FIRST_KEY: &[u8] = b"guira-router-asks";
/// The same of meta commands.
const FIRST_META: &[u8] = b"mn\r\n";
/// What every server answers.
const INSTEAD: &[u8] = b"version\r\n";

impl Lessor {
    pub(super) fn new(leases: Leases) -> Self {
        Lessor { leases, proof: Proof::None, barrier: None, refusal: UNCLEAR, has_asked: false }
    }

    /// Of the same server, over another connection.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.leases)
    }

    /// Whether an item may be none, but stand for a key that is to be filled.
    #[inline]
    pub(super) fn doubts(&self, value: &Value<'_>) -> bool {
        value.value.is_empty() && value.flags == 0 && self.leases == Leases::Meta
    }

    /// How much of the wire is sent by now, of `length` bytes with so many before them.
    #[inline]
    pub(super) fn end_of(&self, length: usize, before: u64) -> usize {
        self.barrier.map_or(length, |barrier| (barrier - before) as usize)
    }

    /// Appends a lease-get or a lease-set.
    pub(super) fn write(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Kind {
        match (self.leases, request.op) {
            (Leases::Native, op) => {
                wire::write(request, out);
                if op == Op::LeaseGet { Kind::LastKey } else { Kind::Line(op) }
            }
            (Leases::Meta, Op::LeaseGet) => {
                wire::write(&leases::get(request), out);
                Kind::Lease(Asked::Get)
            }
            (Leases::Meta, _) => {
                let meta = &leases::flags_of_set(request);
                wire::write(&Request { dialect: Dialect::Meta, meta, ..*request }, out);
                Kind::Lease(Asked::Set)
            }
        }
    }

    /// The server knows leases.
    pub(super) fn prove(&mut self) {
        self.proof = Proof::Given;
        self.has_asked |= self.barrier.take().is_some();
    }

    /// The connection has ended.
    pub(super) fn forget_server(&mut self) {
        (self.proof, self.barrier) = (Proof::None, None);
    }
}

impl Kind {
    /// Whether the router asks for itself: whether the server is there, or knows leases.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Kind::Probe | Kind::Lease(Asked::First))
    }
}

/// Whether a request has a value that a server which knows no leases takes for commands.
fn is_store(kind: Kind) -> bool {
    matches!(kind, Kind::Line(Op::LeaseSet) | Kind::Lease(Asked::Set))
}

impl Destination {
    /// Whether something has to be sent that no client has asked, or that has waited: tells it once.
    #[inline]
    pub(crate) fn has_asked(&mut self) -> bool {
        std::mem::take(&mut self.lessor.has_asked)
    }

    /// Before a lease-set, asks whether the server knows these, if it was not seen to: the request, and what comes behind it, waits for the answer.
    #[inline]
    pub(super) fn ask_first(&mut self, request: &Request<'_>, now_ms: u64) {
        let is_set = request.op == Op::LeaseSet && request.dialect == Dialect::Classic;
        if is_set && self.lessor.proof != Proof::Given && self.lessor.barrier.is_none() {
            let begin = self.wire.len();
            self.wire.extend_from_slice(match self.lessor.leases {
                Leases::Native => FIRST_NATIVE,
                Leases::Meta => FIRST_META,
            });
            self.lessor.barrier = Some(self.before + self.wire.len() as u64);
            self.expect(Origin::Nobody, (begin, begin), (0, Kind::Lease(Asked::First), None), now_ms);
            self.meter.add(ServerCount::Probes, 1);
        }
    }

    /// Whether a value that belongs to a lease was not sent.
    pub(super) fn has_unsent_lease(&self) -> bool {
        let sent = self.before + self.sent as u64;
        let unsent = self.expected.iter().rev().take_while(|expected| expected.begin() >= sent);
        unsent.map(|expected| expected.kind).any(is_store)
    }

    /// Takes lease-sets out that have waited for a server which does not know them.
    fn refuse_stores(&mut self) {
        let Some(barrier) = self.lessor.barrier.take() else { return };
        assert!(self.before + self.sent as u64 <= barrier, "values of leases were sent without a proof");
        self.lessor.has_asked = true;
        let first = self.expected.partition_point(|expected| expected.begin() < barrier);
        let mut taken = (barrier - self.before) as usize;
        let mut wire = self.wire[..taken].to_vec();
        let mut removed = 0;
        for number in first..self.expected.len() {
            let next = self.expected.get(number + 1).map(|next| (next.begin() - self.before) as usize);
            let end = next.unwrap_or(self.wire.len());
            let expected = &mut self.expected[number];
            let begin = (expected.begin() - self.before) as usize;
            expected.at -= removed;
            if is_store(expected.kind) {
                expected.kind = Kind::Lease(Asked::Instead);
                wire.extend_from_slice(&self.wire[taken..begin]);
                wire.extend_from_slice(INSTEAD);
                taken = end;
                removed += (end - begin - INSTEAD.len()) as u64;
            }
        }
        wire.extend_from_slice(&self.wire[taken..]);
        self.wire = wire;
        // It is behind all of them.
        if let Some(open) = &mut self.open {
            open.from -= removed as usize;
        }
    }

    /// What a server has said about leases.
    pub(super) fn next_of_lease<'i>(
        &mut self,
        asked: Asked,
        expected: Expected,
        reply: Reply<'i>,
        taken: usize,
    ) -> Heard<'i> {
        match asked {
            Asked::First => return self.next_of_first(reply, taken),
            Asked::Instead if answers::is_of_probe(&reply) => {
                self.counters.add(Event::LeaseRefused);
                let answer = Answer { line: self.lessor.refusal, ..Answer::of(Outcome::RemoteError) };
                return self.answered(expected, answer, taken);
            }
            _ => {}
        }
        let (line, value) = match reply {
            Reply::Line(line) => (line, None),
            Reply::MetaValue { line, value } => (line, Some(value)),
            _ => return Heard::Garbage,
        };
        let op = if asked == Asked::Set { Op::LeaseSet } else { Op::LeaseGet };
        let Some(answer) = self.of_meta(op, &expected, line, value) else { return Heard::Garbage };
        match asked {
            Asked::Set => {
                if !answers::has_passed_over_meta_value(answer.line) {
                    self.next = Next::Unknown;
                }
                self.answered(expected, leases::of_set(answer), taken)
            }
            Asked::Get => {
                if !answer.outcome.is_error() {
                    self.lessor.prove();
                }
                let answer = self.explained(&expected, answer);
                self.answered(expected, leases::of_get(answer), taken)
            }
            Asked::Again | Asked::AgainTouched => {
                let (answer, filled) = leases::of_empty(answer);
                let is_long_lived = asked == Asked::AgainTouched && filled == Filled::NotYet;
                if is_long_lived {
                    self.give_time(&expected);
                }
                self.answered(expected, answer, taken)
            }
            Asked::First | Asked::Instead | Asked::Time => self.answered(expected, answer, taken),
        }
    }

    /// The server was asked whether it knows leases: lease-sets that have waited are sent, or fail.
    fn next_of_first<'i>(&mut self, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        let is_proof = match (self.lessor.leases, reply) {
            (Leases::Native, Reply::Lease(value) | Reply::Value(value)) if value.key == FIRST_KEY => {
                self.next = Next::End;
                true
            }
            (Leases::Native, Reply::End) | (Leases::Meta, Reply::Line(b"MN")) => true,
            (_, Reply::Line(line)) => match answers::failed(line) {
                Some(answer) => {
                    let is_unknown = is_refusal(answer.line);
                    self.lessor.refusal = if is_unknown { self.unknown_leases() } else { UNCLEAR };
                    false
                }
                None => return Heard::Garbage,
            },
            _ => return Heard::Garbage,
        };
        if is_proof {
            self.lessor.prove();
        } else {
            self.refuse_stores();
        }
        self.settle();
        Heard::Nothing(taken)
    }

    /// The same refusal, with the reason if it is that the server does not know leases.
    pub(super) fn explained<'i>(&mut self, expected: &Expected, answer: Answer<'i>) -> Answer<'i> {
        let request = &self.wire[(expected.begin() - self.before) as usize..];
        let is_of_lease = match expected.kind {
            Kind::Lease(_) => true,
            Kind::LastKey => request.starts_with(b"lease-get "),
            _ => false,
        };
        if !is_of_lease || !is_refusal(answer.line) {
            return answer;
        }
        self.counters.add(Event::LeaseRefused);
        Answer { line: self.unknown_leases(), ..Answer::of(Outcome::RemoteError) }
    }

    /// What is told of a server that does not know leases; the log is told once.
    fn unknown_leases(&mut self) -> &'static [u8] {
        let line = match self.lessor.leases {
            Leases::Native => NO_LEASES,
            Leases::Meta => NO_META,
        };
        if self.lessor.proof == Proof::None {
            self.lessor.proof = Proof::Denied;
            let server = self.link.address().map(tracing::field::display);
            tracing::warn!(server, "{}", String::from_utf8_lossy(&line[b"SERVER_ERROR ".len()..]));
        }
        line
    }

    /// A get has found an empty value: what it is, memcached's meta commands tell.
    #[cold]
    pub(super) fn look_again<'i>(&mut self, expected: Expected, taken: usize) -> Heard<'i> {
        let key = self.key_of(&expected).to_vec();
        let request = &self.wire[(expected.begin() - self.before) as usize..];
        let asked = if request.starts_with(b"gat") { Asked::AgainTouched } else { Asked::Again };
        if expected.kind == Kind::LastKey {
            self.next = Next::End;
        }
        let is_awaited = self.dead == 0;
        let heard = self.answered(expected, Answer::of(Outcome::Found), taken);
        if !is_awaited {
            return heard;
        }
        self.counters.add(Event::Doubt);
        let again = Request { dialect: Dialect::Meta, meta: b"k v f c", ..Request::classic(Op::Get, &key) };
        self.ask_for(expected.origin, &again, &expected);
        if let Some(last) = self.expected.back_mut() {
            last.kind = Kind::Lease(asked);
        }
        Heard::Nothing(taken)
    }

    /// Asks one thing more for who has asked for something.
    fn ask_for(&mut self, origin: Origin<Ticket>, request: &Request<'_>, before: &Expected) {
        // It has waited since then.
        let used_ms = self.used_ms;
        self.push(request, None, origin, u64::from(before.asked_ms));
        self.used_ms = used_ms;
        self.lessor.has_asked = true;
    }

    /// A gat has given a key that is to be filled more time than its holder has.
    fn give_time(&mut self, again: &Expected) {
        let request = &self.wire[(again.begin() - self.before) as usize..];
        let key = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default().to_vec();
        let meta = concat!("T", interval!()).as_bytes();
        let time = Request { dialect: Dialect::Meta, meta, ..Request::classic(Op::Get, &key) };
        self.ask_for(Origin::Nobody, &time, again);
        if let Some(last) = self.expected.back_mut() {
            last.kind = Kind::Lease(Asked::Time);
        }
    }
}
