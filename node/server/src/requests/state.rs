//! The state of a connection in its protocol.

use super::long_value::{Announcement, LongValue};
use crate::background::BackgroundTask;
use crate::forward::Leftover;
use guira_commands::Incoming;
use guira_contract::Session;
use guira_protocol::GetForm;
use guira_protocol::binary::REQUEST_MAGIC;
use guira_serving::{
    Access, CloseReason, Conversation, FieldWriter, Fields, Login, ReplyTo, Speaks, Stopped,
};
use guira_sync::clock::Stopwatch;

#[derive(Debug, Default)]
pub(crate) enum Phase<D> {
    #[default]
    Command,
    /// This many bytes of unwanted data come next.
    Swallow(u64),
    /// The value of a store comes next, in pieces.
    Value(Box<LongValue<D>>),
    /// More keys of a get come next, in a line whose end has arrived.
    Keys(GetForm),
    /// No input, until this task ends.
    Background(Box<BackgroundTask>),
    /// No input: the connection is closed.
    Over,
}

impl<D> Phase<D> {
    /// After this many bytes of unwanted data, a command comes next.
    pub(crate) fn skip(bytes: u64) -> Self {
        if bytes == 0 { Phase::Command } else { Phase::Swallow(bytes) }
    }

    /// Sets what comes after the head of a store, which has `head` bytes. `value` is the length of the value with its
    /// line end. Returns how many bytes were taken: none if the store is received whole.
    pub(super) fn await_value(
        &mut self,
        incoming: Incoming<D>,
        announcement: impl FnOnce() -> Announcement,
        head: usize,
        value: u64,
    ) -> usize {
        *self = match incoming {
            Incoming::Whole => return 0,
            Incoming::Pending(pending) => Phase::Value(Box::new(LongValue::new(announcement(), pending))),
            Incoming::Refused => Phase::skip(value),
        };
        head
    }
}

/// The state of a connection in its protocol.
#[derive(Debug)]
pub(crate) struct ProtocolState<S: Session> {
    pub(crate) phase: Phase<S::Pending>,
    pub(super) protocol: Protocol,
    pub(super) login: Login,
    /// The reason for closing, if the connection is being closed.
    pub(crate) ends: CloseReason,
    /// The destination of replies from other workers. `None` forwards no request.
    pub(crate) sender: Option<ReplyTo>,
    /// The number of the connection's forward batches in flight.
    pub(crate) out: usize,
    /// Requests that wait until replies before theirs were sent.
    pub(crate) leftovers: Vec<Leftover>,
    /// Set if the next command waits for another turn.
    pub(crate) waits: Option<Waits>,
}

/// A command that waits for another turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) since: Stopwatch,
    /// Whether this thread or others have to act before the command can be executed.
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

    pub(super) fn is_between_commands(&self) -> bool {
        matches!(self.phase, Phase::Command)
    }

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

    fn has_partial_request(&self) -> bool {
        matches!(self.phase, Phase::Value(_) | Phase::Swallow(_))
    }

    fn carry(&self) -> Option<Vec<u8>> {
        let mut fields = FieldWriter::default();
        match self.phase {
            Phase::Command => {}
            Phase::Swallow(left) => _ = fields.put_number(SWALLOW, left),
            Phase::Value(_) | Phase::Keys(_) | Phase::Background(_) | Phase::Over => return None,
        }
        if self.login.has_challenge() {
            fields.put_number(LOGIN_PENDING, 1);
        }
        (self.out == 0 && self.leftovers.is_empty()).then(|| fields.finish())
    }

    fn resume(&mut self, carried: &[u8]) {
        // A server sends whole fields: one that is cut off is ignored.
        for field in Fields::of(carried).flatten() {
            match (field.tag, field.number()) {
                (SWALLOW, Ok(left)) => self.phase = Phase::skip(left),
                (LOGIN_PENDING, Ok(_)) => self.login.resume_login(),
                _ => {}
            }
        }
    }

    fn bytes(&self) -> usize {
        let arriving = if let Phase::Value(value) = &self.phase { value.bytes() } else { 0 };
        arriving + self.leftovers.iter().map(Leftover::bytes).sum::<usize>()
    }
}

/// Tags of what a successor learns about a connection: the number of bytes to skip …
const SWALLOW: u16 = 1;
/// … and that a login has begun.
const LOGIN_PENDING: u16 = 2;

/// The protocol of a connection. The first byte of the first command decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Undecided,
    Text,
    Binary,
}

impl Protocol {
    pub(super) fn of(input: &[u8]) -> Self {
        match input.first() {
            None => Protocol::Undecided,
            Some(&REQUEST_MAGIC) => Protocol::Binary,
            Some(_) => Protocol::Text,
        }
    }
}
