//! Requests, as servers read them.

use guira_protocol::client::{self, Item, has_flag, words};
use guira_protocol::{Direction, Exptime, GetForm, KEY_MAX, KeyBuffer, MetaVerb, Unique, Verb, encode_key};
use guira_routing::{Dialect, Group, Op, Request};

/// The longest key whose base64 fits into a line.
const BASE64_KEY_MAX: usize = KEY_MAX / 4 * 3;

/// Flags of a store that all versions of memcached take.
const STORE_FLAGS_MAX: usize = 16;

/// Whether the request's key and flags fit in a line. A server that refuses the line of a store may
/// execute the value behind it as commands.
#[inline]
pub fn can_be_sent(request: &Request<'_>) -> bool {
    request.dialect == Dialect::Classic || fits_in_a_line(request)
}

fn fits_in_a_line(request: &Request<'_>) -> bool {
    let has_room = request.key.len() <= BASE64_KEY_MAX || !has_flag(request.meta, b'b');
    let is_short = request.op.group() != Group::Update || {
        let time = usize::from(request.exptime != 0 && !has_flag(request.meta, b'T'));
        words(request.meta).count() + time <= STORE_FLAGS_MAX
    };
    has_room && is_short
}

pub fn write(request: &Request<'_>, out: &mut Vec<u8>) {
    match request.dialect {
        Dialect::Classic => classic(request, out),
        Dialect::Meta => meta(request, out),
    }
}

fn classic(request: &Request<'_>, out: &mut Vec<u8>) {
    let Request { key, number, .. } = *request;
    let exptime = i64::from(request.exptime);
    let touch = |unique| GetForm::Touch(unique, Exptime(request.exptime));
    match request.op {
        Op::Get => client::get(GetForm::Plain(Unique::Omitted), [key], out),
        Op::Gets => client::get(GetForm::Plain(Unique::Shown), [key], out),
        Op::Gat => client::get(touch(Unique::Omitted), [key], out),
        Op::Gats => client::get(touch(Unique::Shown), [key], out),
        Op::LeaseGet => client::get(GetForm::Lease, [key], out),
        Op::MetaGet => client::debug(key, out).end(),
        Op::Set => store(Verb::Set, request, out),
        Op::Add => store(Verb::Add, request, out),
        Op::Replace => store(Verb::Replace, request, out),
        Op::Append => store(Verb::Append, request, out),
        Op::Prepend => store(Verb::Prepend, request, out),
        Op::Cas => store(Verb::Cas(number), request, out),
        Op::LeaseSet => store(Verb::Lease(number), request, out),
        Op::Delete => client::delete(key, number, out),
        Op::Touch => client::touch(key, exptime, out),
        Op::Incr => client::arithmetic(Direction::Up, key, number, out),
        Op::Decr => client::arithmetic(Direction::Down, key, number, out),
        Op::FlushAll => client::flush_all(exptime, out),
    }
}

fn store(verb: Verb, request: &Request<'_>, out: &mut Vec<u8>) {
    let item = Item { flags: request.flags, exptime: request.exptime.into(), value: request.value };
    client::store(verb, request.key, item, out);
}

/// The flags of a meta command, in their order, which means something: with `T` from `exptime`, that may have been changed.
fn meta(request: &Request<'_>, out: &mut Vec<u8>) {
    let is_store = matches!(
        request.op,
        Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet
    );
    let mut buffer: KeyBuffer;
    let key = if has_flag(request.meta, b'b') {
        buffer = [0; 336];
        encode_key(request.key, &mut buffer)
    } else {
        request.key
    };
    let mut line = match request.op {
        Op::Delete => client::meta(MetaVerb::Delete, key, out),
        Op::Incr | Op::Decr => client::meta(MetaVerb::Arithmetic, key, out),
        Op::MetaGet => client::debug(key, out),
        _ if is_store => client::meta_store(key, request.value.len(), out),
        _ => client::meta(MetaVerb::Get, key, out),
    };
    let mut time = match request.op {
        Op::Gat | Op::Gats | Op::Touch => Some(request.exptime),
        _ if is_store && (request.exptime != 0 || has_flag(request.meta, b'T')) => Some(request.exptime),
        _ => None,
    };
    for flag in words(request.meta) {
        line = match time.take_if(|_| flag[0] == b'T') {
            Some(seconds) => line.number(b'T', seconds),
            None => line.flags(flag),
        };
    }
    if let Some(seconds) = time {
        line = line.number(b'T', seconds);
    }
    if is_store { line.end_with(request.value) } else { line.end() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request<'_>) -> String {
        let mut out = Vec::new();
        write(request, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_written_as_memcached_reads_them() {
        let all = |op| {
            let it = Request::classic(op, b"key");
            text(&Request { flags: 7, exptime: 60, number: 9, value: b"abc", ..it })
        };
        for (op, expected) in [
            (Op::Get, "get key\r\n"),
            (Op::Gats, "gats 60 key\r\n"),
            (Op::LeaseGet, "lease-get key\r\n"),
            (Op::Set, "set key 7 60 3\r\nabc\r\n"),
            (Op::Cas, "cas key 7 60 3 9\r\nabc\r\n"),
            (Op::LeaseSet, "lease-set key 9 7 60 3\r\nabc\r\n"),
            (Op::Delete, "delete key 9\r\n"),
            (Op::Touch, "touch key 60\r\n"),
            (Op::Incr, "incr key 9\r\n"),
        ] {
            assert_eq!(all(op), expected);
        }
        assert_eq!(text(&Request::classic(Op::Delete, b"key")), "delete key\r\n");
        let meta = |op, meta| {
            let it = Request::classic(op, b"key");
            text(&Request { dialect: Dialect::Meta, exptime: 60, value: b"abc", meta, ..it })
        };
        for (op, flags, expected) in [
            (Op::Get, "", "mg key\r\n"),
            (Op::Get, "v Oopaque", "mg key v Oopaque\r\n"),
            (Op::Gat, "v", "mg key v T60\r\n"),
            (Op::Gat, "T5 N9 v", "mg key T60 N9 v\r\n"),
            (Op::Touch, "f c", "mg key f c T60\r\n"),
            (Op::Set, "T0 F7", "ms key 3 T60 F7\r\nabc\r\n"),
            (Op::Get, "v b", "mg a2V5 v b\r\n"),
            (Op::Set, "F7", "ms key 3 F7 T60\r\nabc\r\n"),
            (Op::Delete, "x", "md key x\r\n"),
            (Op::Incr, "D9", "ma key D9\r\n"),
        ] {
            assert_eq!(meta(op, flags.as_bytes()), expected);
        }
    }
}
