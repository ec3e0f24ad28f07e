//! Encodes requests in the binary protocol: packets with a header of 24 bytes.
//!
//! A get of one key is a `Get`, which always has a reply. A get of several keys is what client
//! libraries send: a `GetKQ` for each key, which has a reply only for a hit, with the key; and a
//! `Noop` that ends it.

use super::{AwaitedKey, Command, ItemStyle, Outbox};
use crate::source::{Source, Subject};
use guira_protocol::binary::{HEADER_BYTES, opcode};
use guira_protocol::client::{self, RequestHeader};

/// The length of flags and expiration time in a set.
const SET_EXTRAS_LEN: usize = 8;
/// The length of a set packet before its key.
pub(super) const BEFORE_SET_KEY: usize = HEADER_BYTES + SET_EXTRAS_LEN;

/// The command of the last reply to a request, and the number of packets of the request.
pub(super) const fn replies(command: Command, keys: u32) -> (u8, u32) {
    match command {
        Command::Get if keys == 1 => (opcode::GET, 1),
        Command::Get => (opcode::NOOP, keys + 1),
        Command::Set | Command::Fill => (opcode::SET, 1),
        Command::Delete => (opcode::DELETE, 1),
    }
}

impl Outbox {
    /// Appends a packet with only a key; returns the key's description.
    #[inline]
    fn push_key_packet<S: Source>(&mut self, source: &mut S, command: u8, opaque: u32) -> AwaitedKey {
        let packet = self.bytes.len();
        let at = packet + HEADER_BYTES;
        self.bytes.resize(at, 0);
        let subject = source.append_key(&mut self.bytes);
        let len = self.bytes.len() - at;
        let header =
            RequestHeader { opcode: command, opaque, key_len: len as u16, ..RequestHeader::default() };
        self.bytes[packet..at].copy_from_slice(&header.bytes());
        AwaitedKey { subject, at, len }
    }

    /// Appends a get of `keys` keys.
    #[inline]
    pub(super) fn push_get_packets<S: Source>(&mut self, source: &mut S, keys: u32) {
        let command = if keys == 1 { opcode::GET } else { opcode::GETKQ };
        for index in 0..keys {
            let key = self.push_key_packet(source, command, self.next_opaque.wrapping_add(index));
            self.keys.push_back(key);
        }
        if keys != 1 {
            let opaque = self.next_opaque.wrapping_add(keys);
            let header = RequestHeader { opcode: opcode::NOOP, opaque, ..RequestHeader::default() };
            self.bytes.extend_from_slice(&header.bytes());
        }
    }

    pub(super) fn push_delete_packet<S: Source>(&mut self, source: &mut S) {
        self.push_key_packet(source, opcode::DELETE, self.next_opaque);
    }

    /// Completes the set that starts at `at` and ends with its key.
    pub(super) fn finish_set_packet(&mut self, at: usize, subject: Subject, value: &[u8], style: ItemStyle) {
        let key_len = self.bytes.len() - at - BEFORE_SET_KEY;
        let header = RequestHeader {
            opcode: opcode::SET,
            opaque: self.next_opaque,
            cas: 0,
            extras_len: SET_EXTRAS_LEN as u8,
            key_len: key_len as u16,
            value_len: value.len() as u32,
        };
        let packet = &mut self.bytes[at..at + BEFORE_SET_KEY];
        packet[..HEADER_BYTES].copy_from_slice(&header.bytes());
        packet[HEADER_BYTES..].copy_from_slice(&client::store_extras(style.flags, subject.exptime));
        self.bytes.extend_from_slice(value);
    }
}
