//! Stores in any protocol whose value arrives in pieces.

use crate::interpreter::{Interpreter, Phase, ProtocolState};
use arrayvec::ArrayVec;
use guira_commands::{Data, Incoming};
use guira_contract::{Key, PendingValue, Session};
use guira_protocol::binary::{Packet, PacketStore};
use guira_serving::Outbox;

/// What follows the value in the text protocols.
pub(crate) const LINE_END: &[u8; 2] = b"\r\n";

/// The longest value that a connection holds until it has arrived altogether while memory for connections is short. A longer one goes to the engine's
/// memory as it arrives, of which there is more.
const WHOLE_MAX_SHORT: usize = 512;

/// What announced a value.
#[derive(Debug)]
pub(crate) enum Announcement {
    /// A command line, without its end.
    Line(Box<[u8]>),
    Packet {
        packet: Packet,
        store: PacketStore,
        key: Box<[u8]>,
    },
}

impl Announcement {
    /// Bytes that follow the value.
    fn end_len(&self) -> usize {
        match self {
            Announcement::Line(_) => LINE_END.len(),
            Announcement::Packet { .. } => 0,
        }
    }
}

/// A value that arrives in pieces.
#[derive(Debug)]
pub(crate) struct LongValue<D> {
    announcement: Announcement,
    pending: D,
    /// What follows the value, as far as it has arrived.
    end: ArrayVec<u8, { LINE_END.len() }>,
}

impl<D: PendingValue> LongValue<D> {
    /// Bytes of memory that it takes beside the engine's.
    pub(crate) fn bytes(&self) -> usize {
        let announced = match &self.announcement {
            Announcement::Line(line) => line.len(),
            Announcement::Packet { key, .. } => key.len(),
        };
        size_of::<Self>() + announced
    }

    /// Bytes that have still to arrive, of the value and of what follows it.
    fn missing(&self) -> (usize, usize) {
        (self.pending.missing(), self.announcement.end_len() - self.end.len())
    }
}

impl<D> Phase<D> {
    /// Sets what comes after the head of a store, of `head` bytes; `value` is the length of its value with what follows it.
    /// Returns how many bytes were taken: none if the store is received whole.
    pub(crate) fn await_value(
        &mut self,
        incoming: Incoming<D>,
        announcement: impl FnOnce() -> Announcement,
        head: usize,
        value: u64,
    ) -> usize {
        *self = match incoming {
            Incoming::Whole => return 0,
            Incoming::Pending(pending) => {
                let (announcement, end) = (announcement(), ArrayVec::new());
                Phase::Value(Box::new(LongValue { announcement, pending, end }))
            }
            Incoming::Refused => Phase::skip(value),
        };
        head
    }
}

impl<S: Session> Interpreter<S> {
    /// The longest value that a connection may hold until it has arrived altogether. What a datagram lacks does not come.
    pub(crate) fn whole_max(&self, state: &ProtocolState<S>) -> usize {
        if state.sender.is_some() && self.shared.budget.is_short() { WHOLE_MAX_SHORT } else { usize::MAX }
    }

    /// Takes a piece of a long value. Returns how many bytes were taken.
    pub(crate) fn value(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Phase::Value(value) = &mut state.phase else {
            return 0;
        };
        let (missing, end_missing) = value.missing();
        let (piece, rest) = input.split_at(input.len().min(missing));
        if self.executor.extend(&mut value.pending, piece).is_err() {
            let left = missing - piece.len() + end_missing;
            if let Phase::Value(value) = std::mem::replace(&mut state.phase, Phase::skip(left as u64)) {
                self.give_up(&value.announcement, outbox);
            }
            return piece.len();
        }
        let end = &rest[..rest.len().min(end_missing)];
        value.end.extend(end.iter().copied());
        if value.missing() == (0, 0)
            && let Phase::Value(value) = std::mem::take(&mut state.phase)
        {
            self.finish_value(*value, outbox);
        }
        piece.len() + end.len()
    }

    /// There is no memory for the rest of a value.
    fn give_up(&mut self, announcement: &Announcement, outbox: &mut Outbox<S::Pin>) {
        match announcement {
            Announcement::Line(line) => self.give_up_line(line, outbox),
            Announcement::Packet { packet, store, key } => {
                self.executor.binary_give_up(*packet, store, key, outbox);
            }
        }
    }

    fn finish_value(&mut self, value: LongValue<S::Pending>, outbox: &mut Outbox<S::Pin>) {
        let LongValue { announcement, pending, end } = value;
        self.begin_uses(1);
        match announcement {
            Announcement::Line(line) => self.store_line(&line, pending, &end, outbox),
            Announcement::Packet { packet, store, key } => {
                let key = Key { bytes: &key, hash: self.executor.prefetch(&key) };
                let data = Data::Pending(pending);
                self.executor.binary_store(packet, &store, key, S::Guess::default(), data, outbox);
            }
        }
        self.end_uses();
    }
}
