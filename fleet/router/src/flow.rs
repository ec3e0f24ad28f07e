//! The two ends of a worker's requests: servers, and clients who wait.

use crate::calls::Calls;
use crate::config::host_id;
use crate::counters::Counters;
use crate::running::Health;
use crate::upstream::{Destination, GivenUp, Heard, Server};
use guira_routing::{Answer, DestinationId, Facts, Origin, Outcome, Request, Sink, Walks};
use guira_serving::service_token;
use guira_transport::Poll;
use std::sync::Arc;

/// A buffer that long replies have made larger is not kept.
const INPUT_MAX: usize = 1 << 20;

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
    health: Health,
    /// Those that were asked something since they were last sent what they are asked.
    dirty: Vec<u32>,
    /// What handles are told of every request.
    pub(crate) facts: Facts,
    /// The time of [`Facts::now_ms`], in microseconds.
    pub(crate) now_us: u64,
    /// No request is given up before.
    deadline_ms: Option<u64>,
    input: Vec<u8>,
    random: u32,
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
        if !it.is_in() {
            return it.refuse(Outcome::Tko);
        }
        if it.is_full() {
            return it.refuse(Outcome::LocalError);
        }
        if it.is_clean() {
            self.dirty.push(destination.0);
        }
        it.push(request, origin, self.facts.now_ms);
        Ok(())
    }

    #[inline]
    fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        self.counters.answered(answer.outcome);
        self.calls.answer(ticket, answer);
    }
}

impl Flow {
    pub(crate) fn new(counters: Arc<Counters>, health: Health) -> Self {
        Flow {
            health,
            calls: Calls::default(),
            counters,
            destinations: Vec::new(),
            dirty: Vec::new(),
            facts: Facts { host: host_id().into(), ..Facts::default() },
            now_us: 0,
            deadline_ms: None,
            input: Vec::new(),
            random: 1,
        }
    }

    /// Takes servers on that a new configuration names: those behind the ones that are known.
    pub(crate) fn add_servers(&mut self, all: &[Server]) {
        let new = all.iter().skip(self.destinations.len());
        let new = new.map(|server| Destination::new(server, self.health, self.counters.clone()));
        self.destinations.extend(new);
    }

    /// A server has something to say.
    pub(crate) fn hear(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut buffer = std::mem::take(&mut self.input);
        let read = self.destinations[number as usize].read(poll, service_token(number), &mut buffer);
        let input = &buffer[..*read.as_ref().unwrap_or(&0)];
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
        self.destinations[number as usize].end_replies(self.now_us);
        buffer.truncate(INPUT_MAX);
        buffer.shrink_to(INPUT_MAX);
        self.input = buffer;
        if is_broken || read.is_err() {
            self.fail(
                number,
                walks,
                poll,
                if is_broken { Outcome::RemoteError } else { Outcome::ConnectError },
            );
        }
    }

    /// A connection is of no use: whoever waits for its answers is told.
    fn fail(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll, why: Outcome) {
        let it = &mut self.destinations[number as usize];
        it.note_failure(self.facts.now_ms);
        let waiting = it.fail(poll, why);
        self.attend(number);
        for origin in waiting {
            walks.answer(origin, &Answer::of(why), self);
        }
    }

    /// A destination's deadline may have changed.
    fn attend(&mut self, number: u32) {
        let deadline = self.destinations[number as usize].deadline(self.facts.now_ms);
        self.deadline_ms = self.deadline_ms.into_iter().chain(deadline).min();
    }

    /// Sends servers what they are asked.
    pub(crate) fn flush(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        let mut next = 0;
        while let Some(number) = self.dirty.get(next).copied() {
            next += 1;
            let it = &mut self.destinations[number as usize];
            match it.flush(poll, service_token(number), self.now_us) {
                Ok(()) => self.attend(number),
                Err(_) => self.fail(number, walks, poll, Outcome::ConnectError),
            }
        }
        self.dirty.clear();
    }

    /// Gives up what has waited for too long, and asks servers whether they are back.
    pub(crate) fn give_up(&mut self, walks: &mut Walks<Ticket>, poll: &Poll) {
        if self.deadline_ms.is_none_or(|deadline| self.facts.now_ms < deadline) {
            return;
        }
        for number in 0..self.destinations.len() as u32 {
            self.give_up_of(number, walks, poll);
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let it = &mut self.destinations[number as usize];
            let was_clean = it.is_clean();
            if it.probe(self.facts.now_ms, self.random >> 8) && was_clean {
                self.dirty.push(number);
            }
        }
        let now_ms = self.facts.now_ms;
        self.deadline_ms = self.destinations.iter().filter_map(|it| it.deadline(now_ms)).min();
    }

    fn give_up_of(&mut self, number: u32, walks: &mut Walks<Ticket>, poll: &Poll) {
        while let Some(given_up) = self.destinations[number as usize].give_up(self.facts.now_ms) {
            match given_up {
                GivenUp::Request(origin) => walks.answer(origin, &Answer::of(Outcome::Timeout), self),
                GivenUp::Unreachable(origin) => {
                    walks.answer(origin, &Answer::of(Outcome::ConnectTimeout), self);
                    return self.fail(number, walks, poll, Outcome::ConnectTimeout);
                }
                GivenUp::Probe => return self.fail(number, walks, poll, Outcome::Timeout),
            }
        }
    }

    /// Milliseconds until something may have to be given up.
    pub(crate) fn patience_ms(&self) -> Option<u64> {
        self.deadline_ms.map(|deadline| deadline.saturating_sub(self.facts.now_ms))
    }
}
