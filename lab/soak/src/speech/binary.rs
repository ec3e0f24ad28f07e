//! The binary protocol.

use std::io;

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

pub(crate) const HEADER: usize = 24;

const GET: u8 = 0x00;
const NOOP: u8 = 0x0a;
const GETKQ: u8 = 0x0d;
const GAT: u8 = 0x1d;

/// The status of what was refused for want of memory.
const OUT_OF_MEMORY: u16 = 0x82;

/// Counting creates nothing.
const CREATE_NOTHING: u32 = u32::MAX;

struct Packet {
    opcode: u8,
    status: u16,
    opaque: u32,
    cas: u64,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

pub(crate) fn packet(out: &mut Vec<u8>, opcode: u8, opaque: u32, cas: u64, parts: [&[u8]; 3]) {
    let [extras, key, value] = parts;
    out.extend([0x80, opcode]);
    out.extend((key.len() as u16).to_be_bytes());
    out.extend([extras.len() as u8, 0, 0, 0]);
    out.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    out.extend(opaque.to_be_bytes());
    out.extend(cas.to_be_bytes());
    out.extend(parts.concat());
}

fn opcode(verb: Verb) -> u8 {
    match verb {
        Verb::Set | Verb::Cas(_) => 0x01,
        Verb::Add => 0x02,
        Verb::Replace => 0x03,
        Verb::Delete => 0x04,
        Verb::Increment(_) => 0x05,
        Verb::Decrement(_) => 0x06,
        Verb::Append => 0x0e,
        Verb::Prepend => 0x0f,
        Verb::Touch => 0x1c,
        Verb::Gets => GET,
        Verb::Gat => GAT,
    }
}

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let (opcode, ttl) = (opcode(*verb), ttl.to_be_bytes());
    match verb {
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas(_) => {
            let unique = if let Verb::Cas(unique) = verb { *unique } else { 0 };
            packet(out, opcode, 0, unique, [&[flags.to_be_bytes(), ttl].concat(), name, value]);
        }
        Verb::Append | Verb::Prepend => packet(out, opcode, 0, 0, [&[], name, value]),
        Verb::Increment(by) | Verb::Decrement(by) => {
            let extras =
                [&by.to_be_bytes()[..], &0_u64.to_be_bytes(), &CREATE_NOTHING.to_be_bytes()].concat();
            packet(out, opcode, 0, 0, [&extras, name, &[]]);
        }
        Verb::Touch | Verb::Gat => packet(out, opcode, 0, 0, [&ttl, name, &[]]),
        Verb::Delete | Verb::Gets => packet(out, opcode, 0, 0, [&[], name, &[]]),
    }
}

fn next(wire: &mut Wire) -> io::Result<Result<Packet, String>> {
    let header = wire.bytes(HEADER)?;
    if header[0] != 0x81 {
        return Ok(Err(format!("no packet begins with {}", String::from_utf8_lossy(&header))));
    }
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap_or_default());
    let (key, extras, body) = (short(2) as usize, header[4] as usize, word(8) as usize);
    if key + extras > body || body > 2 << 20 {
        return Ok(Err(format!("a packet with these lengths: {key} {extras} {body}")));
    }
    let mut rest = wire.bytes(body)?;
    let value = rest.split_off(extras + key);
    let key = rest.split_off(extras);
    let cas = u64::from_be_bytes(header[16..24].try_into().unwrap_or_default());
    Ok(Ok(Packet { opcode: header[1], status: short(6), opaque: word(12), cas, extras: rest, key, value }))
}

fn hit(packet: Packet) -> Hit {
    let flags = packet.extras.first_chunk().copied().map_or(0, u32::from_be_bytes);
    Hit { value: packet.value, flags, cas: packet.cas }
}

pub(crate) fn read(request: &Request, wire: &mut Wire) -> io::Result<Answer> {
    let packet = match next(wire)? {
        Ok(packet) => packet,
        Err(what) => return Ok(error_line(&what)),
    };
    if packet.opcode != opcode(request.verb) {
        return Ok(Answer::Strange(format!("an answer to {:#x}", packet.opcode)));
    }
    let text = String::from_utf8_lossy(&packet.value).into_owned();
    Ok(match (packet.status, request.verb) {
        (0, Verb::Gets | Verb::Gat) => Answer::Hit(hit(packet)),
        (0, Verb::Increment(_) | Verb::Decrement(_)) => {
            let number = packet.value.first_chunk().copied().map(u64::from_be_bytes);
            number.map_or(Answer::Strange(text), Answer::Number)
        }
        (0, _) => Answer::Done,
        (2, Verb::Add) | (1, Verb::Replace) | (5, _) => Answer::NotStored,
        (1, _) => Answer::NotFound,
        (2, _) => Answer::Exists,
        (OUT_OF_MEMORY | 0x03, _) => Answer::Refused(text),
        (status, _) => Answer::Strange(format!("status {status:#x} {text}")),
    })
}

/// Writes a request for many keys: quiet ones, numbered by their opaque, and an end.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        packet(out, GETKQ, index as u32, 0, [&[], name, &[]]);
    }
    packet(out, NOOP, u32::MAX, 0, [&[], &[], &[]]);
}

pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    loop {
        let packet = match next(wire)? {
            Ok(packet) => packet,
            Err(what) => return Ok(Err(what)),
        };
        let index = packet.opaque as usize;
        match (packet.opcode, packet.status) {
            (NOOP, 0) if packet.opaque == u32::MAX => return Ok(Ok(seen)),
            (GETKQ, 0) if names.get(index).is_some_and(|name| *name == packet.key) => {
                seen[index] = Seen::Hit(hit(packet));
            }
            (GETKQ, OUT_OF_MEMORY) if index < seen.len() => seen[index] = Seen::Refused,
            (opcode, status) => {
                return Ok(Err(format!("a packet {opcode:#x} with status {status:#x} and opaque {index}")));
            }
        }
    }
}
