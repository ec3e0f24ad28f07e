//! The two ends of a worker's requests: servers, and clients who wait.

use crate::calls::Calls;
use crate::counters::Counters;
use crate::upstream::{Destination, Heard};
use guira_routing::{Answer, DestinationId, Origin, Outcome, Request, Sink, Walks};
use guira_serving::service_token;
use guira_transport::{Address, Poll};
use std::sync::Arc;

/// A key of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) call: u32,
    pub(crate) part: u32,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) calls: Calls,
    pub(crate) counters: Arc<Counters>,
    destinations: Vec<Destination>,
    /// Those that were asked something since they were last sent what they are asked.
    dirty: Vec<u32>,
    pub(crate) now_ms: u64,
    /// No request is given up before.
    deadline_ms: Option<u64>,
    input: Vec<u8>,
}

impl Sink for Flow {
    type Ticket = Ticket;

    #[inline]
    fn send(
        &mut self,
        destination: DestinationId,
        request: &Request<'_>,
        origin: Origin<Ticket>,
    ) -> Result<(), Outcome> {
        let it = &mut self.destinations[destination.0 as usize];
        if it.is_full() {
            return Err(Outcome::LocalError);
        }
        if it.is_clean() {
            self.dirty.push(destination.0);
        }
        it.push(request, origin, self.now_ms);
        self.counters.sent();
        Ok(())
    }

    #[inline]
    fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        self.counters.answered(answer.outcome);
        self.calls.answer(ticket, answer);
    }
}

impl Flow {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Flow {
            calls: Calls::default(),
            counters,
            destinations: Vec::new(),
            dirty: Vec::new(),
            now_ms: 0,
            deadline_ms: None,
            input: Vec::new(),
        }
    }

    /// Takes servers on that a new configuration names: those behind the ones that are known.
    pub(crate) fn add_servers(&mut self, all: &[(Address, u32)]) {
        let new = all.iter().skip(self.destinations.len());
        self.destinations
            .extend(new.map(|(address, timeout_ms)| Destination::new(address.clone(), *timeout_ms)));
    }

    /// A server has something to say.
    pub(crate) fn hear(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut input = std::mem::take(&mut self.input);
        let read = self.destinations[number as usize].read(poll, service_token(number), &mut input);
        let mut at = 0;
        let is_broken = loop {
            match self.destinations[number as usize].next(&input[at..]) {
                Heard::Answer(origin, answer, taken) => {
                    walks.answer(origin, &answer, self);
                    at += taken;
                }
                Heard::Nothing(taken) => at += taken,
                Heard::Silence => break false,
                Heard::Garbage => break true,
            }
        };
        self.destinations[number as usize].keep(&input[at..]);
        self.destinations[number as usize].tidy();
        input.clear();
        input.shrink_to(1 << 20);
        self.input = input;
        if is_broken || read.is_err() {
            self.fail(number, walks, poll, if is_broken { Outcome::RemoteError } else { Outcome::ConnectError });
        }
    }

    /// A connection is of no use: whoever waits for its answers is told.
    fn fail(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        for origin in self.destinations[number as usize].fail(poll) {
            walks.answer(origin, &Answer::of(why), self);
        }
    }

    /// Sends servers what they are asked.
    pub(crate) fn flush(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut next = 0;
        while let Some(number) = self.dirty.get(next).copied() {
            next += 1;
            let it = &mut self.destinations[number as usize];
            match it.flush(poll, service_token(number)) {
                Ok(()) => {
                    let deadline = it.deadline(self.now_ms);
                    self.deadline_ms = self.deadline_ms.into_iter().chain(deadline).min();
                }
                Err(_) => self.fail(number, walks, poll, Outcome::ConnectError),
            }
        }
        self.dirty.clear();
    }

    /// Gives up what has waited for too long.
    pub(crate) fn give_up(&mut self, walks: &mut Walks<Ticket>) {
        if self.deadline_ms.is_none_or(|deadline| self.now_ms < deadline) {
            return;
        }
        for number in 0..self.destinations.len() {
            let why =
                if self.destinations[number].is_connecting() { Outcome::ConnectTimeout } else { Outcome::Timeout };
            while let Some(origin) = self.destinations[number].give_up(self.now_ms) {
                walks.answer(origin, &Answer::of(why), self);
            }
        }
        let now_ms = self.now_ms;
        self.deadline_ms = self.destinations.iter().filter_map(|it| it.deadline(now_ms)).min();
    }

    /// Milliseconds until something may have to be given up.
    pub(crate) fn patience_ms(&self) -> Option<u64> {
        self.deadline_ms.map(|deadline| deadline.saturating_sub(self.now_ms))
    }
}
