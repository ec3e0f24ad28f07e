//! The protocols, without connections: bytes of requests in, replies into an outbox.
//!
//! Requests are executed in batches ([`crate::batch`]). A batch ends where input ends, when it is full, or at a request that is answered in pieces of its
//! own: a get of many keys, a long value, a fault. It is cut short when its replies fill the outbox.

use crate::VERSION;
use crate::admin::Admin;
use crate::background::BackgroundTask;
use crate::batch::Flow;
use crate::counters::WorkerCounters;
use crate::forward::{Forwarding, Leftover};
use crate::latency::BatchMeter;
use crate::long_value::LongValue;
use crate::shared::Shared;
use crate::top_keys::UseSampler;
use crate::watch::EventSink;
use guira_commands::Executor;
use guira_contract::Session;
use guira_protocol::GetForm;
use guira_protocol::binary::REQUEST_MAGIC;
use guira_serving::{
    Access, AfterLogin, CloseReason, Conversation, Door, FieldWriter, Fields, Login, Outbox, ReplyTo, Slice,
    Speaks, Stopped, TrafficCounters,
};
use guira_sync::clock::Stopwatch;
use std::sync::Arc;

/// What comes next.
#[derive(Debug, Default)]
pub(crate) enum Phase<D> {
    /// A command comes next.
    #[default]
    Command,
    /// This many bytes of unwanted data come next.
    Swallow(u64),
    /// The value of a store comes next, in pieces.
    Value(Box<LongValue<D>>),
    /// More keys of a get come next, in a line whose end has arrived.
    Keys(GetForm),
    /// Nothing, until this is done.
    Background(Box<BackgroundTask>),
    /// Nothing: it is over.
    Over,
}

impl<D> Phase<D> {
    /// After this many bytes of unwanted data, a command comes next.
    pub(crate) fn skip(bytes: u64) -> Self {
        if bytes == 0 { Phase::Command } else { Phase::Swallow(bytes) }
    }
}

/// Where a connection is in its protocol.
#[derive(Debug)]
pub(crate) struct ProtocolState<S: Session> {
    pub(crate) phase: Phase<S::Pending>,
    protocol: Protocol,
    login: Login,
    /// Why it is over, if it is.
    pub(crate) ends: CloseReason,
    /// Where replies of other workers come back to; without, none is asked.
    pub(crate) sender: Option<ReplyTo>,
    /// Forward batches of its requests that are under way.
    pub(crate) out: usize,
    /// Requests that wait until replies before theirs were sent.
    pub(crate) leftovers: Vec<Leftover>,
    /// Of the next command, if it has waited for another turn.
    pub(crate) waits: Option<Waits>,
}

/// A command that waits for another turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// Since when.
    pub(crate) since: Stopwatch,
    /// Whether this thread works on what it waits for, or others have to.
    pub(crate) why: Stopped,
}

impl<S: Session> ProtocolState<S> {
    pub(crate) fn new(speaks: Speaks, access: Access, sender: Option<ReplyTo>) -> Self {
        let protocol = match speaks {
            Speaks::Any => Protocol::Undecided,
            Speaks::Text => Protocol::Text,
            Speaks::Binary => Protocol::Binary,
        };
        ProtocolState {
            phase: Phase::Command,
            protocol,
            login: Login::new(access),
            ends: CloseReason::Error,
            sender,
            out: 0,
            leftovers: Vec::new(),
            waits: None,
        }
    }

    /// Takes the task; the next command comes after it.
    pub(crate) fn take_background_task(&mut self) -> Option<BackgroundTask> {
        match std::mem::take(&mut self.phase) {
            Phase::Background(task) => Some(*task),
            _ => None,
        }
    }

    /// What comes after a command without a key.
    pub(crate) fn flow(&self) -> Flow {
        if matches!(self.phase, Phase::Command) { Flow::Continue } else { Flow::Stop }
    }

    /// The client has said that it is done.
    pub(crate) fn quit(&mut self) {
        self.phase = Phase::Over;
        self.ends = CloseReason::Normal;
    }
}

impl<S: Session> Conversation for ProtocolState<S> {
    fn speaks(&self) -> Speaks {
        match self.protocol {
            Protocol::Undecided => Speaks::Any,
            Protocol::Text => Speaks::Text,
            Protocol::Binary => Speaks::Binary,
        }
    }

    fn access(&self) -> Access {
        self.login.access()
    }

    fn is_midway(&self) -> bool {
        matches!(self.phase, Phase::Value(_) | Phase::Swallow(_))
    }

    fn carry(&self) -> Option<Vec<u8>> {
        let mut fields = FieldWriter::default();
        match self.phase {
            Phase::Command => {}
            Phase::Swallow(left) => _ = fields.put_number(SWALLOW, left),
            Phase::Value(_) | Phase::Keys(_) | Phase::Background(_) | Phase::Over => return None,
        }
        if self.login.is_asked() {
            fields.put_number(LOGIN_ASKED, 1);
        }
        (self.out == 0 && self.leftovers.is_empty()).then(|| fields.finish())
    }

    fn resume(&mut self, carried: &[u8]) {
        // What is cut off was not sent by a server.
        for field in Fields::of(carried).flatten() {
            match (field.tag, field.number()) {
                (SWALLOW, Ok(left)) => self.phase = Phase::skip(left),
                (LOGIN_ASKED, Ok(_)) => self.login.go_on(),
                _ => {}
            }
        }
    }

    fn bytes(&self) -> usize {
        let arriving = if let Phase::Value(value) = &self.phase { value.bytes() } else { 0 };
        arriving + self.leftovers.iter().map(Leftover::bytes).sum::<usize>()
    }
}

/// What is told of a connection to the server that goes on with it: bytes that are to be passed over …
const SWALLOW: u16 = 1;
/// … and that a login has begun.
const LOGIN_ASKED: u16 = 2;

/// What a client speaks: the first byte of its first command says it, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Undecided,
    /// Classic and meta.
    Text,
    Binary,
}

impl Protocol {
    fn of(input: &[u8]) -> Self {
        match input.first() {
            None => Protocol::Undecided,
            Some(&REQUEST_MAGIC) => Protocol::Binary,
            Some(_) => Protocol::Text,
        }
    }
}

/// Executes requests, for one worker.
#[derive(Debug)]
pub(crate) struct Interpreter<S: Session> {
    pub(crate) executor: Executor<S>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) traffic: Arc<TrafficCounters>,
    pub(crate) tap: Arc<EventSink>,
    pub(crate) forwarding: Forwarding<S::Pin>,
    pub(crate) meter: BatchMeter,
    pub(crate) uses: UseSampler,
    /// When an outbox counts as full, in bytes: [`guira_serving::OUTBOX_FULL`], or less where memory is short.
    pub(crate) full: usize,
    /// What is left of the turn: endless for what no connection of this worker has sent.
    pub(crate) slice: Slice,
}

impl<S: Session> Interpreter<S> {
    /// Takes requests from `input` and answers them, or has others answer them. Returns how many bytes were taken, and why it has stopped.
    pub(crate) fn run(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        let result = self.run_on(state, input, outbox);
        if self.forwarding.is_in_use() {
            state.out += self.forwarding.dispatch(self.full);
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
            if outbox.weight() >= self.full {
                return (at, Stopped::OutboxFull);
            }
            if self.slice.is_cut() && at < input.len() {
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
                    // It may be replies of other workers that it needs.
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
        let door = Door { host: &self.shared, traffic: &self.traffic };
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
