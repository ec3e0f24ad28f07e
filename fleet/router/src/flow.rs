//! The two ends of a worker's requests: servers, and clients who wait.

use crate::calls::{Calls, KeyCount};
use crate::config::Plan;
use crate::counters::{Counters, End, Event};
use crate::failures::Failures;
use crate::render::Form;
use crate::shared::Shared;
use crate::spool::{DeleteLog, Waiting, Written};
use crate::throttle::Throttle;
use crate::ticket::Ticket;
use crate::upstream::{Connections, Destination, GivenUp, Heard, Lost, Server, Undelivered};
use crate::waits::Waits;
use guira_routing::{
    Answer, Arrival, DestinationId, Facts, LogName, Op, Origin, Outcome, Request, Sink, Walks,
};
use guira_serving::{ReplyTo, SlotId, service_token};
use guira_transport::{Interest, Poll};
use guira_upstream::wire::can_be_sent;
use guira_upstream::{HealthOptions, Intake, Tko, host_id, is_busy};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Whether what a server has said makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Understood {
    Yes,
    No,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) calls: Calls,
    pub(crate) counters: Arc<Counters>,
    destinations: Connections,
    health: HealthOptions,
    /// Requests that one server has not answered at most.
    server_requests: usize,
    failures: Failures,
    /// Why a server was last found out of service.
    out: Tko,
    /// Those that were asked something since they were last sent what they are asked.
    dirty: Vec<u32>,
    /// What handles are told of every request.
    pub(crate) facts: Facts,
    /// The time of [`Facts::now_ms`], in microseconds.
    pub(crate) now_us: u64,
    /// No request is given up before.
    deadline_ms: Option<u64>,
    /// Of all servers, unless one is read.
    intake: Option<Intake>,
    random: u32,
    /// Where deletes go that fail.
    log: Option<DeleteLog>,
    waits: Waits,
    throttle: Throttle,
    /// When a shortage on this host was last reported.
    shortage_ms: Option<u64>,
}

/// A shortage on this host is reported no more often.
const SHORTAGE_EVERY_MS: u64 = 10_000;

/// What is told of a delete that has failed and could not be logged.
const NOT_LOGGED: &[u8] = b"the delete could not be logged";

impl Sink for Flow {
    type Ticket = Ticket;

    #[inline]
    fn send(
        &mut self,
        destination: DestinationId,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
    ) -> Result<(), Outcome> {
        let it = &mut self.destinations[destination.0 as usize];
        if !can_be_sent(request) {
            return it.refuse(Outcome::ClientError);
        }
        if let Some(why) = it.out() {
            self.out = why;
            return self.not_sent(Outcome::Tko, destination, request, log, origin);
        }
        if it.is_full() {
            return self.not_sent(Outcome::Busy, destination, request, log, origin);
        }
        if it.is_clean() {
            self.dirty.push(destination.0);
        }
        it.push(request, log, origin, self.facts.now_ms);
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.facts.now_ms
    }

    fn wait(&mut self, ms: u32, origin: Origin<Ticket>) -> Result<(), Outcome> {
        self.waits.add(self.facts.now_ms, ms, origin)?;
        self.counters.add(Event::Delay);
        Ok(())
    }

    #[inline]
    fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        self.counters.answered(answer.outcome);
        if answer.outcome.is_error() {
            let reply = self.failures.reply(self.calls.form(ticket).missing(), answer, self.out);
            return self.calls.answer(ticket, &reply);
        }
        self.calls.answer(ticket, answer);
    }

    fn arrive(&mut self, ticket: Ticket, at: DestinationId, arrival: Arrival) {
        // As in mcrouter, a server that is sent nothing is not the first.
        let it = &self.destinations[at.0 as usize];
        if it.out().is_some() || it.is_full() {
            return;
        }
        let Arrival { pool, asked_ms, wanted } = arrival;
        // The start of an earlier request is known to the millisecond only.
        let asked_us = if asked_ms == self.facts.now_ms { self.now_us } else { asked_ms * 1000 };
        self.calls.arrivals.note(ticket, pool, wanted, asked_us);
    }

    fn answer_counted(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        if let Some((pool, micros)) = self.calls.arrivals.end(ticket, self.now_us) {
            // The reply counts that the client receives: a failed get may be a miss.
            let is_failure = answer.outcome.is_error() && {
                let reply = self.failures.reply(self.calls.form(ticket).missing(), answer, self.out);
                reply.outcome.is_error()
            };
            self.counters.ended(pool, if is_failure { End::Failure } else { End::Success }, micros);
        }
        self.answer(ticket, answer);
    }

    fn refuse(&mut self, ticket: Ticket, why: &Answer<'_>) {
        self.counters.answered(why.outcome);
        self.calls.answer(ticket, &self.failures.no_route(why.outcome));
    }
}

impl Flow {
    pub(crate) fn new(counters: Arc<Counters>, shared: &Shared, log: Option<DeleteLog>) -> Self {
        Flow {
            health: shared.health(),
            server_requests: shared.server_requests(),
            failures: shared.failures(),
            out: Tko::Hard,
            calls: Calls::new(shared.held_replies()),
            counters,
            destinations: Connections::default(),
            dirty: Vec::new(),
            facts: Facts { host: host_id().into(), ..Facts::default() },
            now_us: 0,
            deadline_ms: None,
            intake: Some(Intake::default()),
            random: 1,
            log,
            waits: Waits::default(),
            throttle: shared.throttle(),
            shortage_ms: None,
        }
    }

    /// Goes by another configuration from now on.
    pub(crate) fn adopt(&mut self, plan: &Plan) {
        let (health, most, counters) = (self.health, self.server_requests, &self.counters);
        let new = |server: &Server| Destination::new(server, health, most, counters.clone());
        self.destinations.adopt(plan.servers.list(), plan.claim(), new);
        if let Some(log) = &mut self.log {
            log.take_names(plan.named());
        }
    }

    /// Closes connections to servers that the configuration has no more, once nothing is under way to them.
    pub(crate) fn let_go(&mut self, walks: &Walks<Ticket>, poll: &Poll) {
        if self.destinations.have_left() {
            self.destinations.let_go(|ago| walks.has_requests(ago), poll);
        }
    }

    /// Servers have other addresses than before: what is asked from now on goes there.
    pub(crate) fn relocate(&mut self, servers: &[u32], walks: &mut Walks<Ticket>, poll: &Poll) {
        // What was asked before is sent to where it was meant to go.
        self.flush(walks, poll);
        let known = self.destinations.servers();
        for number in servers.iter().copied().filter(|number| (*number as usize) < known) {
            let it = &mut self.destinations[number as usize];
            if let Some(leaving) = it.relocate(poll, self.facts.now_ms) {
                let left = self.destinations.leave(number, leaving);
                if let Err(error) = self.destinations[left as usize].listen_as(poll, service_token(left)) {
                    self.lose(left, walks, poll, &error);
                }
                self.attend(left);
            }
            if !self.destinations[number as usize].is_clean() {
                self.dirty.push(number);
            }
            self.attend(number);
        }
    }

    /// How many more requests may be under way.
    pub(crate) fn room(&self) -> usize {
        self.throttle.room(self.calls.under_way())
    }

    /// Whether one more client may wait until there is room.
    pub(crate) fn may_wait(&self) -> bool {
        self.throttle.may_wait()
    }

    /// A client waits: it is told nothing, in this slot, when there is room.
    pub(crate) fn hold_back(&mut self, client: ReplyTo, slot: SlotId) {
        let call = self.calls.begin(client, slot, Form::Nothing, KeyCount::One);
        self.throttle.hold(self.calls.key(call, b""), client);
        self.counters.add(Event::Held);
    }

    /// Whether there is room for a client that has waited.
    pub(crate) fn is_released(&mut self, client: ReplyTo) -> bool {
        self.throttle.is_released(client)
    }

    /// Lets clients go on that have waited, as many as there is room for. True if there are some.
    pub(crate) fn release(&mut self) -> bool {
        self.throttle.begin_release();
        let mut is_released = false;
        while let Some(ticket) = self.throttle.release(self.calls.under_way()) {
            is_released = true;
            self.counters.add(Event::Released);
            self.calls.answer(ticket, &Answer::of(Outcome::Ok));
        }
        is_released
    }

    /// Listens for what was logged.
    pub(crate) fn listen(&self, poll: &Poll, number: u32) -> io::Result<()> {
        match &self.log {
            Some(log) => poll.add(log.mailbox(), service_token(number), Interest::Read),
            None => Ok(()),
        }
    }

    /// A request cannot be sent. A delete is answered when it is logged, or could not be.
    #[cold]
    fn not_sent(
        &mut self,
        why: Outcome,
        destination: DestinationId,
        request: &Request<'_>,
        name: Option<LogName>,
        origin: Origin<Ticket>,
    ) -> Result<(), Outcome> {
        if let (Op::Delete, Some(name), Some(log)) = (request.op, name, &mut self.log)
            && let Some(delete) = Undelivered::of(request, name)
        {
            log.take(destination, delete, origin, why);
            return Ok(());
        }
        self.destinations[destination.0 as usize].refuse(why)
    }

    /// A request has failed: a delete is answered when it is logged, or could not be, and others at once.
    fn forgo(&mut self, number: u32, lost: Lost, answer: &Answer<'_>, walks: &mut Walks<Ticket>) {
        let Lost { origin, delete } = lost;
        let server = DestinationId(self.destinations.server_of(number));
        match (delete, &mut self.log) {
            (Some(delete), Some(log)) => log.take(server, delete, origin, answer.outcome),
            _ => walks.answer(origin, &Answer { server: Some(server), ..*answer }, self),
        }
    }

    /// Answers deletes that were logged, or could not be.
    pub(crate) fn answer_logged(&mut self, walks: &mut Walks<Ticket>) {
        let settled = self.log.as_mut().map(DeleteLog::settled).unwrap_or_default();
        for (Waiting { origin, why, reply }, written) in settled {
            let answer = match written {
                Written::Yes => Answer { line: &reply, ..Answer::of(Outcome::NotFound) },
                Written::No => Answer { line: NOT_LOGGED, ..Answer::of(why) },
            };
            walks.answer(origin, &answer, self);
        }
    }

    /// A server has something to say.
    pub(crate) fn hear(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        let it = &mut self.destinations[number as usize];
        let mut intake = it.take_intake(&mut self.intake);
        let result = it.read(poll, service_token(number), self.facts.now_ms, &mut intake);
        let understood = self.understand(number, walks, &mut intake);
        let it = &mut self.destinations[number as usize];
        it.keep_intake(intake, &mut self.intake);
        it.tidy();
        it.end_replies(self.now_us);
        if it.has_asked() {
            self.dirty.push(number);
        }
        match result.map(|()| understood) {
            Ok(Understood::Yes) => {}
            Ok(Understood::No) => {
                self.destinations[number as usize].note_nonsense(self.facts.now_ms);
                self.close(number, walks, poll, Outcome::RemoteError);
            }
            Err(error) => self.lose(number, walks, poll, &error),
        }
    }

    /// Deals with the replies that have come from a server.
    fn understand(&mut self, number: u32, walks: &mut Walks<Ticket>, intake: &mut Intake) -> Understood {
        let mut at = 0;
        let input = intake.input();
        let (understood, wanted) = loop {
            let Flow { destinations, calls, counters, .. } = self;
            at += destinations[number as usize].items(&input[at..], |ticket, value| {
                counters.answered(Outcome::Found);
                calls.item(ticket, value);
            });
            match self.destinations[number as usize].next(&input[at..]) {
                Heard::Answer(origin, mut answer, taken) => {
                    // Only route handles read the server of a reply.
                    if let Origin::Frame { .. } = origin {
                        let server = self.destinations.server_of(number);
                        answer.server = Some(DestinationId(server));
                    }
                    walks.answer(origin, &answer, self);
                    at += taken;
                }
                Heard::Failed(lost, answer, taken) => {
                    self.forgo(number, lost, &answer, walks);
                    at += taken;
                }
                Heard::Nothing(taken) => at += taken,
                Heard::Silence(wanted) => break (Understood::Yes, wanted),
                Heard::Garbage => break (Understood::No, 0),
            }
        };
        intake.taken(at, wanted);
        understood
    }

    /// The system has said that a connection is of no use.
    fn lose(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, error: &io::Error) {
        let it = &self.destinations[number as usize];
        if it.is_reached() {
            return self.fail(number, walks, poll, Outcome::RemoteError);
        }
        if is_busy(error) {
            self.report_shortage(number, error);
            return self.close(number, walks, poll, Outcome::Busy);
        }
        self.fail(number, walks, poll, Outcome::ConnectError);
    }

    /// Reports, once in a while, that connections to servers fail for a reason of this host.
    fn report_shortage(&mut self, number: u32, error: &io::Error) {
        self.counters.add(Event::Shortage);
        let is_due = self.shortage_ms.is_none_or(|then| self.facts.now_ms >= then + SHORTAGE_EVERY_MS);
        // A server at a UNIX socket that has not accepted others yet is busy itself.
        if is_due && error.kind() != io::ErrorKind::WouldBlock {
            self.shortage_ms = Some(self.facts.now_ms);
            let server = self.destinations[number as usize].address().map(tracing::field::display);
            // Operator: Raise the limit of open files, or `net.ipv4.ip_local_port_range`. The server is
            // not marked as failed for it.
            tracing::warn!(
                server,
                %error,
                "cannot connect to a server because this host is out of descriptors, ports or memory: \
                     raise the limit of open files or the range of local ports"
            );
        }
    }

    /// A connection is of no use, and its server may be out.
    fn fail(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        self.destinations[number as usize].note_failure(self.facts.now_ms);
        self.close(number, walks, poll, why);
    }

    /// Closes a connection: whoever waits for its answers is told.
    fn close(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        let it = &mut self.destinations[number as usize];
        let all = it.fail(poll, why);
        if !it.is_clean() {
            self.dirty.push(number);
        }
        self.attend(number);
        for lost in all {
            self.forgo(number, lost, &Answer::of(why), walks);
        }
    }

    /// A destination's deadline may have changed.
    fn attend(&mut self, number: u32) {
        let deadline = self.destinations[number as usize].deadline(self.facts.now_ms);
        self.deadline_ms = self.deadline_ms.into_iter().chain(deadline).min();
    }

    /// So much time has passed since the worker started.
    pub(crate) fn look_at_clock(&mut self, time: Duration) {
        self.now_us = time.as_micros() as u64;
        self.facts.now_ms = self.now_us / 1000;
    }

    /// Whether a server was asked something that was not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether servers and the log owe nobody an answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.destinations.iter().all(Destination::is_idle) && self.log.as_ref().is_none_or(DeleteLog::is_idle)
    }

    /// Sends servers what they are asked, and the log what has failed.
    pub(crate) fn flush(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut next = 0;
        while let Some(number) = self.dirty.get(next).copied() {
            next += 1;
            let it = &mut self.destinations[number as usize];
            match it.flush(poll, service_token(number), self.now_us) {
                Ok(()) => self.attend(number),
                Err(error) => self.lose(number, walks, poll, &error),
            }
        }
        self.dirty.clear();
        if let Some(log) = &mut self.log {
            log.end_round();
        }
    }

    /// Gives up what has waited for too long, and asks servers whether they are back.
    pub(crate) fn give_up(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        if self.deadline_ms.is_none_or(|deadline| self.facts.now_ms < deadline) {
            return;
        }
        for number in self.destinations.numbers() {
            self.give_up_of(number, walks, poll);
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let it = &mut self.destinations[number as usize];
            it.close_idle(poll, self.facts.now_ms);
            let was_clean = it.is_clean();
            if it.probe(self.facts.now_ms, self.random >> 8) && was_clean {
                self.dirty.push(number);
            }
        }
        self.destinations.tidy();
        let now_ms = self.facts.now_ms;
        self.deadline_ms = self.destinations.iter().filter_map(|it| it.deadline(now_ms)).min();
    }

    fn give_up_of(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        while let Some(given_up) = self.destinations[number as usize].give_up(self.facts.now_ms) {
            match given_up {
                GivenUp::Request(lost) => self.forgo(number, lost, &Answer::of(Outcome::Timeout), walks),
                GivenUp::Unreachable(lost) => {
                    self.forgo(number, lost, &Answer::of(Outcome::ConnectTimeout), walks);
                    return self.close(number, walks, poll, Outcome::ConnectTimeout);
                }
                GivenUp::Stuck(lost) => {
                    self.forgo(number, lost, &Answer::of(Outcome::Timeout), walks);
                    return self.fail(number, walks, poll, Outcome::Timeout);
                }
            }
        }
    }

    /// Tells handles that have waited for a time that it is over.
    pub(crate) fn wake(&mut self, walks: &mut Walks<Ticket>) {
        while let Some(origin) = self.waits.due(self.facts.now_ms) {
            walks.answer(origin, &Answer::of(Outcome::Ok), self);
        }
    }

    /// Milliseconds until something may have to be given up, or a handle is to be told that its time is over.
    pub(crate) fn patience_ms(&self) -> Option<u64> {
        let next = self.deadline_ms.into_iter().chain(self.waits.next_ms()).min();
        next.map(|deadline| deadline.saturating_sub(self.facts.now_ms))
    }
}

#[cfg(test)]
mod tests;
