//! The binary protocol.

use std::io;

use guira_protocol::binary::{Status, opcode};
use guira_protocol::client::{self, PacketReply, RequestHeader};

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

/// Appends a packet with extras, key and value.
pub(crate) fn packet(out: &mut Vec<u8>, opcode: u8, opaque: u32, cas: u64, parts: [&[u8]; 3]) {
    client::packet(RequestHeader { opcode, opaque, cas, ..RequestHeader::default() }, parts, out);
}

fn command(verb: Verb) -> u8 {
    match verb {
        Verb::Set | Verb::Cas(_) => opcode::SET,
        Verb::Add => opcode::ADD,
        Verb::Replace => opcode::REPLACE,
        Verb::Delete => opcode::DELETE,
        Verb::Increment(_) => opcode::INCR,
        Verb::Decrement(_) => opcode::DECR,
        Verb::Append => opcode::APPEND,
        Verb::Prepend => opcode::PREPEND,
        Verb::Touch => opcode::TOUCH,
        Verb::Gets => opcode::GET,
        Verb::Gat => opcode::GAT,
    }
}

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let opcode = command(*verb);
    match verb {
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas(_) => {
            let unique = if let Verb::Cas(unique) = verb { *unique } else { 0 };
            packet(out, opcode, 0, unique, [&client::store_extras(*flags, *ttl), name, value]);
        }
        Verb::Append | Verb::Prepend => packet(out, opcode, 0, 0, [&[], name, value]),
        Verb::Increment(by) | Verb::Decrement(by) => {
            packet(out, opcode, 0, 0, [&client::arithmetic_extras(*by), name, &[]]);
        }
        Verb::Touch | Verb::Gat => packet(out, opcode, 0, 0, [&ttl.to_be_bytes(), name, &[]]),
        Verb::Delete | Verb::Gets => packet(out, opcode, 0, 0, [&[], name, &[]]),
    }
}

fn hit(packet: &PacketReply<'_>) -> Hit {
    Hit { value: packet.value.to_vec(), flags: packet.flags().unwrap_or(0), cas: packet.cas }
}

pub(crate) fn read(request: &Request, wire: &mut Wire) -> io::Result<Answer> {
    let packet = match wire.packet()? {
        Ok(packet) => packet,
        Err(what) => return Ok(error_line(&what)),
    };
    if packet.opcode != command(request.verb) {
        return Ok(Answer::Strange(format!("an answer to {:#x}", packet.opcode)));
    }
    let text = String::from_utf8_lossy(packet.value).into_owned();
    let Some(status) = packet.status() else {
        return Ok(Answer::Strange(format!("status {:#x} {text}", packet.code)));
    };
    Ok(match (status, request.verb) {
        (Status::Success, Verb::Gets | Verb::Gat) => Answer::Hit(hit(&packet)),
        (Status::Success, Verb::Increment(_) | Verb::Decrement(_)) => {
            packet.number().map_or(Answer::Strange(text), Answer::Number)
        }
        (Status::Success, _) => Answer::Done,
        (Status::KeyExists, Verb::Add) | (Status::KeyNotFound, Verb::Replace) => Answer::NotStored,
        (Status::NotStored, _) => Answer::NotStored,
        (Status::KeyNotFound, _) => Answer::NotFound,
        (Status::KeyExists, _) => Answer::Exists,
        (Status::OutOfMemory | Status::TooLarge, _) => Answer::Refused(text),
        (status, _) => Answer::Strange(format!("status {status:?} {text}")),
    })
}

/// Writes a request for many keys: quiet ones, numbered by their opaque, and an end.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        packet(out, opcode::GETKQ, index as u32, 0, [&[], name, &[]]);
    }
    packet(out, opcode::NOOP, u32::MAX, 0, [&[], &[], &[]]);
}

pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    loop {
        let packet = match wire.packet()? {
            Ok(packet) => packet,
            Err(what) => return Ok(Err(what)),
        };
        let index = packet.opaque as usize;
        match (packet.opcode, packet.status()) {
            (opcode::NOOP, Some(Status::Success)) if packet.opaque == u32::MAX => return Ok(Ok(seen)),
            (opcode::GETKQ, Some(Status::Success))
                if names.get(index).is_some_and(|name| name == packet.key) =>
            {
                seen[index] = Seen::Hit(hit(&packet));
            }
            (opcode::GETKQ, Some(Status::OutOfMemory)) if index < seen.len() => seen[index] = Seen::Refused,
            (opcode, _) => {
                let status = packet.code;
                return Ok(Err(format!("a packet {opcode:#x} with status {status:#x} and opaque {index}")));
            }
        }
    }
}
