//! The protocols, without connections: bytes of requests in, replies into an outbox.
//!
//! Requests are executed in batches ([`super::batch`]). A batch ends where input ends, when it is full, or at a request
//! that is executed in pieces of its own: a get of many keys, a long value, a fault. Replies that fill the outbox end a
//! batch early.

use super::runner::Runner;
use super::state::{Phase, Protocol, ProtocolState};
use crate::VERSION;
use crate::counters::WorkerCounters;
use crate::watch::EventSink;
use guira_contract::Session;
use guira_serving::{Access, AfterLogin, Door, Outbox, Stopped, TrafficCounters};
use std::sync::Arc;

/// Reads and executes the requests of one worker.
#[derive(Debug)]
pub(crate) struct Interpreter<S: Session> {
    pub(crate) runner: Runner<S>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) traffic: Arc<TrafficCounters>,
    pub(crate) event_sink: Arc<EventSink>,
}

impl<S: Session> Interpreter<S> {
    /// Takes requests from `input` and executes them, here or by other workers. Returns how many bytes were taken, and
    /// why no more were.
    pub(crate) fn run(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        let result = self.run_on(state, input, outbox);
        if self.runner.forwarding.is_in_use() {
            state.out += self.runner.forwarding.dispatch(self.runner.full);
        }
        result
    }

    fn run_on(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        let mut at = 0;
        if state.protocol == Protocol::Undecided {
            state.protocol = Protocol::of(input);
        }
        loop {
            if outbox.weight() >= self.runner.full {
                return (at, Stopped::OutboxFull);
            }
            if self.runner.slice.is_cut() && at < input.len() {
                return (at, Stopped::SliceOver);
            }
            let rest = &input[at..];
            let taken = match &mut state.phase {
                Phase::Command => match (state.protocol, state.login.access()) {
                    (Protocol::Binary, Access::Free) => self.packets(state, rest, outbox),
                    (_, Access::Login) => self.log_in(state, rest, outbox),
                    (_, Access::Free) => self.commands(state, rest, outbox),
                },
                Phase::Swallow(left) => {
                    let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    if *left == 0 {
                        state.phase = Phase::Command;
                    }
                    taken
                }
                Phase::Value(_) => self.value(state, rest, outbox),
                Phase::Keys(form) => {
                    let form = *form;
                    self.more_keys(state, rest, form, outbox)
                }
                Phase::Background(_) => return (at, Stopped::Leaves),
                Phase::Over => return (at, Stopped::Over(state.ends)),
            };
            at += taken;
            if taken == 0 && !matches!(state.phase, Phase::Over | Phase::Background(_)) {
                let stopped = match state.waits {
                    Some(waits) => waits.why,
                    // The next request may wait for replies of other workers.
                    None if outbox.open_slots() > 0 => Stopped::OutboxFull,
                    None => Stopped::NeedsInput,
                };
                return (at, stopped);
            }
        }
    }

    /// Takes a request of a client that has not logged in, or a packet that is about logging in. Returns how many bytes were taken.
    pub(crate) fn log_in(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let door = Door { host: &self.runner.host, traffic: &self.traffic };
        let (taken, after) = match state.protocol {
            Protocol::Binary => state.login.packet(door, VERSION, input, outbox),
            Protocol::Undecided | Protocol::Text => state.login.text(door, input, outbox),
        };
        match after {
            AfterLogin::Request => {}
            AfterLogin::Skip(bytes) => state.phase = Phase::Swallow(bytes),
            AfterLogin::Over => state.phase = Phase::Over,
        }
        taken
    }
}
