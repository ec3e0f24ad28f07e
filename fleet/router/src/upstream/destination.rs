//! One server: what it was asked, in order, and the connection over which it answers.

use super::health::{Prober, Probes, Standing};
use super::reply::{self, Read, Reply};
use super::{Intake, Server, answers, wire};
use crate::flow::Ticket;
use crate::running::Health;
use guira_routing::{Answer, Dialect, Group, Op, Origin, Outcome, Request};
use guira_transport::{Address, Interest, Poll, Progress, Stream, Token};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A server and what it was asked.
#[derive(Debug)]
pub(crate) struct Destination {
    address: Address,
    timeout_ms: u32,
    connect_timeout_ms: u32,
    standing: Arc<Standing>,
    health: Health,
    most: usize,
    /// This worker asks whether it is back …
    probes: Option<Probes>,
    /// … and waits for the answer.
    is_probed: bool,
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
    /// Requests in a row that were given up since the connection has last brought a reply in time.
    given_up: u32,
    next: Next,
    /// What was read and is no whole reply, if there is something.
    rest: Intake,
    interest: Interest,
    /// When it was last asked something.
    used_ms: u64,
}

#[derive(Debug)]
enum Link {
    Closed,
    Connecting(Stream),
    Up(Stream),
}

/// What the connection brings next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The reply to the first that is expected.
    Reply,
    /// The end of a get of which all keys have been answered.
    End,
    /// Nobody knows: the server may have taken a data block for requests.
    Unknown,
}

/// A reply that has to come.
#[derive(Clone, Copy, Debug)]
struct Expected {
    origin: Origin<Ticket>,
    /// Where its key is, among all bytes that were ever asked.
    at: u64,
    /// So many bytes before it the request begins.
    back: u32,
    length: u8,
    kind: Kind,
    asked_ms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A key of a get, and others behind it.
    Key,
    LastKey,
    Line(Op),
    Meta(Op),
    Probe,
}

impl Expected {
    /// Where its request begins.
    fn begin(&self) -> u64 {
        self.at - u64::from(self.back)
    }
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
const WIRE_MAX: usize = 16 << 20;
/// A connection over which so many requests in a row were not answered in time is given up.
const GIVEN_UP_MAX: u32 = 3;

/// What a server has said.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// The answer to what was asked for `origin`, and how much of the input is dealt with.
    Answer(Origin<Ticket>, Answer<'a>, usize),
    /// Nothing that somebody waits for.
    Nothing(usize),
    /// No more replies: the next has so many bytes, as far as is known.
    Silence(usize),
    /// Nothing that makes sense.
    Garbage,
}

/// A request whose reply is not waited for any more.
#[derive(Debug)]
pub(crate) enum GivenUp {
    Request(Origin<Ticket>),
    /// The server cannot be connected to: nothing is answered.
    Unreachable(Origin<Ticket>),
    /// The connection is of no use: it brings nothing, or takes nothing.
    Stuck(Origin<Ticket>),
}

impl Destination {
    /// More than `most` requests are not under way at once.
    pub(crate) fn new(server: &Server, health: Health, most: usize) -> Self {
        Destination {
            address: server.address.clone(),
            timeout_ms: server.timeout_ms,
            connect_timeout_ms: server.connect_timeout_ms,
            standing: server.standing.clone(),
            health,
            most,
            probes: None,
            is_probed: false,
            link: Link::Closed,
            wire: Vec::new(),
            sent: 0,
            before: 0,
            expected: VecDeque::new(),
            dead: 0,
            open: None,
            given_up: 0,
            next: Next::Reply,
            rest: Intake::default(),
            interest: Interest::Read,
            used_ms: 0,
        }
    }

    /// Whether it is sent requests.
    #[inline]
    pub(crate) fn is_in(&self) -> bool {
        self.standing.is_in()
    }

    /// Whether there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Whether it takes no more requests for now.
    pub(crate) fn is_full(&self) -> bool {
        self.wire.len() > WIRE_MAX || self.expected.len() - self.dead >= self.most
    }

    /// Appends a request. A get is put behind the keys of the one before it, if that was not sent.
    #[inline]
    pub(crate) fn push(&mut self, request: &Request<'_>, origin: Origin<Ticket>, now_ms: u64) {
        let is_get = matches!(request.op, Op::Get | Op::Gets) && request.dialect == Dialect::Classic;
        let (kind, begin) = if is_get {
            (Kind::Key, self.push_get(request))
        } else {
            self.close_get();
            let begin = self.wire.len();
            wire::write(request, &mut self.wire);
            let kind = match (request.dialect, request.op) {
                (Dialect::Meta, op) => Kind::Meta(op),
                (_, Op::Gat | Op::Gats | Op::LeaseGet) => Kind::LastKey,
                (_, op) => Kind::Line(op),
            };
            (kind, begin)
        };
        // The key of a get is the last word of the wire; those of others are not looked at.
        let from = match kind {
            Kind::Key => self.wire.len() - request.key.len(),
            Kind::LastKey => self.wire.len() - request.key.len() - 2,
            Kind::Line(_) | Kind::Meta(_) | Kind::Probe => begin,
        };
        self.expect(origin, (begin, from), request.key.len() as u8, kind, now_ms);
    }

    #[inline]
    fn expect(
        &mut self,
        origin: Origin<Ticket>,
        (begin, from): (usize, usize),
        length: u8,
        kind: Kind,
        now_ms: u64,
    ) {
        let (at, back) = (self.before + from as u64, (from - begin) as u32);
        self.used_ms = now_ms;
        self.expected.push_back(Expected { origin, at, back, length, kind, asked_ms: now_ms as u32 });
    }

    /// Appends the key of a get. Returns where the line begins that has it.
    #[inline]
    fn push_get(&mut self, request: &Request<'_>) -> usize {
        match &mut self.open {
            // The uniques that a gets brings harm nobody who has not asked for them.
            Some(open)
                if open.keys < KEYS_MAX
                    && self.wire.len() - open.from + request.key.len() < LINE_MAX
                    && (open.op == request.op || open.op == Op::Gets) =>
            {
                open.keys += 1;
                let from = open.from;
                self.wire.push(b' ');
                self.wire.extend_from_slice(request.key);
                from
            }
            _ => {
                self.close_get();
                let from = self.wire.len();
                self.open = Some(OpenGet { op: request.op, keys: 1, from });
                self.wire.extend_from_slice(if request.op == Op::Get { b"get " } else { b"gets " });
                self.wire.extend_from_slice(request.key);
                from
            }
        }
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
        let begin = self.wire.len();
        self.wire.extend_from_slice(b"version\r\n");
        self.expect(Origin::Nobody, (begin, begin), 0, Kind::Probe, now_ms);
        self.is_probed = true;
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

    /// Something has happened to the socket: reads what there is into `intake`.
    ///
    /// # Errors
    /// What the system says: the connection is of no use.
    pub(crate) fn read(&mut self, poll: &Poll, token: Token, intake: &mut Intake) -> io::Result<()> {
        if let Link::Connecting(_) = self.link {
            self.finish_connecting()?;
            return self.flush(poll, token);
        }
        if self.interest == Interest::ReadWrite {
            self.flush(poll, token)?;
        }
        let Link::Up(stream) = &mut self.link else {
            return Ok(());
        };
        match stream.read(intake.space())? {
            Progress::Moved(bytes) => intake.filled(bytes),
            Progress::Blocked => {}
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
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

    /// What was kept, if there is something: more is read behind it.
    pub(crate) fn take_rest(&mut self) -> Option<Intake> {
        (!self.rest.is_empty()).then(|| std::mem::take(&mut self.rest))
    }

    /// Keeps what is no whole reply until more comes.
    pub(crate) fn keep(&mut self, rest: Intake) {
        self.rest = rest;
    }

    /// The next reply in `input`.
    #[inline]
    pub(crate) fn next<'i>(&mut self, input: &'i [u8]) -> Heard<'i> {
        if self.next == Next::Unknown {
            return Heard::Garbage;
        }
        if input.is_empty() {
            return Heard::Silence(0);
        }
        if self.next == Next::Reply
            && let Some(expected) = self.expected.front().copied()
            && let Kind::Key | Kind::LastKey = expected.kind
            && let Some((value, taken)) = reply::value_of(input, self.key_of(&expected))
        {
            return self.key_found(expected, answers::found(&value), taken);
        }
        match reply::read(input) {
            Read::Reply(reply, taken) => self.next_reply(reply, taken),
            Read::Unfinished(wanted) => Heard::Silence(wanted),
            Read::Broken => Heard::Garbage,
        }
    }

    /// The key of a get, as it was asked for.
    #[inline]
    fn key_of(&self, expected: &Expected) -> &[u8] {
        let at = (expected.at - self.before) as usize;
        &self.wire[at..at + usize::from(expected.length)]
    }

    fn next_reply<'i>(&mut self, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        match self.next {
            Next::Reply => {}
            Next::End => {
                self.next = Next::Reply;
                // An error in place of the end: all keys were answered.
                return match reply {
                    Reply::End => Heard::Nothing(taken),
                    Reply::Line(line) if answers::failed(line).is_some() => Heard::Nothing(taken),
                    _ => Heard::Garbage,
                };
            }
            Next::Unknown => return Heard::Garbage,
        }
        let Some(expected) = self.expected.front().copied() else {
            return Heard::Garbage;
        };
        let answer = match (expected.kind, reply) {
            (Kind::Key | Kind::LastKey, reply) => return self.next_of_get(expected, reply, taken),
            (Kind::Line(op), Reply::Line(line)) => answers::of_line(op, line),
            (Kind::Meta(op), Reply::MetaValue { line, value }) => answers::of_meta(op, line, Some(value)),
            (Kind::Meta(op), Reply::Line(line)) => answers::of_meta(op, line, None),
            (Kind::Probe, reply) => answers::is_of_probe(&reply).then(|| Answer::of(Outcome::Ok)),
            _ => None,
        };
        let Some(answer) = answer else { return Heard::Garbage };
        let (Kind::Line(op) | Kind::Meta(op)) = expected.kind else {
            self.is_probed = false;
            return self.answered(expected, answer, taken);
        };
        if op.group() == Group::Update && answers::is_not_understood(answer.line) {
            self.next = Next::Unknown;
        }
        self.answered(expected, answer, taken)
    }

    fn next_of_get<'i>(&mut self, expected: Expected, reply: Reply<'i>, taken: usize) -> Heard<'i> {
        let is_last = expected.kind == Kind::LastKey;
        let (value, answer) = match reply {
            Reply::Value(value) => (value, answers::found(&value)),
            Reply::Lease(value) => (value, answers::lease(&value)),
            Reply::End => {
                let missing = Answer::of(Outcome::NotFound);
                return self.answered(expected, missing, if is_last { taken } else { 0 });
            }
            Reply::Line(line) => {
                let Some(answer) = answers::failed(line) else { return Heard::Garbage };
                return self.answered(expected, answer, if is_last { taken } else { 0 });
            }
            Reply::MetaValue { .. } => return Heard::Garbage,
        };
        if value.key == self.key_of(&expected) {
            return self.key_found(expected, answer, taken);
        }
        if is_last { Heard::Garbage } else { self.answered(expected, Answer::of(Outcome::NotFound), 0) }
    }

    #[inline]
    fn key_found<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        if expected.kind == Kind::LastKey {
            self.next = Next::End;
        }
        self.answered(expected, answer, taken)
    }

    #[inline]
    fn answered<'i>(&mut self, expected: Expected, answer: Answer<'i>, taken: usize) -> Heard<'i> {
        self.expected.pop_front();
        // Who answers too late is not there.
        if self.dead > 0 {
            self.dead -= 1;
            return Heard::Nothing(taken);
        }
        self.given_up = 0;
        self.standing.heard();
        Heard::Answer(expected.origin, answer, taken)
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
        let answered = ((first.begin() - self.before) as usize).min(self.sent);
        if answered > KEPT_MAX && answered > self.wire.len() / 2 {
            self.forget(answered);
        }
    }

    /// When something is to be given up, or to be asked.
    pub(crate) fn deadline(&self, now_ms: u64) -> Option<u64> {
        let oldest = self.expected.get(self.dead).map(|oldest| {
            let waited = (now_ms as u32).wrapping_sub(oldest.asked_ms);
            now_ms + u64::from(self.patience_ms().saturating_sub(waited))
        });
        let probe = self.probes.map(|probes| probes.next_ms);
        oldest.into_iter().chain(probe).chain(self.is_idle_from()).min()
    }

    /// When its connection, over which nothing is under way, is closed.
    fn is_idle_from(&self) -> Option<u64> {
        let after_ms = self.health.inactive_after.as_millis() as u64;
        let may_idle = after_ms > 0 && self.is_up() && self.expected.is_empty();
        may_idle.then(|| self.used_ms + after_ms)
    }

    /// Whether its connection was not used for so long that it is closed.
    pub(crate) fn is_idle(&self, now_ms: u64) -> bool {
        self.is_idle_from().is_some_and(|from| now_ms >= from)
    }

    /// How long a request waits.
    fn patience_ms(&self) -> u32 {
        match self.link {
            Link::Connecting(_) => self.connect_timeout_ms,
            Link::Closed | Link::Up(_) => self.timeout_ms,
        }
    }

    /// Whether it has nothing to send.
    pub(crate) fn is_clean(&self) -> bool {
        self.sent == self.wire.len()
    }

    /// The oldest request, if it has waited for too long. Its reply is dropped if it comes after all.
    pub(crate) fn give_up(&mut self, now_ms: u64) -> Option<GivenUp> {
        let patience_ms = self.patience_ms();
        let oldest = self.expected.get_mut(self.dead)?;
        if (now_ms as u32).wrapping_sub(oldest.asked_ms) < patience_ms {
            return None;
        }
        self.dead += 1;
        let origin = std::mem::replace(&mut oldest.origin, Origin::Nobody);
        let is_probe = oldest.kind == Kind::Probe;
        let was_sent = oldest.begin() < self.before + self.sent as u64;
        self.given_up += 1;
        if let Link::Connecting(_) = self.link {
            let prober = self.standing.unreachable(&self.health);
            self.put_out(prober, now_ms);
            return Some(GivenUp::Unreachable(origin));
        }
        let prober = self.standing.timed_out(&self.health);
        self.put_out(prober, now_ms);
        let is_stuck = is_probe || !was_sent || self.given_up >= GIVEN_UP_MAX;
        Some(if is_stuck { GivenUp::Stuck(origin) } else { GivenUp::Request(origin) })
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
        let is_asked = !self.is_probed;
        if is_asked {
            self.push_probe(now_ms);
        }
        is_asked
    }

    /// Closes the connection. Returns those who wait for answers, which do not come any more. If it was up, what was not sent is sent over
    /// the next one.
    pub(crate) fn fail(&mut self, poll: &Poll) -> Vec<Origin<Ticket>> {
        let was_up = matches!(self.link, Link::Up(_));
        if let Link::Connecting(stream) | Link::Up(stream) = &self.link {
            // Closing the socket does the same.
            let _ = poll.remove(stream);
        }
        self.link = Link::Closed;
        let sent = self.before + self.sent as u64;
        let is_lost = |expected: &Expected| !was_up || expected.begin() < sent;
        // Who was given up has been answered. The others that are lost come before those that were not sent.
        let lost = self.expected.iter().skip(self.dead).take_while(|expected| is_lost(expected));
        let waiting: Vec<_> = lost.map(|expected| expected.origin).collect();
        let kept = self.expected.get(self.dead + waiting.len()).map(Expected::begin);
        // A key that was given up is asked for with the others of its get.
        while self.expected.front().is_some_and(|first| kept.is_none_or(|kept| first.begin() < kept)) {
            self.expected.pop_front();
            self.dead = self.dead.saturating_sub(1);
        }
        self.forget(kept.map_or(self.wire.len(), |kept| (kept - self.before) as usize));
        self.is_probed = self.expected.iter().any(|expected| expected.kind == Kind::Probe);
        self.rest = Intake::default();
        (self.sent, self.given_up, self.next) = (0, 0, Next::Reply);
        waiting
    }

    /// Forgets the first bytes of what was asked.
    fn forget(&mut self, bytes: usize) {
        self.wire.drain(..bytes);
        self.before += bytes as u64;
        self.sent = self.sent.saturating_sub(bytes);
        match &mut self.open {
            Some(open) if open.from >= bytes => open.from -= bytes,
            open => *open = None,
        }
    }
}
