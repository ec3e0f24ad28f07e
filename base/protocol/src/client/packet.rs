//! Packets of the binary protocol.

use crate::binary::{HEADER_BYTES, NO_INITIAL, REQUEST_MAGIC, RESPONSE_MAGIC, Status};

/// The header of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The command, one of [`crate::binary::opcode`].
    pub opcode: u8,
    /// The number that the reply repeats.
    pub opaque: u32,
    /// The cas unique to compare with; 0 for none.
    pub cas: u64,
    /// Length of the extras, in bytes.
    pub extras_len: u8,
    /// Length of the key, in bytes.
    pub key_len: u16,
    /// Length of the value, in bytes.
    pub value_len: u32,
}

impl RequestHeader {
    /// The encoded header. The body has to be shorter than 4 GiB.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let body = self.value_len.wrapping_add(u32::from(self.extras_len) + u32::from(self.key_len));
        (header[0], header[1], header[4]) = (REQUEST_MAGIC, self.opcode, self.extras_len);
        header[2..4].copy_from_slice(&self.key_len.to_be_bytes());
        header[8..12].copy_from_slice(&body.to_be_bytes());
        header[12..16].copy_from_slice(&self.opaque.to_be_bytes());
        header[16..24].copy_from_slice(&self.cas.to_be_bytes());
        header
    }
}

/// Appends a packet with these extras, key and value. Their lengths replace those of `header`; a part that is longer
/// than its length field can say makes a malformed packet.
pub fn packet(header: RequestHeader, [extras, key, value]: [&[u8]; 3], out: &mut Vec<u8>) {
    let (extras_len, key_len, value_len) = (extras.len() as u8, key.len() as u16, value.len() as u32);
    out.extend_from_slice(&RequestHeader { extras_len, key_len, value_len, ..header }.bytes());
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The extras of set, add and replace. The expiration time is as in the text protocol, without negative ones.
#[inline]
pub fn store_extras(flags: u32, exptime: u32) -> [u8; 8] {
    (u64::from(flags) << 32 | u64::from(exptime)).to_be_bytes()
}

/// The extras of incr and decr of an existing item.
pub fn arithmetic_extras(delta: u64) -> [u8; 20] {
    let mut extras = [0; 20];
    extras[..8].copy_from_slice(&delta.to_be_bytes());
    extras[16..].copy_from_slice(&NO_INITIAL.to_be_bytes());
    extras
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReply<'a> {
    /// The command that the reply is for.
    pub opcode: u8,
    /// The result; [`PacketReply::status`] gives it a name.
    pub code: u16,
    /// The number of the request.
    pub opaque: u32,
    /// The cas unique of the item.
    pub cas: u64,
    /// The extras.
    pub extras: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// The value, or the text of an error.
    pub value: &'a [u8],
}

impl PacketReply<'_> {
    /// The result; `None` if it is none that is specified.
    #[inline]
    pub fn status(&self) -> Option<Status> {
        Status::of(self.code)
    }

    /// The client's flags of a value; `None` if the extras are anything else.
    #[inline]
    pub fn flags(&self) -> Option<u32> {
        <[u8; 4]>::try_from(self.extras).ok().map(u32::from_be_bytes)
    }

    /// The number in the reply to incr or decr; `None` if the value has another length.
    pub fn number(&self) -> Option<u64> {
        <[u8; 8]>::try_from(self.value).ok().map(u64::from_be_bytes)
    }

    /// Whether the reply is nothing but a header.
    pub fn is_empty(&self) -> bool {
        self.extras.is_empty() && self.key.is_empty() && self.value.is_empty()
    }
}

/// The result of [`read_packet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPacket<'a> {
    /// The first reply, and its length in bytes.
    Reply(PacketReply<'a>, usize),
    /// The reply has not arrived altogether. It has at least this many bytes.
    Unfinished(usize),
    /// No server sends this, for the reason given: the connection has to be closed.
    Broken(&'static str),
}

/// Reads the first reply. Its body may have `body_max` bytes.
#[inline]
pub fn read_packet(input: &[u8], body_max: u32) -> ReadPacket<'_> {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
        return ReadPacket::Unfinished(HEADER_BYTES);
    };
    let [magic, opcode, k1, k0, extras_len, data_type, s1, s0, b3, b2, b1, b0, o3, o2, o1, o0, cas @ ..] =
        *header;
    let (extras_len, key_len) = (usize::from(extras_len), usize::from(u16::from_be_bytes([k1, k0])));
    let body_len = u32::from_be_bytes([b3, b2, b1, b0]);
    if magic != RESPONSE_MAGIC || data_type != 0 {
        return ReadPacket::Broken("is not a reply");
    }
    if extras_len + key_len > body_len as usize || body_len > body_max {
        return ReadPacket::Broken("has an impossible length");
    }
    let length = HEADER_BYTES + body_len as usize;
    let Some(body) = input.get(HEADER_BYTES..length) else {
        return ReadPacket::Unfinished(length);
    };
    let (extras, rest) = body.split_at(extras_len);
    let (key, value) = rest.split_at(key_len);
    let reply = PacketReply {
        opcode,
        code: u16::from_be_bytes([s1, s0]),
        opaque: u32::from_be_bytes([o3, o2, o1, o0]),
        cas: u64::from_be_bytes(cas),
        extras,
        key,
        value,
    };
    ReadPacket::Reply(reply, length)
}

#[cfg(test)]
mod tests;
