//! The binary protocol: packets in, batches of requests out.

use super::batch::{Batch, Kind};
use super::interpreter::Interpreter;
use super::long_value::Announcement;
use super::reader::Reader;
use super::state::{Phase, ProtocolState};
use guira_commands::{Item, ItemPacket};
use guira_contract::Session;
use guira_protocol::binary::{
    Binary, BinaryFault, HEADER_BYTES, ItemOperation, Packet, PacketStore, REQUEST_MAGIC, reply_status,
};
use guira_serving::{Outbox, is_sasl};

/// Input that does not belong in a batch.
#[derive(Debug)]
pub(crate) enum Special<'a> {
    /// A packet of which a part has not arrived.
    Unfinished,
    /// Bytes that are no packet.
    NoPacket,
    /// A packet that is wrong, or not known to the server.
    Fault(Packet, BinaryFault),
    /// A store of whose value a part has not arrived, and its key.
    Incomplete(Packet, PacketStore, &'a [u8]),
}

impl<S: Session> Reader<'_, S> {
    /// Reads the packet at `at` into a batch, if it belongs into one.
    #[inline(always)]
    pub(crate) fn read_packet<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        input: &'a [u8],
        at: usize,
    ) -> Result<(), Special<'a>> {
        let input = input.get(at..).unwrap_or_default();
        if input.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
            return Err(Special::NoPacket);
        }
        let packet = Packet::read(input).ok_or(Special::Unfinished)?;
        let kind = packet.check().map_err(|fault| Special::Fault(packet, fault))?;
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
}

impl<S: Session> Interpreter<S> {
    /// Reads and executes a batch of packets. Returns how many bytes were taken: none if more have to come.
    pub(crate) fn packets(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let ran =
            self.runner.read_and_run(state, outbox, |reader, batch, at| reader.read_packet(batch, input, at));
        ran.unwrap_or_else(|special| {
            self.runner.meter.forget();
            match special {
                Special::Fault(packet, _) if is_sasl(packet) && self.runner.host.users.is_some() => {
                    self.log_in(state, input, outbox)
                }
                other => self.special_packet(state, other, outbox),
            }
        })
    }

    fn special_packet(
        &mut self,
        state: &mut ProtocolState<S>,
        special: Special<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        match special {
            Special::Unfinished => 0,
            Special::NoPacket => {
                state.phase = Phase::Over;
                0
            }
            Special::Fault(packet, fault) => {
                let (status, phase) = match fault {
                    BinaryFault::Swallow(status) => (status, Phase::skip(u64::from(packet.body_len()))),
                    BinaryFault::Close(status) => (status, Phase::Over),
                };
                reply_status(packet, status, 0, outbox);
                state.phase = phase;
                HEADER_BYTES
            }
            // This worker stores it, wherever its key is at home.
            Special::Incomplete(..) if outbox.open_slots() > 0 => 0,
            Special::Incomplete(packet, store, key) => {
                let whole_max = self.whole_max(state);
                let incoming = self.runner.executor.binary_receive(packet, &store, key, whole_max, outbox);
                let announcement = || Announcement::Packet { packet, store, key: key.into() };
                let (head, value) = (HEADER_BYTES + packet.head_len(), u64::from(packet.value_len()));
                state.phase.await_value(incoming, announcement, head, value)
            }
        }
    }
}
