//! What a connection still has to send.

use crate::outbox::{Outbox, SlotId};
use crate::{ConnBudget, ConnMemory};
use guira_memory::ValuePin;
use guira_sync::atomic::Ordering;

/// What a connection still has to send. As long as there is anything, no request of the connection is read or executed.
#[derive(Debug)]
pub(crate) enum Unsent<P> {
    Nothing,
    /// A reply that another worker or server sends later. Most clients wait for one reply at a time, and need no outbox.
    Reply(SlotId),
    Outbox(Box<Outbox<P>>),
}

impl<P: ValuePin> Unsent<P> {
    /// An outbox with these bytes, or nothing if there are none.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Unsent::Nothing } else { Unsent::Outbox(Box::new(Outbox::of(bytes))) }
    }

    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Unsent::Nothing)
    }

    /// Whether the next reply to send has not arrived.
    #[inline]
    pub(crate) fn awaits_reply(&self) -> bool {
        match self {
            Unsent::Nothing => false,
            Unsent::Reply(_) => true,
            Unsent::Outbox(outbox) => outbox.next_slot().is_some(),
        }
    }

    /// Whether no reply is to come, and no more than `most` bytes are left.
    pub(crate) fn is_complete(&self, most: usize) -> bool {
        match self {
            Unsent::Nothing => true,
            Unsent::Reply(_) => false,
            Unsent::Outbox(outbox) => outbox.open_slots() == 0 && outbox.weight() <= most,
        }
    }

    /// The outbox for late replies. `None` if no reply is awaited.
    pub(crate) fn outbox(&mut self) -> Option<&mut Outbox<P>> {
        if let Unsent::Reply(slot) = *self {
            *self = Unsent::Outbox(Box::new(Outbox::awaiting(slot)));
        }
        match self {
            Unsent::Outbox(outbox) => Some(outbox),
            Unsent::Nothing | Unsent::Reply(_) => None,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Unsent::Nothing)
    }

    pub(crate) fn holding(&self) -> ConnMemory {
        match self {
            Unsent::Nothing | Unsent::Reply(_) => ConnMemory::default(),
            Unsent::Outbox(outbox) => outbox.holding(),
        }
    }

    /// Counts the connection as closed for lack of memory.
    pub(crate) fn count_crowded_out(&self, budget: &ConnBudget) {
        let count = if self.is_nothing() { &budget.closed_receiving } else { &budget.closed_sending };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
