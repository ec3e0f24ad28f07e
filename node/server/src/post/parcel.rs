//! Requests on their way to another worker, and their replies on the way back.

use crate::outbox::{Outbox, SlotId};
use guira_contract::ValuePin;

/// Whose requests they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its place among the connections of its worker …
    pub(crate) place: usize,
    /// … which may be another's by the time that replies come: this tells.
    pub(crate) serial: u64,
    /// The number that those who watch know it by.
    pub(crate) client: i32,
}

/// What is left out of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trim {
    Nothing,
    /// The line END: other keys of the same get follow.
    End,
}

/// A request in a parcel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) slot: SlotId,
    pub(crate) trim: Trim,
    /// Where it ends in the requests.
    pub(crate) request_end: usize,
    /// Where its reply ends.
    pub(crate) reply_end: ReplyEnd,
}

/// A place in an outbox: bytes of its buffer, and inserts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyEnd {
    pub(crate) bytes: usize,
    pub(crate) inserts: usize,
}

/// Requests for another worker, with room for their replies.
#[derive(Debug)]
pub(crate) struct Parcel<P> {
    /// The worker that has sent it.
    pub(super) from: usize,
    /// The one that it was sent to.
    pub(super) to: usize,
    pub(crate) sender: Sender,
    pub(crate) requests: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    /// Nothing in it changes anything: it can be executed once more.
    pub(super) reads_only: bool,
    /// Replies of so many bytes are enough: what is left is sent back as it is.
    pub(super) full: usize,
    /// Requests that were executed.
    pub(super) done: usize,
    pub(crate) replies: Outbox<P>,
}

/// Requests that came back as they were, since the replies to those before them were long.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(super) to: usize,
    pub(super) requests: Vec<u8>,
    /// Each request's slot, where it ends, and what is left out of its reply.
    pub(super) parts: Vec<Part>,
    pub(super) reads_only: bool,
}

impl Leftover {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.requests.capacity() + self.parts.capacity() * size_of::<Part>()
    }
}

/// Room that a parcel keeps for requests, in bytes.
const KEPT_MAX: usize = 32 << 10;

impl<P: ValuePin> Parcel<P> {
    pub(super) fn new(from: usize) -> Self {
        Parcel {
            from,
            to: from,
            sender: Sender::default(),
            requests: Vec::new(),
            parts: Vec::new(),
            reads_only: true,
            full: 0,
            done: 0,
            replies: Outbox::with_capacity(0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a request, which consists of these pieces.
    pub(super) fn put(&mut self, request: &[&[u8]], trim: Trim, slot: SlotId) {
        request.iter().for_each(|piece| self.requests.extend_from_slice(piece));
        let request_end = self.requests.len();
        self.parts.push(Part { slot, trim, request_end, reply_end: ReplyEnd::default() });
    }

    /// The requests that were executed, and their replies.
    pub(crate) fn split(&mut self) -> (&[Part], &mut Outbox<P>) {
        (&self.parts[..self.done], &mut self.replies)
    }

    /// There is no room for the replies, but for the first if it is the one in `slot`, which is sent next. Reads are executed again later.
    pub(crate) fn put_off(&mut self, slot: Option<SlotId>) {
        if self.reads_only {
            let is_next = self.parts.first().is_some_and(|part| Some(part.slot) == slot);
            self.done = self.done.min(usize::from(is_next));
        }
    }

    /// Takes out what was not executed.
    pub(crate) fn leftover(&mut self) -> Option<Leftover> {
        let from = self.parts[..self.done].last().map_or(0, |part| part.request_end);
        let mut parts = self.parts.split_off(self.done);
        parts.iter_mut().for_each(|part| part.request_end -= from);
        let requests = self.requests.split_off(from.min(self.requests.len()));
        (!parts.is_empty()).then_some(Leftover { to: self.to, requests, parts, reads_only: self.reads_only })
    }

    pub(super) fn clear(&mut self) {
        self.done = 0;
        self.reads_only = true;
        self.parts.clear();
        self.requests.clear();
        if self.requests.capacity() > KEPT_MAX {
            self.requests = Vec::new();
        }
        self.replies.forget(KEPT_MAX);
    }
}
