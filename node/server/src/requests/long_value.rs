//! Values that arrive in pieces.

use arrayvec::ArrayVec;
use guira_contract::PendingValue;
use guira_protocol::binary::{Packet, PacketStore};

/// The bytes after a value in the text protocols.
pub(crate) const LINE_END: &[u8; 2] = b"\r\n";

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
    pub(super) announcement: Announcement,
    pub(super) pending: D,
    /// The bytes after the value that have arrived.
    pub(super) end: ArrayVec<u8, { LINE_END.len() }>,
}

impl<D> LongValue<D> {
    pub(super) fn new(announcement: Announcement, pending: D) -> Self {
        LongValue { announcement, pending, end: ArrayVec::new() }
    }
}

impl<D: PendingValue> LongValue<D> {
    /// The memory it uses beside the engine's, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let announced = match &self.announcement {
            Announcement::Line(line) => line.len(),
            Announcement::Packet { key, .. } => key.len(),
        };
        size_of::<Self>() + announced
    }

    /// Bytes that have still to arrive, of the value and of what follows it.
    pub(super) fn missing(&self) -> (usize, usize) {
        (self.pending.missing(), self.announcement.end_len() - self.end.len())
    }
}
