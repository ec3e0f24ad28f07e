//! The requests of one worker in flight: clients that wait, and servers that reply.

use crate::calls::{Calls, KeyCount};
use crate::config::Plan;
use crate::counters::{Counters, End, Event};
use crate::failures::FailureReplies;
use crate::render::Form;
use crate::schedule::Schedule;
use crate::shared::Shared;
use crate::spool::{DeleteLog, Waiting, Written};
use crate::throttle::Throttle;
use crate::ticket::Ticket;
use crate::upstream::{
    Connections, Destination, DestinationOptions, Expired, FailedRequest, Parsed, ShortageLog, Undelivered,
};
use crate::waits::Waits;
use guira_routing::{
    Answer, Arrival, DestinationId, Facts, LogName, Op, Origin, Outcome, Request, Sink, Walks,
};
use guira_serving::{ReplyTo, SlotId, service_token};
use guira_sync::simulated::{is_planted, sometimes};
use guira_transport::{Interest, Poll};
use guira_upstream::wire::can_be_sent;
use guira_upstream::{Intake, host_id, is_busy};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Whether everything that a server has sent is a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Valid,
    Invalid,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) calls: Calls,
    pub(crate) counters: Arc<Counters>,
    destinations: Connections,
    schedule: Schedule,
    failures: FailureReplies,
    /// Facts that route handles receive with every request.
    pub(crate) facts: Facts,
    /// The time of [`Facts::now_ms`], in microseconds.
    pub(crate) now_us: u64,
    /// The log of deletes that fail.
    log: Option<DeleteLog>,
    waits: Waits,
    throttle: Throttle,
    shortages: ShortageLog,
}

/// The error of a delete that has failed and could not be logged.
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
        let connection = &mut self.destinations[destination.0 as usize];
        if !can_be_sent(request) {
            return connection.refuse(Outcome::ClientError);
        }
        if let Some(why) = connection.tko() {
            self.failures.note_tko(why);
            return self.not_sent(Outcome::Tko, destination, request, log, origin);
        }
        if connection.is_full() {
            return self.not_sent(Outcome::Busy, destination, request, log, origin);
        }
        if connection.is_sent() {
            self.schedule.add_unsent(destination.0);
        }
        connection.push(request, log, origin, self.facts.now_ms);
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
            let reply = self.failures.reply(self.calls.form(ticket).missing(), answer);
            return self.calls.answer(ticket, &reply);
        }
        self.calls.answer(ticket, answer);
    }

    fn arrive(&mut self, ticket: Ticket, at: DestinationId, arrival: Arrival) {
        // As in mcrouter, a server that refuses the request is not the first.
        let connection = &self.destinations[at.0 as usize];
        if connection.tko().is_some() || connection.is_full() {
            return;
        }
        let Arrival { pool, sent_ms, wanted } = arrival;
        // The start of an earlier request is known to the millisecond only.
        let sent_us = if sent_ms == self.facts.now_ms { self.now_us } else { sent_ms * 1000 };
        self.calls.arrivals.note(ticket, pool, wanted, sent_us);
    }

    fn answer_counted(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        if let Some((pool, micros)) = self.calls.arrivals.end(ticket, self.now_us) {
            // The client's reply counts: a failed get may be a miss for it.
            let is_failure = answer.outcome.is_error() && {
                let reply = self.failures.reply(self.calls.form(ticket).missing(), answer);
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
        let options = DestinationOptions {
            health: shared.policies.health,
            requests_max: shared.limits.server_requests(),
            counters: counters.clone(),
        };
        Flow {
            failures: FailureReplies::new(shared.policies.failures),
            calls: Calls::new(shared.limits.held_replies()),
            counters,
            destinations: Connections::new(options),
            schedule: Schedule::default(),
            facts: Facts { host: host_id().into(), ..Facts::default() },
            now_us: 0,
            log,
            waits: Waits::default(),
            throttle: shared.limits.throttle(),
            shortages: ShortageLog::default(),
        }
    }

    pub(crate) fn adopt(&mut self, plan: &Plan) {
        self.destinations.adopt(plan.servers.list(), plan.claim());
        if let Some(log) = &mut self.log {
            log.take_names(plan.named());
        }
    }

    /// Closes connections to servers that have left the configuration, once they have no requests
    /// in flight.
    pub(crate) fn retire_servers(&mut self, walks: &Walks<Ticket>, poll: &Poll) {
        if self.destinations.have_departures() {
            self.destinations.retire(|ago| walks.has_requests(ago), poll);
        }
    }

    /// Servers have new addresses: further requests are sent there.
    pub(crate) fn relocate(&mut self, servers: &[u32], walks: &mut Walks<Ticket>, poll: &Poll) {
        // Earlier requests are sent to the previous addresses.
        self.flush(walks, poll);
        let known = self.destinations.servers();
        for number in servers.iter().copied().filter(|number| (*number as usize) < known) {
            let connection = &mut self.destinations[number as usize];
            if let Some(leaving) = connection.relocate(poll, self.facts.now_ms) {
                let left = self.destinations.leave(number, leaving);
                if let Err(error) = self.destinations[left as usize].set_token(poll, service_token(left)) {
                    self.connection_failed(left, walks, poll, &error);
                }
                self.update_deadline(left);
            }
            if !self.destinations[number as usize].is_sent() {
                self.schedule.add_unsent(number);
            }
            self.update_deadline(number);
        }
    }

    /// How many further requests clients may send.
    pub(crate) fn room(&self) -> usize {
        self.throttle.room(self.calls.under_way())
    }

    /// Whether a further client may wait for room.
    pub(crate) fn may_wait(&self) -> bool {
        self.throttle.may_wait()
    }

    /// Makes a client wait for room. It receives an empty reply in this slot then.
    pub(crate) fn hold_back(&mut self, client: ReplyTo, slot: SlotId) {
        let call = self.calls.begin(client, slot, Form::Nothing, KeyCount::One);
        self.throttle.hold(self.calls.key(call, b""), client);
        self.counters.add(Event::Held);
    }

    /// Whether a client that has waited has room.
    pub(crate) fn is_released(&mut self, client: ReplyTo) -> bool {
        self.throttle.is_released(client)
    }

    /// Releases waiting clients, as far as there is room. True if any were released.
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

    /// Polls for deletes that were logged.
    pub(crate) fn listen(&self, poll: &Poll, number: u32) -> io::Result<()> {
        match &self.log {
            Some(log) => poll.add(log.mailbox(), service_token(number), Interest::Read),
            None => Ok(()),
        }
    }

    /// A request cannot be sent. A delete gets its reply after it was logged, or could not be.
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

    /// A request has failed. A delete gets its reply after it was logged, or could not be, and
    /// other requests at once.
    fn fail_request(
        &mut self,
        number: u32,
        request: FailedRequest,
        answer: &Answer<'_>,
        walks: &mut Walks<Ticket>,
    ) {
        let FailedRequest { origin, delete } = request;
        let server = DestinationId(self.destinations.server_of(number));
        match (delete, &mut self.log) {
            (Some(_), Some(_)) if is_planted("failed-delete-unlogged") => {
                walks.answer(origin, &Answer::of(Outcome::NotFound), self);
            }
            (Some(delete), Some(log)) => log.take(server, delete, origin, answer.outcome),
            _ => walks.answer(origin, &Answer { server: Some(server), ..*answer }, self),
        }
    }

    /// Replies to deletes that were logged, or could not be.
    pub(crate) fn answer_logged(&mut self, walks: &mut Walks<Ticket>) {
        let settled = self.log.as_mut().map(DeleteLog::settled).unwrap_or_default();
        for (Waiting { origin, why, reply }, written) in settled {
            sometimes(if written == Written::Yes { "delete-logged" } else { "delete-cannot-be-logged" });
            let answer = match written {
                Written::Yes => Answer { line: &reply, ..Answer::of(Outcome::NotFound) },
                Written::No if is_planted("unlogged-delete-acknowledged") => Answer::of(Outcome::NotFound),
                Written::No => Answer { line: NOT_LOGGED, ..Answer::of(why) },
            };
            walks.answer(origin, &answer, self);
        }
    }

    /// Processes an event of a connection to a server.
    pub(crate) fn receive(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut intake = self.destinations.take_intake(number);
        let connection = &mut self.destinations[number as usize];
        let result = connection.read(poll, service_token(number), self.facts.now_ms, &mut intake);
        let input = self.dispatch(number, walks, &mut intake);
        self.destinations.keep_intake(number, intake);
        if self.destinations[number as usize].end_replies(self.now_us) {
            self.schedule.add_unsent(number);
        }
        match result.map(|()| input) {
            Ok(Input::Valid) => {}
            Ok(Input::Invalid) => {
                self.destinations[number as usize].record_invalid_reply(self.facts.now_ms);
                self.close(number, walks, poll, Outcome::RemoteError);
            }
            Err(error) => self.connection_failed(number, walks, poll, &error),
        }
    }

    /// Passes the replies that have arrived from a server to clients and route handles.
    fn dispatch(&mut self, number: u32, walks: &mut Walks<Ticket>, intake: &mut Intake) -> Input {
        let mut at = 0;
        let input = intake.input();
        let (validity, wanted) = loop {
            let Flow { destinations, calls, counters, .. } = self;
            at += destinations[number as usize].take_hits(&input[at..], |ticket, value| {
                counters.answered(Outcome::Found);
                calls.item(ticket, value);
            });
            match self.destinations[number as usize].next(&input[at..]) {
                Parsed::Reply(origin, mut answer, taken) => {
                    // Only route handles read the server of a reply.
                    if let Origin::Frame { .. } = origin {
                        let server = self.destinations.server_of(number);
                        answer.server = Some(DestinationId(server));
                    }
                    walks.answer(origin, &answer, self);
                    at += taken;
                }
                Parsed::FailedDelete(request, answer, taken) => {
                    self.fail_request(number, request, &answer, walks);
                    at += taken;
                }
                Parsed::OwnReply(taken) | Parsed::Discarded(taken) => at += taken,
                Parsed::Incomplete(wanted) => break (Input::Valid, wanted),
                Parsed::Invalid => break (Input::Invalid, 0),
            }
        };
        intake.taken(at, wanted);
        validity
    }

    /// The operating system reports that a connection has failed.
    fn connection_failed(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, error: &io::Error) {
        let connection = &self.destinations[number as usize];
        if connection.is_connected() {
            return self.fail(number, walks, poll, Outcome::RemoteError);
        }
        if is_busy(error) {
            self.counters.add(Event::Shortage);
            self.shortages.report(connection.address(), error, self.facts.now_ms);
            return self.close(number, walks, poll, Outcome::Busy);
        }
        self.fail(number, walks, poll, Outcome::ConnectError);
    }

    /// Closes a failed connection, and records the failure of its server.
    fn fail(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        self.destinations[number as usize].record_failure(self.facts.now_ms);
        self.close(number, walks, poll, why);
    }

    /// Closes a connection. Requests on it fail for this reason.
    fn close(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        let connection = &mut self.destinations[number as usize];
        let failed = connection.disconnect(poll, why);
        if !connection.is_sent() {
            self.schedule.add_unsent(number);
        }
        self.update_deadline(number);
        for request in failed {
            self.fail_request(number, request, &Answer::of(why), walks);
        }
    }

    /// The deadline of a connection may have changed.
    fn update_deadline(&mut self, number: u32) {
        let deadline = self.destinations[number as usize].deadline(self.facts.now_ms);
        self.schedule.add_deadline(deadline);
    }

    /// Sets the time since the worker started.
    pub(crate) fn set_clock(&mut self, time: Duration) {
        self.now_us = time.as_micros() as u64;
        self.facts.now_ms = self.now_us / 1000;
    }

    /// Whether there are requests since the last flush.
    pub(crate) fn has_unsent(&self) -> bool {
        self.schedule.has_unsent()
    }

    /// Whether no client waits for a server or for the log.
    pub(crate) fn is_idle(&self) -> bool {
        self.destinations.iter().all(Destination::is_idle) && self.log.as_ref().is_none_or(DeleteLog::is_idle)
    }

    /// Sends requests to servers, and failed deletes to the log.
    pub(crate) fn flush(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut next = 0;
        while let Some(number) = self.schedule.unsent(next) {
            next += 1;
            let connection = &mut self.destinations[number as usize];
            match connection.flush(poll, service_token(number), self.now_us) {
                Ok(()) => self.update_deadline(number),
                Err(error) => self.connection_failed(number, walks, poll, &error),
            }
        }
        self.schedule.end_flush();
        if let Some(log) = &mut self.log {
            log.end_round();
        }
    }

    /// Times requests out, closes idle connections, and sends probes.
    pub(crate) fn expire(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        if !self.schedule.is_due(self.facts.now_ms) {
            return;
        }
        for number in self.destinations.numbers() {
            self.time_out(number, walks, poll);
            let random = self.schedule.random();
            let connection = &mut self.destinations[number as usize];
            connection.close_idle(poll, self.facts.now_ms);
            let was_sent = connection.is_sent();
            if connection.probe(self.facts.now_ms, random) && was_sent {
                self.schedule.add_unsent(number);
            }
        }
        self.destinations.tidy();
        let now_ms = self.facts.now_ms;
        let deadlines = self.destinations.iter().filter_map(|connection| connection.deadline(now_ms));
        self.schedule.set_deadline(deadlines.min());
    }

    fn time_out(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        while let Some(expired) = self.destinations[number as usize].time_out(self.facts.now_ms) {
            match expired {
                Expired::Request(request) => {
                    self.fail_request(number, request, &Answer::of(Outcome::Timeout), walks)
                }
                Expired::Connect(request) => {
                    self.fail_request(number, request, &Answer::of(Outcome::ConnectTimeout), walks);
                    return self.close(number, walks, poll, Outcome::ConnectTimeout);
                }
                Expired::Stuck(request) => {
                    self.fail_request(number, request, &Answer::of(Outcome::Timeout), walks);
                    return self.fail(number, walks, poll, Outcome::Timeout);
                }
            }
        }
    }

    /// Continues route handles whose waiting time is over.
    pub(crate) fn end_waits(&mut self, walks: &mut Walks<Ticket>) {
        while let Some(origin) = self.waits.due(self.facts.now_ms) {
            walks.answer(origin, &Answer::of(Outcome::Ok), self);
        }
    }

    /// Milliseconds until the next deadline of a server or a route handle.
    pub(crate) fn until_deadline_ms(&self) -> Option<u64> {
        let next = self.schedule.deadline_ms().into_iter().chain(self.waits.next_ms()).min();
        next.map(|deadline| deadline.saturating_sub(self.facts.now_ms))
    }
}

#[cfg(test)]
mod tests;
