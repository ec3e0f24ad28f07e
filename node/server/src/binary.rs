//! The binary protocol: packets in, batches of requests out; and values that arrive in pieces.

use crate::batch::{Batch, Kind};
use crate::interpreter::{Interpreter, Phase, ProtocolState};
use guira_commands::{Data, Incoming, Item, ItemPacket};
use guira_contract::{Key, PendingValue, Session};
use guira_protocol::binary::{
    Binary, BinaryFault, HEADER_BYTES, ItemOperation, Packet, PacketStore, REQUEST_MAGIC, reply_status,
};
use guira_serving::{Outbox, is_sasl};

/// What does not go into a batch.
#[derive(Debug)]
pub(crate) enum Special<'a> {
    /// It has not arrived altogether.
    Unfinished,
    /// It is no packet.
    NoPacket,
    /// It is about logging in.
    Login,
    /// It is wrong.
    Fault(Packet, BinaryFault),
    /// A store whose value has not arrived altogether, and its key.
    Incomplete(Packet, PacketStore, &'a [u8]),
}

/// A value that arrives in pieces.
#[derive(Debug)]
pub(crate) struct PacketValue<D> {
    packet: Packet,
    store: PacketStore,
    key: Box<[u8]>,
    pending: D,
}

impl<S: Session> Interpreter<S> {
    /// Reads and executes a batch of packets. Returns how many bytes were taken: none if more have to come.
    pub(crate) fn packets(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        self.read_and_run(state, outbox, |this, batch, at| this.read_packet(batch, input, at)).unwrap_or_else(
            |special| match special {
                Special::Login => self.log_in(state, input, outbox),
                other => self.special_packet(state, other, outbox),
            },
        )
    }

    /// Reads the packet at `at` into a batch, if it belongs into one.
    #[inline(always)]
    pub(crate) fn read_packet<'a, const N: usize>(
        &self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        input: &'a [u8],
        at: usize,
    ) -> Result<(), Special<'a>> {
        let input = input.get(at..).unwrap_or_default();
        if input.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
            return Err(Special::NoPacket);
        }
        let packet = Packet::read(input).ok_or(Special::Unfinished)?;
        let kind = packet.check().map_err(|fault| {
            if is_sasl(packet) && self.shared.users.is_some() {
                Special::Login
            } else {
                Special::Fault(packet, fault)
            }
        })?;
        let body = &input[HEADER_BYTES..];
        let head = body.get(..packet.head_len()).ok_or(Special::Unfinished)?;
        let end = at + HEADER_BYTES + head.len();
        let (key, operation) = match packet.command(kind, head) {
            Binary::Item { key, operation } => (key, operation),
            Binary::Server(operation) => {
                // Their lengths have been checked: there is no value.
                batch.push(Kind::ServerPacket(packet, operation), end);
                return Ok(());
            }
        };
        let Some(value) = body[head.len()..].get(..packet.value_len() as usize) else {
            return Err(match operation {
                ItemOperation::Store(store) => Special::Incomplete(packet, store, key),
                ItemOperation::Get { .. } | ItemOperation::Delete | ItemOperation::Arithmetic { .. } => {
                    Special::Unfinished
                }
            });
        };
        let item = Item::Packet(ItemPacket { packet, key, operation, value });
        self.push(batch, key, item, end + value.len());
        Ok(())
    }

    fn special_packet(
        &mut self,
        state: &mut ProtocolState<S>,
        special: Special<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        match special {
            Special::Unfinished | Special::Login => 0,
            Special::NoPacket => {
                state.phase = Phase::Over;
                0
            }
            Special::Fault(packet, fault) => {
                let (status, phase) = match fault {
                    BinaryFault::Swallow(status) if packet.body_len() == 0 => (status, Phase::Command),
                    BinaryFault::Swallow(status) => (status, Phase::Swallow(u64::from(packet.body_len()))),
                    BinaryFault::Close(status) => (status, Phase::Over),
                };
                reply_status(packet, status, 0, outbox);
                state.phase = phase;
                HEADER_BYTES
            }
            // This worker stores it, wherever its key is at home.
            Special::Incomplete(..) if outbox.open_slots() > 0 => 0,
            Special::Incomplete(packet, store, key) => {
                match self.executor.binary_receive(packet, &store, key, outbox) {
                    Incoming::Whole => return 0,
                    Incoming::Pending(pending) => {
                        let value = PacketValue { packet, store, key: key.into(), pending };
                        state.phase = Phase::PacketValue(Box::new(value));
                    }
                    // The value is not empty: some of it has not arrived.
                    Incoming::Refused => state.phase = Phase::Swallow(u64::from(packet.value_len())),
                }
                HEADER_BYTES + packet.head_len()
            }
        }
    }

    /// Takes a piece of a long value. Returns how many bytes were taken.
    pub(crate) fn packet_value(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Phase::PacketValue(value) = &mut state.phase else {
            return 0;
        };
        let missing = value.pending.missing();
        let part = input.len().min(missing);
        if self.executor.extend(&mut value.pending, &input[..part]).is_err() {
            let rest = match missing - part {
                0 => Phase::Command,
                left => Phase::Swallow(left as u64),
            };
            if let Phase::PacketValue(value) = std::mem::replace(&mut state.phase, rest) {
                self.executor.binary_give_up(value.packet, &value.store, &value.key, outbox);
            }
            return part;
        }
        if value.pending.missing() == 0
            && let Phase::PacketValue(value) = std::mem::take(&mut state.phase)
        {
            let PacketValue { packet, store, key, pending } = *value;
            let key = Key { bytes: &key, hash: self.executor.prefetch(&key) };
            let data = Data::Pending(pending);
            self.executor.binary_store(packet, &store, key, S::Guess::default(), data, outbox);
        }
        part
    }
}
