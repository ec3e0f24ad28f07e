//! One server: what it was asked, in order, and the connection over which it answers.

use super::Server;
use super::health::{Prober, Probes, Standing};
use super::reply::{self, Read, Reply, Value};
use super::{Undelivered, wire};
use crate::flow::Ticket;
use crate::running::Health;
use guira_protocol::number_from;
use guira_routing::{Answer, Dialect, Item, LogName, Op, Origin, Outcome, Request};
use guira_transport::{Address, Interest, Poll, Progress, Stream, Token};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A server and what it was asked.
#[derive(Debug)]
pub(crate) struct Destination {
    address: Address,
    timeout_ms: u32,
    standing: Arc<Standing>,
    health: Health,
    /// This worker asks whether it is back.
    probes: Option<Probes>,
    link: Link,
    /// Requests from the first that was not answered altogether on, and how many bytes of them were sent.
    wire: Vec<u8>,
    sent: usize,
    /// Bytes that were in front of `wire`.
    before: u64,
    expected: VecDeque<Expected>,
    /// How many at the front of it nobody waits for any more.
    dead: usize,
    /// The request at the end of the wire is a get that takes more keys.
    open: Option<OpenGet>,
    /// All keys of a get have been answered, and its end has not come.
    ends: bool,
    /// What was read and is no whole reply.
    input: Vec<u8>,
    interest: Interest,
}

#[derive(Debug)]
enum Link {
    Closed,
    Connecting(Stream),
    Up(Stream),
}

/// A reply that has to come.
#[derive(Clone, Copy, Debug)]
struct Expected {
    origin: Origin<Ticket>,
    /// Where its key is, or the delete that it is, among all bytes that were ever asked.
    at: u64,
    length: u8,
    kind: Kind,
    asked_ms: u32,
    /// What it is logged under if it is a delete and fails.
    log: Option<LogName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A key of a get, and others behind it.
    Key,
    LastKey,
    Line(Op),
    Meta(Op),
    Delete(Dialect),
    /// A probe: any line.
    Probe,
}

#[derive(Clone, Copy, Debug)]
struct OpenGet {
    op: Op,
    keys: u32,
    /// Where its line begins.
    from: usize,
}

/// Keys of different clients that are asked for together …
const KEYS_MAX: u32 = 64;
/// … and bytes of their line, so that it is one segment.
const LINE_MAX: usize = 1300;
/// Bytes that were answered and are kept in front of the others.
const KEPT_MAX: usize = 64 << 10;
/// Bytes that a server may be asked without having answered: whatever comes beyond is refused.
const WIRE_MAX: usize = 64 << 20;

/// What a server has said.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// The answer to what was asked for `origin`, and how much of the input is dealt with.
    Answer(Origin<Ticket>, Answer<'a>, usize),
    /// A delete that the server has not carried out, and what it says.
    Failed(Lost, Answer<'a>, usize),
    /// Nothing that somebody waits for.
    Nothing(usize),
    /// No more replies.
    Silence,
    /// Nothing that makes sense.
    Garbage,
}

/// A request whose reply is not waited for any more.
#[derive(Debug)]
pub(crate) enum GivenUp {
    Request(Lost),
    /// The server cannot be connected to: nothing is answered.
    Unreachable(Lost),
    /// The connection is of no use.
    Probe,
}

/// A request that has failed.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) origin: Origin<Ticket>,
    /// If it is a delete, and may be logged.
    pub(crate) delete: Option<Undelivered>,
}

impl Destination {
    pub(crate) fn new(server: &Server, health: Health) -> Self {
        Destination {
            address: server.address.clone(),
            timeout_ms: server.timeout_ms,
            standing: server.standing.clone(),
            health,
            probes: None,
            link: Link::Closed,
            wire: Vec::new(),
            sent: 0,
            before: 0,
            expected: VecDeque::new(),
            dead: 0,
            open: None,
            ends: false,
            input: Vec::new(),
            interest: Interest::Read,
        }
    }

    /// Whether it is sent requests.
    #[inline]
    pub(crate) fn is_in(&self) -> bool {
        self.standing.is_in()
    }

    /// Whether it takes no more requests for now.
    pub(crate) fn is_full(&self) -> bool {
        self.wire.len() > WIRE_MAX
    }

    /// Appends a request. A get is put behind the keys of the one before it, if that was not sent.
    #[inline]
    pub(crate) fn push(
        &mut self,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        let is_get = matches!(request.op, Op::Get | Op::Gets) && request.dialect == Dialect::Classic;
        let mut begin = 0;
        let kind = if is_get {
            self.push_get(request);
            Kind::Key
        } else {
            self.close_get();
            begin = self.wire.len();
            wire::write(request, &mut self.wire);
            match (request.dialect, request.op) {
                (dialect, Op::Delete) => Kind::Delete(dialect),
                (Dialect::Meta, op) => Kind::Meta(op),
                (_, Op::Gat | Op::Gats | Op::LeaseGet) => Kind::LastKey,
                (_, op) => Kind::Line(op),
            }
        };
        // The key of a get is the last word of the wire; those of others are not looked at.
        let from = match kind {
            Kind::Key => self.wire.len() - request.key.len(),
            Kind::LastKey => self.wire.len() - request.key.len() - 2,
            Kind::Delete(_) => begin,
            Kind::Line(_) | Kind::Meta(_) | Kind::Probe => self.wire.len(),
        };
        let (at, length) = (self.before + from as u64, request.key.len() as u8);
        self.expected.push_back(Expected { origin, at, length, kind, asked_ms: now_ms as u32, log });
    }

    #[inline]
    fn push_get(&mut self, request: &Request<'_>) {
        match &mut self.open {
            // The uniques that a gets brings harm nobody who has not asked for them.
            Some(open)
                if open.keys < KEYS_MAX
                    && self.wire.len() - open.from + request.key.len() < LINE_MAX
                    && (open.op == request.op || open.op == Op::Gets) =>
            {
                open.keys += 1;
                self.wire.push(b' ');
            }
            _ => {
                self.close_get();
                self.open = Some(OpenGet { op: request.op, keys: 1, from: self.wire.len() });
                self.wire.extend_from_slice(if request.op == Op::Get { b"get " } else { b"gets " });
            }
        }
        self.wire.extend_from_slice(request.key);
    }

    fn close_get(&mut self) {
        if self.open.take().is_some() {
            self.wire.extend_from_slice(b"\r\n");
            if let Some(last) = self.expected.back_mut() {
                last.kind = Kind::LastKey;
            }
        }
    }

    fn push_probe(&mut self, now_ms: u64) {
        self.close_get();
        self.wire.extend_from_slice(b"version\r\n");
        let at = self.before + self.wire.len() as u64;
        self.expected.push_back(Expected {
            origin: Origin::Nobody,
            at,
            length: 0,
            kind: Kind::Probe,
            asked_ms: now_ms as u32,
            log: None,
        });
    }

    /// Sends what was asked since the last time; connects first, if need be.
    ///
    /// # Errors
    /// What the system says: the connection is of no use.
    pub(crate) fn flush(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        self.close_get();
        if self.sent == self.wire.len() {
            return Ok(());
        }
        if let Link::Closed = self.link {
            let stream = Stream::connect(&self.address)?;
            poll.add(&stream, token, Interest::ReadWrite)?;
            self.interest = Interest::ReadWrite;
            self.link = Link::Connecting(stream);
        }
        let Link::Up(stream) = &mut self.link else {
            return Ok(());
        };
        while self.sent < self.wire.len() {
            match stream.write(&self.wire[self.sent..])? {
                Progress::Moved(bytes) => self.sent += bytes,
                Progress::Blocked => return self.listen(poll, token, Interest::ReadWrite),
                Progress::Ended => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        self.listen(poll, token, Interest::Read)
    }

    fn listen(&mut self, poll: &Poll, token: Token, interest: Interest) -> io::Result<()> {
        let Link::Up(stream) = &self.link else {
            return Ok(());
        };
        if self.interest != interest {
            self.interest = interest;
            poll.change(stream, token, interest)?;
        }
        Ok(())
    }

    /// Something has happened to the socket: reads what there is into `buffer`, behind what was left over. Returns how much there is.
    ///
    /// # Errors
    /// What the system says: the connection is of no use.
    pub(crate) fn read(&mut self, poll: &Poll, token: Token, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if let Link::Connecting(_) = self.link {
            self.finish_connecting()?;
            self.flush(poll, token)?;
            return Ok(0);
        }
        if self.interest == Interest::ReadWrite {
            self.flush(poll, token)?;
        }
        let Link::Up(stream) = &mut self.link else {
            return Ok(0);
        };
        let kept = self.input.len();
        if buffer.len() < kept + READ_BYTES {
            buffer.resize(kept + READ_BYTES, 0);
        }
        buffer[..kept].copy_from_slice(&self.input);
        self.input.clear();
        match stream.read(&mut buffer[kept..])? {
            Progress::Moved(bytes) => Ok(kept + bytes),
            Progress::Blocked => Ok(kept),
            Progress::Ended => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn finish_connecting(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.link, Link::Closed) {
            Link::Connecting(stream) => {
                stream.take_error()?;
                self.link = Link::Up(stream);
            }
            other => self.link = other,
        }
        Ok(())
    }

    /// Keeps what is no whole reply until more comes.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        self.input.extend_from_slice(rest);
    }

    /// The next reply in `input`.
    #[inline]
    pub(crate) fn next<'i>(&mut self, input: &'i [u8]) -> Heard<'i> {
        if input.is_empty() {
            return Heard::Silence;
        }
        let (reply, taken) = match reply::read(input) {
            Read::Reply(reply, taken) => (reply, taken),
            Read::Unfinished => return Heard::Silence,
            Read::Broken => return Heard::Garbage,
        };
        if self.ends {
            self.ends = false;
            // An error in place of the end: all keys were answered.
            return if matches!(reply, Reply::End | Reply::Line(_)) {
                Heard::Nothing(taken)
            } else {
                Heard::Garbage
            };
        }
        let Some(expected) = self.expected.front().copied() else {
            return Heard::Garbage;
        };
        match expected.kind {
            Kind::Key | Kind::LastKey => self.next_of_get(expected, reply, taken),
            Kind::Line(op) => match reply {
                Reply::Line(line) => self.answered(expected, line_answer(op, line), taken),
                _ => Heard::Garbage,
            },
            Kind::Meta(_) => match reply {
                Reply::MetaValue { line, value } => {
                    self.answered(expected, meta_answer(line, Some(value)), taken)
                }
                Reply::Line(line) => self.answered(expected, meta_answer(line, None), taken),
                _ => Heard::Garbage,
            },
            Kind::Delete(dialect) => match reply {
                Reply::Line(line) => self.answered_delete(expected, dialect, line, taken),
                _ => Heard::Garbage,
            },
            Kind::Probe => match reply {
                Reply::Line(_) => self.answered(expected, Answer::of(Outcome::Ok), taken),
                _ => Heard::Garbage,
            },
        }
    }

    #[inline]
    fn next_of_get<'i>(&mut self, expected: Expected, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        let is_last = expected.kind == Kind::LastKey;
        let (found, outcome) = match reply {
            Reply::Value(value) => (value, Outcome::Found),
            Reply::Lease(value) if value.number != HOT => (value, Outcome::NotFound),
            Reply::Lease(value) if value.value.is_empty() => (value, Outcome::NotFoundHot),
            Reply::Lease(value) => (value, Outcome::FoundStale),
            Reply::End => {
                return self.answered(
                    expected,
                    Answer::of(Outcome::NotFound),
                    if is_last { taken } else { 0 },
                );
            }
            Reply::Line(line) => {
                let answer = Answer { line, ..Answer::of(failure(line).unwrap_or(Outcome::RemoteError)) };
                return self.answered(expected, answer, if is_last { taken } else { 0 });
            }
            Reply::MetaValue { .. } => return Heard::Garbage,
        };
        let at = (expected.at - self.before) as usize;
        if found.key == &self.wire[at..at + usize::from(expected.length)] {
            self.ends = is_last;
            return self.answered(expected, hit(outcome, &found), taken);
        }
        if is_last { Heard::Garbage } else { self.answered(expected, Answer::of(Outcome::NotFound), 0) }
    }

    #[inline]
    fn answered<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        self.expected.pop_front();
        self.standing.heard();
        if self.dead > 0 {
            self.dead -= 1;
            return Heard::Nothing(taken);
        }
        Heard::Answer(expected.origin, answer, taken)
    }

    fn answered_delete<'i>(
        &mut self,
        expected: Expected,
        dialect: Dialect,
        line: &'i [u8],
        taken: usize,
    ) -> Heard<'i> {
        let answer = match dialect {
            Dialect::Classic => line_answer(Op::Delete, line),
            Dialect::Meta => meta_answer(line, None),
        };
        if !answer.outcome.is_failover_error() {
            return self.answered(expected, answer, taken);
        }
        let lost = self.lost(&expected);
        match self.answered(expected, answer, taken) {
            Heard::Answer(_, answer, taken) => Heard::Failed(lost, answer, taken),
            other => other,
        }
    }

    /// A request that has failed. What it has asked is still there.
    #[cold]
    fn lost(&self, expected: &Expected) -> Lost {
        let is_delete = matches!(expected.kind, Kind::Delete(_));
        let from = (expected.at - self.before) as usize;
        let delete = expected.log.filter(|_| is_delete);
        let delete = delete.and_then(|log| Undelivered::read(&self.wire[from..], log));
        Lost { origin: expected.origin, delete }
    }

    /// Forgets requests that were answered.
    pub(crate) fn tidy(&mut self) {
        let Some(first) = self.expected.front() else {
            if self.sent == self.wire.len() {
                self.before += self.wire.len() as u64;
                self.wire.clear();
                self.wire.shrink_to(KEPT_MAX);
                self.sent = 0;
            }
            return;
        };
        let answered = ((first.at - self.before) as usize).min(self.sent);
        if answered > KEPT_MAX && answered > self.wire.len() / 2 {
            self.wire.drain(..answered);
            self.before += answered as u64;
            self.sent -= answered;
            if let Some(open) = &mut self.open {
                open.from -= answered;
            }
        }
    }

    /// When something is to be given up, or to be asked.
    pub(crate) fn deadline(&self, now_ms: u64) -> Option<u64> {
        let oldest = self.expected.get(self.dead).map(|oldest| {
            let waited = (now_ms as u32).wrapping_sub(oldest.asked_ms);
            now_ms + u64::from(self.timeout_ms.saturating_sub(waited))
        });
        oldest.into_iter().chain(self.probes.map(|probes| probes.next_ms)).min()
    }

    /// Whether it has nothing to send.
    pub(crate) fn is_clean(&self) -> bool {
        self.sent == self.wire.len()
    }

    /// The oldest request, if it has waited for too long. Its reply is dropped if it comes after all.
    pub(crate) fn give_up(&mut self, now_ms: u64) -> Option<GivenUp> {
        let oldest = *self.expected.get(self.dead)?;
        if (now_ms as u32).wrapping_sub(oldest.asked_ms) < self.timeout_ms {
            return None;
        }
        let lost = self.lost(&oldest);
        self.dead += 1;
        let is_probe = oldest.kind == Kind::Probe;
        if let Link::Connecting(_) = self.link {
            let prober = self.standing.unreachable(&self.health);
            self.put_out(prober, now_ms);
            return Some(GivenUp::Unreachable(lost));
        }
        let prober = self.standing.timed_out(&self.health);
        self.put_out(prober, now_ms);
        Some(if is_probe { GivenUp::Probe } else { GivenUp::Request(lost) })
    }

    /// The connection has failed.
    pub(crate) fn note_failure(&mut self, now_ms: u64) {
        // One that was up is tried again, with the next request.
        if !matches!(self.link, Link::Up(_)) {
            let prober = self.standing.unreachable(&self.health);
            self.put_out(prober, now_ms);
        }
    }

    fn put_out(&mut self, prober: Option<Prober>, now_ms: u64) {
        if prober == Some(Prober::You) {
            self.probes = Some(Probes::begin(now_ms, &self.health));
        }
    }

    /// Asks whether it is back, if it is time to. True if it was asked.
    pub(crate) fn probe(&mut self, now_ms: u64, random: u32) -> bool {
        if self.standing.is_in() {
            self.probes = None;
        }
        let Some(probes) = self.probes.as_mut().filter(|probes| now_ms >= probes.next_ms) else {
            return false;
        };
        probes.asked(now_ms, &self.health, random);
        self.push_probe(now_ms);
        true
    }

    /// Closes the connection. Returns the requests that were not answered, and are not any more.
    pub(crate) fn fail(&mut self, poll: &Poll) -> Vec<Lost> {
        if let Link::Connecting(stream) | Link::Up(stream) = &self.link {
            // Closing the socket does the same.
            let _ = poll.remove(stream);
        }
        self.link = Link::Closed;
        let lost = self.expected.iter().skip(self.dead).map(|expected| self.lost(expected)).collect();
        self.expected.clear();
        self.before += self.wire.len() as u64;
        self.wire = Vec::new();
        self.input = Vec::new();
        (self.sent, self.dead, self.open, self.ends) = (0, 0, None, false);
        lost
    }
}

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// The token of a lease that somebody else has.
const HOT: u64 = 1;

fn hit<'i>(outcome: Outcome, found: &Value<'i>) -> Answer<'i> {
    let item = Some(Item { flags: found.flags, value: found.value });
    Answer { item, number: found.number, block: found.block, ..Answer::of(outcome) }
}

/// What a line says that is no answer.
fn failure(line: &[u8]) -> Option<Outcome> {
    let rest = match line {
        b"ERROR" => return Some(Outcome::RemoteError),
        _ if line.starts_with(b"CLIENT_ERROR") => return Some(Outcome::ClientError),
        _ => line.strip_prefix(b"SERVER_ERROR")?,
    };
    Some(match rest.trim_ascii() {
        text if text.starts_with(b"307") => Outcome::Busy,
        text if text.starts_with(b"302") => Outcome::TryAgain,
        text if text.starts_with(b"301") => Outcome::Shutdown,
        b"unavailable" => Outcome::Tko,
        b"timeout" => Outcome::Timeout,
        b"connection timeout" => Outcome::ConnectTimeout,
        b"connection error" => Outcome::ConnectError,
        _ => Outcome::RemoteError,
    })
}

fn line_answer(op: Op, line: &[u8]) -> Answer<'_> {
    let outcome = match line {
        b"STORED" => Outcome::Stored,
        b"STALE_STORED" => Outcome::StaleStored,
        b"NOT_STORED" => Outcome::NotStored,
        b"EXISTS" => Outcome::Exists,
        b"NOT_FOUND" => Outcome::NotFound,
        b"DELETED" => Outcome::Deleted,
        b"TOUCHED" => Outcome::Touched,
        b"OK" => Outcome::Ok,
        _ => match failure(line) {
            Some(outcome) => return Answer { line, ..Answer::of(outcome) },
            None if matches!(op, Op::Incr | Op::Decr) => {
                let number = number_from(line).unwrap_or(0);
                return Answer { number, line, ..Answer::of(Outcome::Found) };
            }
            None => return Answer { line, ..Answer::of(Outcome::RemoteError) },
        },
    };
    Answer::of(outcome)
}

fn meta_answer<'i>(line: &'i [u8], value: Option<&'i [u8]>) -> Answer<'i> {
    let outcome = match line.get(..2) {
        Some(b"VA" | b"HD" | b"ME") => Outcome::Found,
        Some(b"EN" | b"NF") => Outcome::NotFound,
        Some(b"NS") => Outcome::NotStored,
        Some(b"EX") => Outcome::Exists,
        _ => failure(line).unwrap_or(Outcome::RemoteError),
    };
    let flags = line.split(|byte| *byte == b' ').skip(2).find_map(|flag| flag.strip_prefix(b"f"));
    let flags = flags.and_then(number_from).map(|flags| flags as u32);
    let item = flags.zip(value).map(|(flags, value)| Item { flags, value });
    // A value that is not accompanied by flags is still the client's.
    let block = value.unwrap_or_default();
    Answer { item, line, block, ..Answer::of(outcome) }
}
