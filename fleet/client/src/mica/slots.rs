//! Datagrams in flight, with their requests, to send them again.

use super::request::Ticket;
use guira_protocol::mica::{DATAGRAM_HEADER, Operation, Record, RequestWriter};
use guira_transport::PAYLOAD_MAX;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Open,
    /// The datagram is complete and has not been sent.
    Sealed,
    /// The datagram was sent and has not been answered.
    Sent,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    /// The datagram's sequence number: the slot's index, and how often it was used.
    pub(super) sequence: u32,
    pub(super) core: usize,
    /// How often its requests were sent before.
    pub(super) tries: u32,
    /// The number of timeouts. After each, the idempotent requests were sent again in other slots: only the others
    /// still wait for this datagram's reply.
    pub(super) waits: u32,
    pub(super) tickets: Vec<Ticket>,
    pub(super) length: usize,
    pub(super) bytes: Box<[u8]>,
}

impl Slot {
    /// Adds a request, if it fits.
    #[inline(always)]
    pub(super) fn push(&mut self, record: &Record<'_>, ticket: Ticket) -> bool {
        let mut writer = RequestWriter::resume(&mut self.bytes, self.length, self.tickets.len() as u16);
        let pushed = writer.push(record);
        if pushed {
            self.length = writer.at();
            self.tickets.push(ticket);
        }
        pushed
    }

    pub(super) fn seal(&mut self, generation: u32, opaque: u64) {
        let count = self.tickets.len() as u16;
        RequestWriter::resume(&mut self.bytes, self.length, count).finish(generation, self.sequence, opaque);
        self.state = State::Sealed;
    }

    /// The requests that still wait for a reply, each with its index in the datagram.
    pub(super) fn records(&self) -> impl Iterator<Item = (usize, Ticket, Record<'_>)> {
        let mut at = DATAGRAM_HEADER;
        let all = self.tickets.iter().enumerate().map_while(move |(place, ticket)| {
            let (record, next) = Record::read(&self.bytes[..self.length], at)?;
            at = next;
            Some((place, *ticket, record))
        });
        all.filter(|(_, _, record)| self.waits == 0 || !may_retry(record))
    }

    /// Whether a request that may not be sent again waits for a reply.
    pub(super) fn has_unretryable(&self) -> bool {
        self.records().any(|(_, _, record)| !may_retry(&record))
    }
}

/// Whether the request may be sent again when no reply arrived.
pub(super) fn may_retry(record: &Record<'_>) -> bool {
    record.operation.is_some_and(Operation::is_idempotent)
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<usize>,
}

impl Slots {
    /// Slots for `window` datagrams; a power of two.
    pub(super) fn new(window: usize) -> Self {
        let window = window.next_power_of_two();
        let slot = |number: usize| Slot {
            state: State::Free,
            sequence: number as u32,
            core: 0,
            tries: 0,
            waits: 0,
            tickets: Vec::new(),
            length: DATAGRAM_HEADER,
            bytes: vec![0; PAYLOAD_MAX].into_boxed_slice(),
        };
        // The slot that was used last is used first: it is in the cache.
        Slots { slots: (0..window).map(slot).collect(), vacant: (0..window).rev().collect() }
    }

    /// Opens a slot for thread `core`, if one is free.
    pub(super) fn open(&mut self, core: usize, tries: u32) -> Option<usize> {
        let index = self.vacant.pop()?;
        let window = self.slots.len() as u32;
        let slot = &mut self.slots[index];
        slot.state = State::Open;
        slot.sequence = slot.sequence.wrapping_add(window);
        (slot.core, slot.tries, slot.waits, slot.length) = (core, tries, 0, DATAGRAM_HEADER);
        slot.tickets.clear();
        Some(index)
    }

    pub(super) fn close(&mut self, index: usize) {
        self.slots[index].state = State::Free;
        self.vacant.push(index);
    }

    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// The slot of the datagram with this sequence number, if it was sent and not answered.
    #[inline(always)]
    pub(super) fn of(&mut self, sequence: u32) -> Option<usize> {
        let index = sequence as usize & (self.slots.len() - 1);
        let slot = &self.slots[index];
        (slot.sequence == sequence && slot.state == State::Sent).then_some(index)
    }
}

/// The end of the wait for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline {
    pub(super) at: Duration,
    pub(super) sequence: u32,
}
