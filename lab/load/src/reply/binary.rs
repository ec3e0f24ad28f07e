//! Reading the packets of the binary protocol, as strictly as the lines of the text protocol: the command, the status,
//! all lengths and the order of the replies (each carries the opaque of its request), and of values what
//! [`Check`](super::Check) says.

use std::fmt::Write as _;

use super::{Check, Judge, Step, close_missed, excerpt};
use crate::counters::Counters;
use crate::reply_error::ReplyError;
use crate::request::{Awaited, Outbox};
use guira_protocol::binary::{HEADER_BYTES, Status, opcode};
use guira_protocol::client::{PacketReply, ReadPacket, read_packet};

/// The longest body that is no value: the text of an error, a key.
const TEXT_LEN_MAX: usize = 2048;

/// Statuses by which a server refuses a request that is right.
const REFUSALS: [Status; 5] =
    [Status::TooLarge, Status::NotStored, Status::OutOfMemory, Status::Busy, Status::TemporaryFailure];

#[derive(Debug, Clone, Copy)]
struct Packet<'a> {
    header: &'a [u8],
    reply: PacketReply<'a>,
    len: usize,
}

impl<'a> Packet<'a> {
    /// The packet that `input` begins with; none when it has not arrived altogether.
    fn read(input: &'a [u8], body_len_max: usize) -> Result<Option<Self>, ReplyError> {
        let header = &input[..input.len().min(HEADER_BYTES)];
        match read_packet(input, u32::try_from(body_len_max).unwrap_or(u32::MAX)) {
            ReadPacket::Reply(reply, len) => Ok(Some(Self { header, reply, len })),
            ReadPacket::Unfinished(_) => Ok(None),
            ReadPacket::Broken(problem) => Err(fault(problem, header)),
        }
    }

    fn flags(&self) -> Result<u32, ReplyError> {
        self.reply.flags().ok_or_else(|| fault("has no flags", self.header))
    }

    /// An error when a reply that is only a header has more than that.
    fn require_empty(&self) -> Result<(), ReplyError> {
        if self.reply.is_empty() { Ok(()) } else { Err(fault("has a body", self.header)) }
    }

    fn refused(&self, counters: &mut Counters) -> Result<(), ReplyError> {
        if !self.reply.status().is_some_and(|status| REFUSALS.contains(&status)) {
            return Err(fault("has a status that does not match the request", self.header));
        }
        counters.refused(|| format!("status {:#04x}: {}", self.reply.code, excerpt(self.reply.value)));
        Ok(())
    }
}

fn fault(problem: &'static str, header: &[u8]) -> ReplyError {
    let digits = header.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(digits, "{byte:02x}");
        digits
    });
    ReplyError::Packet { problem, header: digits }
}

impl Judge {
    /// Reads one packet, if it is complete, as a reply to the oldest open request.
    #[inline]
    pub(super) fn read_packet(
        &mut self,
        rest: &[u8],
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Result<Step, ReplyError> {
        let body_len_max = self.values.len_max() + TEXT_LEN_MAX;
        let Some(packet) = Packet::read(rest, body_len_max)? else { return Ok(Step::NeedMore) };
        let Some(&mut front) = outbox.front() else { return Err(ReplyError::Unasked(excerpt(rest))) };
        match (packet.reply.opcode, front.last_opcode) {
            (opcode::GETKQ, opcode::NOOP) => self.read_quiet(&packet, front, outbox, counters),
            (answered, awaited) if answered != awaited => {
                Err(fault("does not match the oldest request", packet.header))
            }
            (opcode::GET, _) => self.read_single(&packet, front, outbox, counters),
            (opcode::NOOP, _) => {
                packet.require_empty()?;
                let awaited = front.opaque.wrapping_add(front.keys_left);
                self.check_opaque(&packet, awaited, counters);
                close_missed(outbox, counters);
                Ok(Step::Finished(packet.len))
            }
            _ => {
                self.check_opaque(&packet, front.opaque, counters);
                match (packet.reply.opcode, packet.reply.status()) {
                    (opcode::SET | opcode::DELETE, Some(Status::Success)) => packet.require_empty()?,
                    (opcode::DELETE, Some(Status::KeyNotFound)) => {}
                    _ => packet.refused(counters)?,
                }
                Ok(Step::Finished(packet.len))
            }
        }
    }

    /// Whether `packet` carries the opaque `awaited`; anything else is a wrong reply, but not from the floor, which
    /// repeats one packet.
    fn check_opaque(&self, packet: &Packet<'_>, awaited: u32, counters: &mut Counters) -> bool {
        let is_right = self.check == Check::Framing || packet.reply.opaque == awaited;
        if !is_right {
            counters.wrong(|| {
                format!(
                    "a reply to command {:#04x} has opaque {}, not {awaited}",
                    packet.reply.opcode, packet.reply.opaque
                )
            });
        }
        is_right
    }

    /// A reply to the get of one key.
    fn read_single(
        &mut self,
        packet: &Packet<'_>,
        front: Awaited,
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Result<Step, ReplyError> {
        let is_right = self.check_opaque(packet, front.opaque, counters);
        match packet.reply.status() {
            Some(Status::Success) if !packet.reply.key.is_empty() => {
                return Err(fault("has a key", packet.header));
            }
            Some(Status::Success) if is_right => self.read_value(packet, outbox, counters)?,
            Some(Status::Success | Status::KeyNotFound) => close_missed(outbox, counters),
            _ => {
                packet.refused(counters)?;
                close_missed(outbox, counters);
            }
        }
        Ok(Step::Finished(packet.len))
    }

    /// A reply to one of the keys of a get of several; keys before it were missed.
    fn read_quiet(
        &mut self,
        packet: &Packet<'_>,
        front: Awaited,
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Result<Step, ReplyError> {
        if self.check == Check::Framing {
            if front.keys_left == 0 {
                return Err(fault("matches no pending key", packet.header));
            }
            self.read_value(packet, outbox, counters)?;
            return Ok(Step::Value(packet.len));
        }
        let skipped = packet.reply.opaque.wrapping_sub(front.opaque);
        if skipped >= front.keys_left {
            counters.wrong(|| {
                format!("received a value for opaque {}, which is not pending", packet.reply.opaque)
            });
            return Ok(Step::Value(packet.len));
        }
        for _ in 0..skipped {
            counters.counts.gets += 1;
            outbox.key_missed();
        }
        if packet.reply.status() != Some(Status::Success) {
            packet.refused(counters)?;
            counters.counts.gets += 1;
            outbox.key_missed();
        } else if outbox.front_key().is_none_or(|(_, key)| key != packet.reply.key) {
            counters.wrong(|| {
                format!("received a value for {:?}, which was not requested", excerpt(packet.reply.key))
            });
        } else {
            self.read_value(packet, outbox, counters)?;
        }
        Ok(Step::Value(packet.len))
    }

    /// Judges the value of the oldest open key, and closes that.
    fn read_value(
        &mut self,
        packet: &Packet<'_>,
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Result<(), ReplyError> {
        let flags = packet.flags()?;
        counters.counts.gets += 1;
        counters.counts.hits += 1;
        if self.check != Check::Framing
            && let Some((awaited, key)) = outbox.front_key()
        {
            self.judge_item(awaited.subject, key, flags.into(), packet.reply.value, counters);
        }
        outbox.key_found();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
