//! Clients' requests that are under way, and their replies.

use crate::flow::Ticket;
use crate::render::{self, Form};
use guira_routing::Answer;
use guira_serving::{ReplyTo, SlotId};
use std::ops::Range;

/// What clients have asked and were not answered.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    vacant: Vec<u32>,
    /// Replies that are complete, and their bytes.
    done: Vec<Reply>,
    bytes: Vec<u8>,
}

/// A request of a client, for one key or several.
#[derive(Debug)]
struct Call {
    to: ReplyTo,
    slot: SlotId,
    form: Form,
    /// How many keys were not answered.
    missing: u32,
    parts: Vec<Part>,
    /// The keys as the client has sent them, and the replies of some of them.
    bytes: Vec<u8>,
    /// The first failure among the keys, as it is told.
    failure: Option<Range<usize>>,
}

/// A key of a request, and what was answered about it.
#[derive(Clone, Debug, Default)]
struct Part {
    key: Range<usize>,
    reply: Range<usize>,
}

/// A reply that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) to: ReplyTo,
    pub(crate) slot: SlotId,
    bytes: Range<usize>,
}

/// A call keeps no more for the next one.
const KEPT_MAX: usize = 4 << 10;

impl Calls {
    /// A client has asked something. Its keys are named by [`Calls::key`], before any is answered.
    pub(crate) fn begin(&mut self, to: ReplyTo, slot: SlotId, form: Form) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.calls.len() as u32);
        if number as usize == self.calls.len() {
            let (parts, bytes) = (Vec::new(), Vec::new());
            self.calls.push(Call { to, slot, form, missing: 0, parts, bytes, failure: None });
        }
        let call = &mut self.calls[number as usize];
        (call.to, call.slot, call.form, call.missing, call.failure) = (to, slot, form, 0, None);
        number
    }

    /// Adds a key to what was asked.
    pub(crate) fn key(&mut self, call: u32, key: &[u8]) -> Ticket {
        let it = &mut self.calls[call as usize];
        let from = it.bytes.len();
        it.bytes.extend_from_slice(key);
        it.parts.push(Part { key: from..it.bytes.len(), reply: 0..0 });
        it.missing += 1;
        Ticket { call, part: it.parts.len() as u32 - 1 }
    }

    /// A key was answered.
    #[inline]
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        let call = &mut self.calls[ticket.call as usize];
        call.missing -= 1;
        let from = self.bytes.len();
        if let [only] = &*call.parts {
            let key = &call.bytes[only.key.clone()];
            render::whole(call.form, key, answer, &mut self.bytes);
        } else {
            call.add(ticket.part as usize, answer);
            if call.missing > 0 {
                return;
            }
            call.join(&mut self.bytes);
        }
        self.done.push(Reply { to: call.to, slot: call.slot, bytes: from..self.bytes.len() });
        call.forget();
        self.vacant.push(ticket.call);
    }

    /// Bytes of replies that are complete.
    pub(crate) fn done_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many replies are complete.
    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// The replies from this one on, with their bytes.
    pub(crate) fn replies(&self, from: usize) -> impl Iterator<Item = (&Reply, &[u8])> + Clone {
        self.done[from..].iter().map(|reply| (reply, &self.bytes[reply.bytes.clone()]))
    }

    /// Puts replies to one client next to each other, in the order in which they were complete.
    pub(crate) fn sort(&mut self) {
        self.done.sort_by_key(|reply| reply.to.place());
    }

    /// Forgets the replies from this one on.
    pub(crate) fn forget(&mut self, from: usize) {
        if let Some(first) = self.done.get(from) {
            if from == 0 {
                self.bytes.clear();
                self.bytes.shrink_to(256 * KEPT_MAX);
            } else {
                self.bytes.truncate(first.bytes.start);
            }
            self.done.truncate(from);
        }
    }
}

impl Call {
    #[inline]
    fn add(&mut self, part: usize, answer: &Answer<'_>) {
        let from = self.bytes.len();
        let key = self.parts[part].key.clone();
        if answer.outcome.is_error() {
            if self.failure.is_none() {
                render::failure(answer, &mut self.bytes);
                self.failure = Some(from..self.bytes.len());
            }
            return;
        }
        render::part(self.form, key, answer, &mut self.bytes);
        self.parts[part].reply = from..self.bytes.len();
    }

    /// All keys were answered.
    fn join(&mut self, out: &mut Vec<u8>) {
        if let Some(failure) = &self.failure {
            return out.extend_from_slice(&self.bytes[failure.clone()]);
        }
        for part in &self.parts {
            out.extend_from_slice(&self.bytes[part.reply.clone()]);
        }
        out.extend_from_slice(b"END\r\n");
    }

    fn forget(&mut self) {
        self.parts.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX);
    }
}
