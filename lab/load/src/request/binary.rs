//! The spelling of the binary protocol: packets with a header of 24 bytes.
//!
//! A get of one key is a `Get`, which is always answered. A get of several is what client libraries send: a `GetKQ` for
//! each key, which is answered only when it finds something and then with its key, and a `Noop` that ends it.

use super::{AwaitedKey, Command, ItemStyle, Outbox};
use crate::source::{Source, Subject};

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 24;
/// The first byte of a request.
pub(crate) const REQUEST: u8 = 0x80;
/// The first byte of a reply.
pub(crate) const RESPONSE: u8 = 0x81;
/// A get of one key.
pub(crate) const GET: u8 = 0x00;
/// A set.
pub(crate) const SET: u8 = 0x01;
/// A delete.
pub(crate) const DELETE: u8 = 0x04;
/// Nothing, which is answered.
pub(crate) const NOOP: u8 = 0x0a;
/// A get that is silent about a miss and tells the key of a hit.
pub(crate) const GETKQ: u8 = 0x0d;

/// Flags and expiry of a set.
const SET_EXTRAS_LEN: usize = 8;
/// What stands before the key of a set.
pub(super) const BEFORE_SET_KEY: usize = HEADER_LEN + SET_EXTRAS_LEN;

/// The command of the last reply to a request, and how many packets the request has.
pub(super) const fn replies(command: Command, keys: u32) -> (u8, u32) {
    match command {
        Command::Get if keys == 1 => (GET, 1),
        Command::Get => (NOOP, keys + 1),
        Command::Set | Command::Fill => (SET, 1),
        Command::Delete => (DELETE, 1),
    }
}

/// What a header says beside its magic.
#[derive(Debug, Clone, Copy)]
struct Header {
    opcode: u8,
    extras_len: usize,
    key_len: usize,
    value_len: usize,
    opaque: u32,
}

impl Header {
    /// Writes the header to the first bytes of `packet`. Lengths fit their fields: a key has at most 250 bytes, a
    /// value less than 4 GiB.
    fn write(self, packet: &mut [u8]) {
        let body_len = self.extras_len + self.key_len + self.value_len;
        packet[0] = REQUEST;
        packet[1] = self.opcode;
        packet[2..4].copy_from_slice(&(self.key_len as u16).to_be_bytes());
        packet[4] = self.extras_len as u8;
        packet[8..12].copy_from_slice(&(body_len as u32).to_be_bytes());
        packet[12..16].copy_from_slice(&self.opaque.to_be_bytes());
    }
}

impl Outbox {
    /// Appends a packet that has only a key; returns what is known of the key.
    #[inline]
    fn push_key_packet<S: Source>(&mut self, source: &mut S, opcode: u8, opaque: u32) -> AwaitedKey {
        let packet = self.bytes.len();
        let at = packet + HEADER_LEN;
        self.bytes.resize(at, 0);
        let subject = source.append_key(&mut self.bytes);
        let len = self.bytes.len() - at;
        Header { opcode, extras_len: 0, key_len: len, value_len: 0, opaque }.write(&mut self.bytes[packet..]);
        AwaitedKey { subject, at, len }
    }

    /// Appends a get of `keys` keys.
    #[inline]
    pub(super) fn push_get_packets<S: Source>(&mut self, source: &mut S, keys: u32) {
        let opcode = if keys == 1 { GET } else { GETKQ };
        for index in 0..keys {
            let key = self.push_key_packet(source, opcode, self.next_opaque.wrapping_add(index));
            self.keys.push_back(key);
        }
        if keys != 1 {
            let at = self.bytes.len();
            self.bytes.resize(at + HEADER_LEN, 0);
            let opaque = self.next_opaque.wrapping_add(keys);
            Header { opcode: NOOP, extras_len: 0, key_len: 0, value_len: 0, opaque }
                .write(&mut self.bytes[at..]);
        }
    }

    /// Appends a delete.
    pub(super) fn push_delete_packet<S: Source>(&mut self, source: &mut S) {
        self.push_key_packet(source, DELETE, self.next_opaque);
    }

    /// Completes the set that begins at `at` and ends with its key.
    pub(super) fn finish_set_packet(&mut self, at: usize, subject: Subject, value: &[u8], style: ItemStyle) {
        let key_len = self.bytes.len() - at - BEFORE_SET_KEY;
        let packet = &mut self.bytes[at..];
        Header {
            opcode: SET,
            extras_len: SET_EXTRAS_LEN,
            key_len,
            value_len: value.len(),
            opaque: self.next_opaque,
        }
        .write(packet);
        packet[24..28].copy_from_slice(&style.flags.to_be_bytes());
        packet[28..32].copy_from_slice(&subject.exptime.to_be_bytes());
        self.bytes.extend_from_slice(value);
    }
}
