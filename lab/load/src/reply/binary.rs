//! Reading the packets of the binary protocol, as strictly as the lines of the text protocol: the command, the status,
//! all lengths and the order of the replies (each carries the opaque of its request), and of values what
//! [`Check`](super::Check) says.

use std::fmt::Write as _;

use super::{Check, Judge, Step, close_missed, excerpt};
use crate::counters::Counters;
use crate::reply_error::ReplyError;
use crate::request::binary::{DELETE, GET, GETKQ, HEADER_LEN, NOOP, RESPONSE, SET};
use crate::request::{Awaited, Outbox};

/// The longest body that is no value: the text of an error, a key.
const TEXT_LEN_MAX: usize = 2048;
const FLAGS_LEN: usize = 4;

const SUCCESS: u16 = 0x00;
const NOT_FOUND: u16 = 0x01;
/// Statuses by which a server refuses a request that is right: too large, not stored, no memory, busy, try again.
const REFUSALS: [u16; 5] = [0x03, 0x05, 0x82, 0x85, 0x86];

/// A whole packet.
#[derive(Debug, Clone, Copy)]
struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    opcode: u8,
    status: u16,
    opaque: u32,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    len: usize,
}

impl<'a> Packet<'a> {
    /// The packet that `input` begins with; none when it has not arrived altogether.
    fn read(input: &'a [u8], body_len_max: usize) -> Result<Option<Self>, ReplyError> {
        let Some(header) = input.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let [magic, opcode, k1, k0, extras_len, data_type, s1, s0, b3, b2, b1, b0, o3, o2, o1, o0, ..] =
            *header;
        let key_len = usize::from(u16::from_be_bytes([k1, k0]));
        let body_len = u32::from_be_bytes([b3, b2, b1, b0]) as usize;
        let head_len = usize::from(extras_len) + key_len;
        if magic != RESPONSE || data_type != 0 {
            return Err(fault("is not a reply", header));
        }
        if head_len > body_len || body_len > body_len_max {
            return Err(fault("has an impossible length", header));
        }
        let Some(body) = input[HEADER_LEN..].get(..body_len) else { return Ok(None) };
        let (extras, rest) = body.split_at(usize::from(extras_len));
        let (key, value) = rest.split_at(key_len);
        Ok(Some(Self {
            header,
            opcode,
            status: u16::from_be_bytes([s1, s0]),
            opaque: u32::from_be_bytes([o3, o2, o1, o0]),
            extras,
            key,
            value,
            len: HEADER_LEN + body_len,
        }))
    }

    /// The flags of a value.
    fn flags(&self) -> Result<u32, ReplyError> {
        let flags = self.extras.first_chunk().filter(|_| self.extras.len() == FLAGS_LEN);
        flags.map(|flags| u32::from_be_bytes(*flags)).ok_or_else(|| fault("has no flags", self.header))
    }

    /// An error when a reply that is only a header has more than that.
    fn require_empty(&self) -> Result<(), ReplyError> {
        if self.len == HEADER_LEN { Ok(()) } else { Err(fault("has a body", self.header)) }
    }

    /// Counts a refusal.
    fn refused(&self, counters: &mut Counters) -> Result<(), ReplyError> {
        if !REFUSALS.contains(&self.status) {
            return Err(fault("has a status that does not match the request", self.header));
        }
        counters.refused(|| format!("status {:#04x}: {}", self.status, excerpt(self.value)));
        Ok(())
    }
}

fn fault(problem: &'static str, header: &[u8; HEADER_LEN]) -> ReplyError {
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
        match (packet.opcode, front.last_opcode) {
            (GETKQ, NOOP) => self.read_quiet(&packet, front, outbox, counters),
            (opcode, awaited) if opcode != awaited => {
                Err(fault("does not match the oldest request", packet.header))
            }
            (GET, _) => self.read_single(&packet, front, outbox, counters),
            (NOOP, _) => {
                packet.require_empty()?;
                let awaited = front.opaque.wrapping_add(front.keys_left);
                self.check_opaque(&packet, awaited, counters);
                close_missed(outbox, counters);
                Ok(Step::Finished(packet.len))
            }
            _ => {
                self.check_opaque(&packet, front.opaque, counters);
                match (packet.opcode, packet.status) {
                    (SET | DELETE, SUCCESS) => packet.require_empty()?,
                    (DELETE, NOT_FOUND) => {}
                    _ => packet.refused(counters)?,
                }
                Ok(Step::Finished(packet.len))
            }
        }
    }

    /// Whether `packet` carries the opaque `awaited`; anything else is a wrong reply, but not from the floor, which
    /// repeats one packet.
    fn check_opaque(&self, packet: &Packet<'_>, awaited: u32, counters: &mut Counters) -> bool {
        let is_right = self.check == Check::Framing || packet.opaque == awaited;
        if !is_right {
            counters.wrong(|| {
                format!(
                    "a reply to command {:#04x} has opaque {}, not {awaited}",
                    packet.opcode, packet.opaque
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
        match packet.status {
            SUCCESS if !packet.key.is_empty() => return Err(fault("has a key", packet.header)),
            SUCCESS if is_right => self.read_value(packet, outbox, counters)?,
            SUCCESS | NOT_FOUND => close_missed(outbox, counters),
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
        let skipped = packet.opaque.wrapping_sub(front.opaque);
        if skipped >= front.keys_left {
            counters.wrong(|| format!("received a value for opaque {}, which is not pending", packet.opaque));
            return Ok(Step::Value(packet.len));
        }
        for _ in 0..skipped {
            counters.counts.gets += 1;
            outbox.key_missed();
        }
        if packet.status != SUCCESS {
            packet.refused(counters)?;
            counters.counts.gets += 1;
            outbox.key_missed();
        } else if outbox.front_key().is_none_or(|(_, key)| key != packet.key) {
            counters
                .wrong(|| format!("received a value for {:?}, which was not requested", excerpt(packet.key)));
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
            self.judge_item(awaited.subject, key, flags, packet.value, counters);
        }
        outbox.key_found();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
