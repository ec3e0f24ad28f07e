//! One server: what it was asked, in order, and the connection over which it answers.

use super::health_monitor::HealthMonitor;
use super::meter::{Meter, ServerCount, State};
use super::{Server, Undelivered};
use crate::counters::Counters;
use crate::ticket::Ticket;
use guira_routing::{Answer, Dialect, Group, LogName, Op, Origin, Outcome, Request};
use guira_transport::{Address, Interest, Poll, Progress, Token};
use guira_upstream::{HealthOptions, Intake, Link, LinkOptions, Stage, Tko, wire};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

mod hear;
mod leases;
mod relocate;
mod timing;

use leases::Lessor;

/// A server and what it was asked.
#[derive(Debug)]
pub(crate) struct Destination {
    link: Link,
    timeout_ms: u32,
    health: HealthMonitor,
    /// Idle time after which the connection is closed; 0 is never.
    inactive_ms: u64,
    most: usize,
    meter: Arc<Meter>,
    counters: Arc<Counters>,
    /// A probe has no reply yet.
    is_probed: bool,
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
    /// Bytes of a value that are still to be passed over.
    passed_over: u64,
    /// What was read and is no whole reply, if there is something.
    rest: Intake,
    /// When it was last asked something.
    used_ms: u64,
    /// When it was last seen in the middle of long replies.
    delivered_ms: u32,
    /// Requests that the server was offered by [`Self::flush`], sent or not.
    offered: u64,
    /// How many requests there were when the last of them was sent.
    flushed: u64,
    /// The request whose reply is timed.
    timed: Option<Timed>,
    lessor: Lessor,
}

/// What the connection brings next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The reply to the first that is expected.
    Reply,
    /// The end of a get of which all keys have been answered.
    End,
    /// What is left of a value that is not taken.
    RestOfValue(AfterValue),
    /// Nobody knows: the server may have taken a data block for requests.
    Unknown,
}

/// What comes behind a value that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterValue {
    Reply,
    End,
}

/// The request whose reply is timed: one at a time, so that the time costs nothing for each request.
#[derive(Clone, Copy, Debug)]
struct Timed {
    /// How many requests came before it.
    number: u64,
    since_us: u64,
    group: Group,
}

/// A reply that has to come.
#[derive(Clone, Copy, Debug)]
struct Expected {
    origin: Origin<Ticket>,
    /// Where its key is, or the delete that it is, among all bytes that were ever asked.
    at: u64,
    /// So many bytes before it the request begins.
    back: u32,
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
    Probe,
    Lease(leases::Asked),
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

/// A server that so many bytes have come from at once is in the middle of long replies, and not slow.
const DELIVERY: usize = 16 << 10;
/// Keys of different clients that are asked for together …
const KEYS_MAX: u32 = 64;
/// … and bytes of their line, so that it is one segment.
const LINE_MAX: usize = 1300;
/// Bytes that were answered and are kept in front of the others.
const KEPT_MAX: usize = 64 << 10;
/// Bytes that a server may be asked without having answered: whatever comes beyond is refused.
const WIRE_MAX: usize = 16 << 20;
/// Bytes of a TLS record.
const RECORD_MAX: usize = 16 << 10;
/// A connection over which so many requests in a row were not answered in time is given up.
const GIVEN_UP_MAX: u32 = 3;

/// How many of the `available` bytes from `from` on one write over TLS takes: as many whole requests as one record has room for, or a single
/// one that needs several. What stands behind a data block in the same record is not seen by memcached (1.6.18 at least) until more is sent.
fn record_length(expected: &VecDeque<Expected>, from: u64, available: usize) -> usize {
    let next = expected.partition_point(|expected| expected.begin() <= from);
    let begins = next.checked_sub(1).is_some_and(|last| expected[last].begin() == from);
    let places = expected.iter().skip(next).map(|expected| (expected.begin() - from) as usize);
    let mut ends = places.take_while(|end| *end < available).chain([available]);
    let first = ends.next().unwrap_or(available);
    if !begins || first > RECORD_MAX {
        return first;
    }
    ends.take_while(|end| *end <= RECORD_MAX).last().unwrap_or(first)
}

/// What a server has said.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// The answer to what was asked for `origin`, and how much of the input is dealt with.
    Answer(Origin<Ticket>, Answer<'a>, usize),
    /// A delete that the server has not carried out, and what it says.
    Failed(Lost, Answer<'a>, usize),
    /// Nothing that somebody waits for.
    Nothing(usize),
    /// No more replies: the next has so many bytes, as far as is known.
    Silence(usize),
    /// Nothing that makes sense.
    Garbage,
}

/// Whether somebody waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Yes,
    No,
}

/// A request whose reply is not waited for any more.
#[derive(Debug)]
pub(crate) enum GivenUp {
    Request(Lost),
    /// The server cannot be connected to, which is noted: nothing is answered.
    Unreachable(Lost),
    /// The connection is of no use: it brings nothing, or takes nothing.
    Stuck(Lost),
}

/// A request that has failed.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) origin: Origin<Ticket>,
    /// If it is a delete, and may be logged.
    pub(crate) delete: Option<Undelivered>,
}

impl Destination {
    /// More than `most` requests are not under way at once.
    pub(crate) fn new(server: &Server, health: HealthOptions, most: usize, counters: Arc<Counters>) -> Self {
        let meter = server.meter(counters.worker());
        let link = LinkOptions {
            secure: server.secure.clone(),
            service: server.service,
            keepalive: server.keepalive,
            connect_timeout_ms: server.connect_timeout_ms,
        };
        Destination {
            link: Link::new(&server.addresses, link),
            timeout_ms: server.timeout_ms,
            health: HealthMonitor::new(server.health.clone(), health),
            inactive_ms: health.inactive_after.as_millis() as u64,
            flushed: meter.pushed(),
            offered: meter.pushed(),
            meter,
            counters,
            most,
            is_probed: false,
            wire: Vec::new(),
            sent: 0,
            before: 0,
            expected: VecDeque::new(),
            dead: 0,
            open: None,
            given_up: 0,
            next: Next::Reply,
            passed_over: 0,
            rest: Intake::default(),
            used_ms: 0,
            delivered_ms: 0,
            timed: None,
            lessor: Lessor::new(server.leases),
        }
    }

    /// Why it is sent no requests, if it is not.
    #[inline]
    pub(crate) fn out(&self) -> Option<Tko> {
        self.health.tko()
    }

    /// A request is not sent, for this reason.
    pub(crate) fn refuse(&self, why: Outcome) -> Result<(), Outcome> {
        self.meter.ended(why, 1);
        Err(why)
    }

    /// Where it is connected to.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.link.address()
    }

    /// Whether there is a connection that the server has accepted.
    pub(crate) fn is_reached(&self) -> bool {
        self.link.is_accepted()
    }

    /// Whether it takes no more requests for now.
    pub(crate) fn is_full(&self) -> bool {
        self.wire.len() > WIRE_MAX || self.expected.len() - self.dead >= self.most
    }

    /// Appends a request. A get is put behind the keys of the one before it, if that was not sent.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        let is_get = matches!(request.op, Op::Get | Op::Gets) && request.dialect == Dialect::Classic;
        let (kind, begin) = if is_get {
            (Kind::Key, self.push_get(request))
        } else {
            self.close_get();
            self.ask_first(request, now_ms);
            let begin = self.wire.len();
            (self.write(request), begin)
        };
        // The key of a get is the last word of the wire; those of others are not looked at.
        let from = match kind {
            Kind::Key => self.wire.len() - request.key.len(),
            Kind::LastKey => self.wire.len() - request.key.len() - 2,
            _ => begin,
        };
        self.expect(origin, (begin, from), (request.key.len() as u8, kind, log), now_ms);
        self.meter.add(ServerCount::Requests, 1);
    }

    /// Appends a request that is no get.
    fn write(&mut self, request: &Request<'_>) -> Kind {
        let kind = match (request.dialect, request.op) {
            (dialect, Op::Delete) => Kind::Delete(dialect),
            (Dialect::Meta, op) => Kind::Meta(op),
            (_, Op::LeaseGet | Op::LeaseSet) => return self.lessor.write(request, &mut self.wire),
            (_, Op::Gat | Op::Gats) => Kind::LastKey,
            (_, op) => Kind::Line(op),
        };
        wire::write(request, &mut self.wire);
        kind
    }

    #[inline]
    fn expect(
        &mut self,
        origin: Origin<Ticket>,
        (begin, from): (usize, usize),
        (length, kind, log): (u8, Kind, Option<LogName>),
        now_ms: u64,
    ) {
        let (at, back) = (self.before + from as u64, (from - begin) as u32);
        self.used_ms = now_ms;
        self.expected.push_back(Expected { origin, at, back, length, kind, asked_ms: now_ms as u32, log });
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

    /// All that was asked is on its way.
    #[cfg(any(test, feature = "laws"))]
    pub(super) fn pretend_to_send(&mut self) {
        self.close_get();
        (self.sent, self.flushed) = (self.wire.len(), self.pushed());
    }

    fn push_probe(&mut self, now_ms: u64) {
        self.close_get();
        let begin = self.wire.len();
        self.wire.extend_from_slice(b"version\r\n");
        self.expect(Origin::Nobody, (begin, begin), (0, Kind::Probe, None), now_ms);
        self.is_probed = true;
        self.meter.add(ServerCount::Probes, 1);
    }

    /// Sends what was asked since the last time; connects first, if need be.
    ///
    /// # Errors
    /// What the system says: the connection is of no use.
    pub(crate) fn flush(&mut self, poll: &Poll, token: Token, now_us: u64) -> io::Result<()> {
        self.begin_waiting(now_us);
        self.begin_timing(now_us);
        if self.link.is_closed() {
            self.link.start_attempt(now_us / 1000);
        }
        self.go_on(poll, token)
    }

    fn go_on(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        self.close_get();
        let result = self.send(poll, token);
        if self.sent == self.wire.len() {
            self.flushed = self.pushed();
        }
        self.show_outstanding();
        result
    }

    fn send(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        if self.sent == self.wire.len() {
            return Ok(());
        }
        if self.link.is_closed() {
            self.link.connect(poll, token)?;
        }
        if !self.link.is_up() {
            return Ok(());
        }
        let limit = self.lessor.end_of(self.wire.len(), self.before);
        while self.sent < limit {
            // Values of leases that the server has not proved to know lie behind the limit: no record can be cut from there.
            let mut ready = &self.wire[self.sent..limit];
            if self.link.is_secure() {
                ready = &ready[..record_length(&self.expected, self.before + self.sent as u64, ready.len())];
            }
            match self.link.write(ready)? {
                Progress::Moved(bytes) => {
                    self.sent += bytes;
                    self.meter.add(ServerCount::Writes, 1);
                    self.meter.add(ServerCount::BytesSent, bytes as u64);
                }
                Progress::Blocked => return self.link.set_interest(poll, token, Interest::ReadWrite),
                Progress::Ended => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        self.link.set_interest(poll, token, Interest::Read)
    }

    /// Something has happened to the socket: reads what there is into `intake`.
    ///
    /// # Errors
    /// What the system says: the connection is of no use.
    pub(crate) fn read(
        &mut self,
        poll: &Poll,
        token: Token,
        now_ms: u64,
        intake: &mut Intake,
    ) -> io::Result<()> {
        if self.link.is_connecting() {
            return self.begin(poll, token);
        }
        if self.link.polls_writes() {
            self.go_on(poll, token)?;
        }
        if !self.link.is_up() {
            return Ok(());
        }
        let progress = self.link.read(intake.space());
        if self.link.is_secure() {
            self.tend(&progress, poll, token)?;
        }
        match progress? {
            Progress::Moved(bytes) => {
                self.meter.add(ServerCount::BytesReceived, bytes as u64);
                intake.filled(bytes);
                self.note_delivery(bytes, now_ms);
            }
            Progress::Blocked => {}
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// Goes on connecting, and sends what was asked meanwhile.
    #[cold]
    fn begin(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        match self.link.advance() {
            Ok(Stage::Connecting) => self.link.set_interest(poll, token, Interest::Read),
            Ok(Stage::Up) => {
                self.meter.set_state(State::Up);
                self.meter.add(ServerCount::Opened, 1);
                self.go_on(poll, token)
            }
            Err(error) => {
                self.log_refusal(&error);
                if self.link.try_next_address() { self.go_on(poll, token) } else { Err(error) }
            }
        }
    }

    /// After a read over TLS, which may have sent something, or have more than it has given.
    fn tend(&mut self, progress: &io::Result<Progress>, poll: &Poll, token: Token) -> io::Result<()> {
        if let Err(error) = progress {
            self.log_refusal(error);
        }
        let rest = if self.is_clean() { Interest::Read } else { Interest::ReadWrite };
        self.link.set_interest(poll, token, rest)
    }

    /// Says once why there is no TLS with a server: clients are told only that they cannot have it.
    fn log_refusal(&self, error: &io::Error) {
        if self.link.is_handshake_unproven() && self.health.is_up() {
            // Operator: Check the server's certificate and the router's authorities.
            tracing::warn!(server = self.link.address().map(tracing::field::display), %error, "TLS handshake with a server failed");
        }
    }

    /// Where it is read to, behind what was kept.
    pub(crate) fn take_intake(&mut self, shared: &mut Option<Intake>) -> Intake {
        Intake::lent(&mut self.rest, shared)
    }

    /// Keeps what is no whole reply until more comes, and gives the buffer back if it is that of all.
    pub(crate) fn keep_intake(&mut self, intake: Intake, shared: &mut Option<Intake>) {
        intake.keep(&mut self.rest, shared);
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
        let answered = ((first.begin() - self.before) as usize).min(self.sent);
        if answered > KEPT_MAX && answered > self.wire.len() / 2 {
            self.forget(answered);
        }
    }

    /// When something is to be given up, or to be asked.
    pub(crate) fn deadline(&self, now_ms: u64) -> Option<u64> {
        let oldest = self.expected.get(self.dead).map(|oldest| {
            now_ms + u64::from(self.patience_ms().saturating_sub(self.waited_ms(oldest, now_ms)))
        });
        oldest.into_iter().chain(self.health.next_probe_ms()).chain(self.is_idle_from()).min()
    }

    /// When its connection is closed, whose answers nobody waits for. Those to requests that were given up may never come.
    fn is_idle_from(&self) -> Option<u64> {
        let may_idle = self.inactive_ms > 0 && self.link.is_up() && self.expected.len() == self.dead;
        may_idle.then(|| self.used_ms + self.inactive_ms)
    }

    /// Closes its connection if it was not used for too long.
    pub(crate) fn close_idle(&mut self, poll: &Poll, now_ms: u64) {
        if self.is_idle_from().is_some_and(|from| now_ms >= from) {
            let waiting = self.fail(poll, Outcome::RemoteError);
            debug_assert!(waiting.is_empty(), "no request waits");
            self.meter.set_state(State::Closed);
        }
    }

    /// Whether it has nothing to send.
    pub(crate) fn is_clean(&self) -> bool {
        self.sent == self.wire.len()
    }

    /// Whether it owes nobody an answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.expected.iter().skip(self.dead).all(|expected| expected.kind == Kind::Probe)
    }

    /// The oldest request, if it has waited for too long. Its reply is dropped if it comes after all.
    pub(crate) fn give_up(&mut self, now_ms: u64) -> Option<GivenUp> {
        let patience_ms = self.patience_ms();
        let number = self.pushed() - self.expected.len() as u64 + self.dead as u64;
        let oldest = *self.expected.get(self.dead)?;
        if self.waited_ms(&oldest, now_ms) < patience_ms {
            return None;
        }
        let lost = self.lost(&oldest);
        self.dead += 1;
        let is_probe = oldest.kind.is_own();
        let was_sent = oldest.begin() < self.before + self.sent as u64;
        self.given_up += 1;
        self.show_outstanding();
        if self.timed.is_some_and(|timed| timed.number == number) {
            self.end_timing(now_ms * 1000);
        }
        if self.link.is_connecting() {
            if self.link.is_handshaking() {
                self.log_refusal(&io::Error::new(io::ErrorKind::TimedOut, "timeout of the handshake"));
            }
            if !self.link.try_next_address() {
                self.record_hard_failure(now_ms);
            }
            if !is_probe {
                self.meter.ended(Outcome::ConnectTimeout, 1);
            }
            return Some(GivenUp::Unreachable(lost));
        }
        self.record_soft_failure(now_ms);
        if !is_probe {
            self.meter.ended(Outcome::Timeout, 1);
        }
        let is_stuck = is_probe || !was_sent || self.given_up >= GIVEN_UP_MAX;
        Some(if is_stuck { GivenUp::Stuck(lost) } else { GivenUp::Request(lost) })
    }

    /// The connection has failed.
    pub(crate) fn note_failure(&mut self, now_ms: u64) {
        // One that was up is tried again, with the next request, and so is one that has more addresses.
        if !self.is_reached() && !self.link.has_untried_addresses() {
            // The attempt fails, and each request that waits for it, as in mcrouter.
            let waiting = self.expected.iter().skip(self.dead).filter(|expected| !expected.kind.is_own());
            for _ in 0..=waiting.count() {
                self.record_hard_failure(now_ms);
            }
        }
    }

    /// It has said what makes no sense: one that goes on so is sent nothing any more, as one that is silent.
    #[cold]
    pub(crate) fn note_nonsense(&mut self, now_ms: u64) {
        self.record_soft_failure(now_ms);
    }

    fn record_soft_failure(&mut self, now_ms: u64) {
        let tko = self.health.record_soft_failure(now_ms);
        self.count_tko(tko);
    }

    fn record_hard_failure(&mut self, now_ms: u64) {
        let tko = self.health.record_hard_failure(now_ms);
        self.count_tko(tko);
    }

    fn count_tko(&self, tko: Option<Tko>) {
        match tko {
            Some(Tko::Soft) => self.meter.add(ServerCount::SoftTkos, 1),
            Some(Tko::Hard) => self.meter.add(ServerCount::HardTkos, 1),
            None => {}
        }
    }

    /// Pushes a probe if one is due and none is outstanding. True if it was pushed.
    pub(crate) fn probe(&mut self, now_ms: u64, random: u32) -> bool {
        let is_pushed = self.health.is_probe_due(now_ms, random) && !self.is_probed;
        if is_pushed {
            self.push_probe(now_ms);
        }
        is_pushed
    }

    /// Closes the connection, for this reason. Returns the requests that are not answered any more. If it was up, what was not
    /// sent is sent over the next one.
    pub(crate) fn fail(&mut self, poll: &Poll, why: Outcome) -> Vec<Lost> {
        let was_up = self.link.is_up();
        if was_up {
            self.meter.add(ServerCount::Closed, 1);
        }
        self.meter.set_state(State::Down);
        self.link.close(poll);
        let sent = self.before + self.sent as u64;
        // Whether the next connection leads to a server that knows leases is not known yet.
        let is_kept = was_up && !self.has_unsent_lease();
        let is_lost = |expected: &Expected| !is_kept || expected.begin() < sent;
        // Who was given up has been answered. The others that are lost come before those that were not sent.
        let lost = self.expected.iter().skip(self.dead).take_while(|expected| is_lost(expected));
        let requests = lost.clone().filter(|expected| !expected.kind.is_own()).count();
        self.meter.ended(why, requests as u64);
        let all: Vec<_> = lost.map(|expected| self.lost(expected)).collect();
        let kept = self.expected.get(self.dead + all.len()).map(Expected::begin);
        // A key that was given up is asked for with the others of its get.
        while self.expected.front().is_some_and(|first| kept.is_none_or(|kept| first.begin() < kept)) {
            self.expected.pop_front();
            self.dead = self.dead.saturating_sub(1);
        }
        self.lessor.forget_server();
        self.forget(kept.map_or(self.wire.len(), |kept| (kept - self.before) as usize));
        self.is_probed = self.expected.iter().any(|expected| expected.kind == Kind::Probe);
        self.rest = Intake::default();
        (self.sent, self.given_up, self.next) = (0, 0, Next::Reply);
        (self.flushed, self.timed) = (self.pushed() - self.expected.len() as u64, None);
        self.show_outstanding();
        all
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

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(places: &[u64]) -> VecDeque<Expected> {
        let one = |at: &u64| Expected {
            origin: Origin::Nobody,
            at: *at,
            back: 0,
            length: 0,
            kind: Kind::Probe,
            asked_ms: 0,
            log: None,
        };
        places.iter().map(one).collect()
    }

    #[test]
    fn a_record_ends_behind_whole_requests_and_never_past_what_is_available() {
        let leases = expected(&[0, 29, 10_269, 20_509]);
        for (from, available, length) in [
            (0, 29, 29),
            (0, 30_749, 10_269),
            (29, 30_720, 10_240),
            (100, 30_649, 10_169),
            (20_509, 10_240, 10_240),
        ] {
            assert_eq!(record_length(&leases, from, available), length, "{from} {available}");
        }
        assert_eq!(record_length(&expected(&[0, 40_000]), 0, 50_000), 40_000);
    }
}
