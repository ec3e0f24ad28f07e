//! The protocols, without connections: bytes of requests in, replies into an outbox.
//!
//! Requests are executed in batches ([`crate::batch`]). A batch ends where input ends, when it is full, or at a request that is answered in pieces of its
//! own: a get of many keys, a long value, a fault. It is cut short when its replies fill the outbox.

use crate::admin::Admin;
use crate::background::BackgroundTask;
use crate::binary::PacketValue;
use crate::forward::{Forwarding, Sender};
use crate::outbox::Outbox;
use crate::shared::{Shared, WorkerCounters};
use crate::text::LongValue;
use crate::watch::{CloseReason, EventSink};
use guira_commands::Executor;
use guira_contract::Session;
use guira_protocol::binary::REQUEST_MAGIC;
use guira_protocol::{Exptime, Unique};
use guira_serving::{Access, Slice, Speaks};
use std::sync::Arc;

/// An outbox is full when it holds this many bytes: what follows waits until they were sent.
pub(crate) const OUTBOX_FULL: usize = 64 << 10;
/// The same while memory for connections is short.
pub(crate) const OUTBOX_FULL_SHORT: usize = 2 << 10;

/// What comes next.
#[derive(Debug, Default)]
pub(crate) enum Phase<D> {
    /// A command comes next.
    #[default]
    Command,
    /// This many bytes of unwanted data come next.
    Swallow(u64),
    /// The data block of this command comes next, in pieces.
    Value(Box<LongValue<D>>),
    /// The value of a packet comes next, in pieces.
    PacketValue(Box<PacketValue<D>>),
    /// More keys of a get come next, in a line whose end has arrived.
    Keys(Unique, Option<Exptime>),
    /// Nothing, until this is done.
    Background(Box<BackgroundTask>),
    /// Nothing: it is over.
    Over,
}

/// Where a connection is in its protocol.
#[derive(Debug)]
pub(crate) struct ProtocolState<S: Session> {
    pub(crate) phase: Phase<S::Pending>,
    protocol: Protocol,
    pub(crate) access: Access,
    /// A login has begun, and its next step is to come.
    pub(crate) asked: bool,
    /// Why it is over, if it is.
    pub(crate) ends: CloseReason,
    /// Where replies of other workers come back to; without, none is asked.
    pub(crate) sender: Option<Sender>,
    /// Forward batches of its requests that are under way.
    pub(crate) out: usize,
    /// What is left of its turn.
    pub(crate) slice: Slice,
}

impl<S: Session> ProtocolState<S> {
    pub(crate) fn new(speaks: Speaks, access: Access, sender: Option<Sender>) -> Self {
        let protocol = match speaks {
            Speaks::Any => Protocol::Undecided,
            Speaks::Text => Protocol::Text,
            Speaks::Binary => Protocol::Binary,
        };
        ProtocolState {
            phase: Phase::Command,
            protocol,
            access,
            asked: false,
            ends: CloseReason::Error,
            sender,
            out: 0,
            slice: Slice::ENDLESS,
        }
    }

    /// What is spoken, as far as it is known.
    pub(crate) fn speaks(&self) -> Speaks {
        match self.protocol {
            Protocol::Undecided => Speaks::Any,
            Protocol::Text => Speaks::Text,
            Protocol::Binary => Speaks::Binary,
        }
    }

    /// Whether it goes on only after a background task.
    pub(crate) fn leaves(&self) -> bool {
        matches!(self.phase, Phase::Background(_))
    }

    /// Takes the task; the next command comes after it.
    pub(crate) fn take_background_task(&mut self) -> Option<BackgroundTask> {
        match std::mem::take(&mut self.phase) {
            Phase::Background(task) => Some(*task),
            _ => None,
        }
    }

    /// The client has said that it is done.
    pub(crate) fn quit(&mut self) {
        self.phase = Phase::Over;
        self.ends = CloseReason::Normal;
    }

    /// Whether a request has arrived in part.
    pub(crate) fn is_midway(&self) -> bool {
        matches!(self.phase, Phase::Value(_) | Phase::PacketValue(_) | Phase::Swallow(_))
    }
}

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

/// Why a run has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It needs more input.
    NeedsInput,
    /// The outbox is full.
    OutboxFull,
    /// Others have their turn.
    SliceOver,
    /// The connection leaves for a background task after the outbox was sent.
    Leaves,
    /// The connection is to be closed after the outbox was sent.
    Over,
}

/// Executes requests, for one worker.
#[derive(Debug)]
pub(crate) struct Interpreter<S: Session> {
    pub(crate) executor: Executor<S>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) tap: Arc<EventSink>,
    pub(crate) forwarding: Forwarding<S::Pin>,
    /// When an outbox counts as full, in bytes: [`OUTBOX_FULL`], or less where room is short.
    pub(crate) full: usize,
    /// Bytes of long values that connections have pinned which wait for another turn to send them.
    pub(crate) unsent: usize,
}

impl<S: Session> Interpreter<S> {
    /// Whether more is held, or about to be sent, than there should be for long.
    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.budget.is_short() || self.unsent > self.shared.budget.for_turns()
    }

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
            if state.slice.is_cut() && at < input.len() {
                return (at, Stopped::SliceOver);
            }
            let rest = &input[at..];
            let taken = match &mut state.phase {
                Phase::Command => match (state.protocol, state.access) {
                    (Protocol::Binary, Access::Free) => self.packets(state, rest, outbox),
                    (Protocol::Binary, Access::Login) => self.packet_login(state, rest, outbox),
                    (_, Access::Free) => self.commands(state, rest, outbox),
                    (_, Access::Login) => self.text_login(state, rest, outbox),
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
                Phase::PacketValue(_) => self.packet_value(state, rest, outbox),
                Phase::Keys(unique, touch) => {
                    let (unique, touch) = (*unique, *touch);
                    self.more_keys(state, rest, (unique, touch), outbox)
                }
                Phase::Background(_) => return (at, Stopped::Leaves),
                Phase::Over => return (at, Stopped::Over),
            };
            at += taken;
            if taken == 0 && !matches!(state.phase, Phase::Over | Phase::Background(_)) {
                // It may be replies of other workers that it needs.
                let stopped = if outbox.open_slots() > 0 { Stopped::OutboxFull } else { Stopped::NeedsInput };
                return (at, stopped);
            }
        }
    }
}
