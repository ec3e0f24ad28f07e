//! Datagrams that are under way, with what is needed to send them again.

use super::courier::Ticket;
use guira_protocol::mica::{DATAGRAM_HEADER, Operation, Record, RequestWriter};
use guira_transport::PAYLOAD_MAX;
use std::time::Duration;

/// What becomes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Requests are added.
    Open,
    /// It is complete, and waits to be sent.
    Sealed,
    /// It was sent and is not answered yet.
    Sent,
}

/// A datagram.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    /// Which datagram it is: the slot's number, and how often it was used.
    pub(super) sequence: u32,
    pub(super) core: usize,
    /// How often its requests were sent before.
    pub(super) tries: u32,
    /// How often its answer was waited for in vain. What may be sent again was then, in other slots: only the rest is still waited for.
    pub(super) waits: u32,
    pub(super) tickets: Vec<Ticket>,
    pub(super) length: usize,
    pub(super) bytes: Box<[u8]>,
}

impl Slot {
    /// Adds a request, if there is room.
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

    /// It is complete.
    pub(super) fn seal(&mut self, generation: u32, opaque: u64) {
        let count = self.tickets.len() as u16;
        RequestWriter::resume(&mut self.bytes, self.length, count).finish(generation, self.sequence, opaque);
        self.state = State::Sealed;
    }

    /// Its requests that are still waited for, each with its place in the datagram.
    pub(super) fn records(&self) -> impl Iterator<Item = (usize, Ticket, Record<'_>)> {
        let mut at = DATAGRAM_HEADER;
        let all = self.tickets.iter().enumerate().map_while(move |(place, ticket)| {
            let (record, next) = Record::read(&self.bytes[..self.length], at)?;
            at = next;
            Some((place, *ticket, record))
        });
        all.filter(|(_, _, record)| self.waits == 0 || !may_repeat(record))
    }

    /// Whether requests are waited for that may not be sent again.
    pub(super) fn has_unrepeatable(&self) -> bool {
        self.records().any(|(_, _, record)| !may_repeat(&record))
    }
}

/// Whether it may be sent again when no answer came.
pub(super) fn may_repeat(record: &Record<'_>) -> bool {
    record.operation.is_some_and(Operation::is_idempotent)
}

/// All datagrams that are under way.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<usize>,
}

impl Slots {
    /// Room for so many datagrams; a power of two.
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
        // The one that was used last is used first: it is warm.
        Slots { slots: (0..window).map(slot).collect(), vacant: (0..window).rev().collect() }
    }

    /// Opens a slot for thread `core`, if there is one.
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

    /// A slot is done with.
    pub(super) fn close(&mut self, index: usize) {
        self.slots[index].state = State::Free;
        self.vacant.push(index);
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// The slot of the datagram with this number, if that was sent and is not answered.
    #[inline(always)]
    pub(super) fn of(&mut self, sequence: u32) -> Option<usize> {
        let index = sequence as usize & (self.slots.len() - 1);
        let slot = &self.slots[index];
        (slot.sequence == sequence && slot.state == State::Sent).then_some(index)
    }
}

/// Until when an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline {
    pub(super) at: Duration,
    pub(super) sequence: u32,
}
