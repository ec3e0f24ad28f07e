//! Calls of the application that are in flight, and their replies.

use super::pipeline::Ticket;
use crate::pools::error::{Error, ErrorKind};
use guira_routing::{Answer, Outcome};

/// The reply of a server for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pools) struct Answered {
    pub(in crate::pools) outcome: Outcome,
    /// The value found, with its flags.
    pub(in crate::pools) item: Option<(Vec<u8>, u64)>,
    /// The cas unique, or the number that was counted.
    pub(in crate::pools) number: u64,
}

pub(in crate::pools) type Reply = Result<Answered, Error>;

#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    vacant: Vec<u32>,
    /// Calls whose keys are all answered, and whose replies were not taken yet.
    done: Vec<u32>,
}

#[derive(Debug, Default)]
struct Call {
    replies: Vec<Option<Reply>>,
    missing: usize,
}

impl Calls {
    /// Begins a call about this many keys.
    pub(super) fn begin(&mut self, keys: usize) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.calls.len() as u32);
        let mut replies = Vec::new();
        replies.resize_with(keys, || None);
        let call = Call { replies, missing: keys };
        match self.calls.get_mut(number as usize) {
            Some(place) => *place = call,
            None => self.calls.push(call),
        }
        if keys == 0 {
            self.done.push(number);
        }
        number
    }

    /// A key was answered, not by an error.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        let answered = Answered {
            outcome: answer.outcome,
            item: answer.item.map(|item| (item.value.to_vec(), item.flags)),
            number: answer.number,
        };
        self.settle(ticket, Ok(answered));
    }

    pub(super) fn settle(&mut self, ticket: Ticket, reply: Reply) {
        let Some(call) = self.calls.get_mut(ticket.call as usize) else { return };
        let Some(place @ None) = call.replies.get_mut(ticket.part as usize) else { return };
        *place = Some(reply);
        call.missing -= 1;
        if call.missing == 0 {
            self.done.push(ticket.call);
        }
    }

    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Calls whose keys were all answered since the last call.
    pub(super) fn take_done(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.done)
    }

    /// The replies of a call, in the order of its keys. It is forgotten.
    pub(super) fn take(&mut self, number: u32) -> Vec<Reply> {
        let Some(call) = self.calls.get_mut(number as usize) else { return Vec::new() };
        let replies = std::mem::take(&mut call.replies);
        self.vacant.push(number);
        // None is missing of a call that is done.
        replies.into_iter().map(|reply| reply.unwrap_or(Err(ErrorKind::Busy.into()))).collect()
    }
}
