//! Requests, as servers read them.

use crate::words::{has_flag, words};
use guira_protocol::{KEY_MAX, KeyBuffer, encode_key};
use guira_routing::{Dialect, Group, Op, Request};

/// The word of a classic command.
fn word(op: Op) -> &'static [u8] {
    match op {
        Op::Get => b"get ",
        Op::Gets => b"gets ",
        Op::Gat => b"gat ",
        Op::Gats => b"gats ",
        Op::LeaseGet => b"lease-get ",
        Op::MetaGet => b"me ",
        Op::Set => b"set ",
        Op::Add => b"add ",
        Op::Replace => b"replace ",
        Op::Append => b"append ",
        Op::Prepend => b"prepend ",
        Op::Cas => b"cas ",
        Op::LeaseSet => b"lease-set ",
        Op::Delete => b"delete ",
        Op::Touch => b"touch ",
        Op::Incr => b"incr ",
        Op::Decr => b"decr ",
        Op::FlushAll => b"flush_all",
    }
}

/// The longest key whose base64 fits into a line.
const BASE64_KEY_MAX: usize = KEY_MAX / 4 * 3;

/// Flags of a store that all versions of memcached take.
const STORE_FLAGS_MAX: usize = 16;

/// Whether a line can have the request's key and flags: a server that refuses the line of a store may take the value behind it for commands.
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

/// Appends a request.
pub fn write(request: &Request<'_>, out: &mut Vec<u8>) {
    match request.dialect {
        Dialect::Classic => classic(request, out),
        Dialect::Meta => meta(request, out),
    }
}

fn classic(request: &Request<'_>, out: &mut Vec<u8>) {
    let mut text = itoa::Buffer::new();
    let mut put = |out: &mut Vec<u8>, number: i64| {
        out.push(b' ');
        out.extend_from_slice(text.format(number).as_bytes());
    };
    out.extend_from_slice(word(request.op));
    match request.op {
        Op::Get | Op::Gets | Op::LeaseGet | Op::MetaGet => out.extend_from_slice(request.key),
        Op::Gat | Op::Gats => {
            out.pop();
            put(out, i64::from(request.exptime));
            out.push(b' ');
            out.extend_from_slice(request.key);
        }
        Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet => {
            out.extend_from_slice(request.key);
            if request.op == Op::LeaseSet {
                unsigned(out, request.number);
            }
            put(out, i64::from(request.flags));
            put(out, i64::from(request.exptime));
            put(out, request.value.len() as i64);
            if request.op == Op::Cas {
                unsigned(out, request.number);
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(request.value);
        }
        Op::Delete => {
            out.extend_from_slice(request.key);
            if request.number != 0 {
                unsigned(out, request.number);
            }
        }
        Op::Touch => {
            out.extend_from_slice(request.key);
            put(out, i64::from(request.exptime));
        }
        Op::Incr | Op::Decr => {
            out.extend_from_slice(request.key);
            unsigned(out, request.number);
        }
        Op::FlushAll => {
            if request.exptime != 0 {
                put(out, i64::from(request.exptime));
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn unsigned(out: &mut Vec<u8>, number: u64) {
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The flags of a meta command, in their order, which means something: with `T` from `exptime`, that may have been changed.
fn meta(request: &Request<'_>, out: &mut Vec<u8>) {
    let is_store = matches!(
        request.op,
        Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet
    );
    out.extend_from_slice(match request.op {
        Op::Delete => b"md ",
        Op::Incr | Op::Decr => b"ma ",
        Op::MetaGet => b"me ",
        _ if is_store => b"ms ",
        _ => b"mg ",
    });
    if has_flag(request.meta, b'b') {
        let mut buffer: KeyBuffer = [0; 336];
        out.extend_from_slice(encode_key(request.key, &mut buffer));
    } else {
        out.extend_from_slice(request.key);
    }
    if is_store {
        unsigned(out, request.value.len() as u64);
    }
    let mut time = match request.op {
        Op::Gat | Op::Gats | Op::Touch => Some(request.exptime),
        _ if is_store && (request.exptime != 0 || has_flag(request.meta, b'T')) => Some(request.exptime),
        _ => None,
    };
    for flag in words(request.meta) {
        match time.take_if(|_| flag[0] == b'T') {
            Some(seconds) => put_time(out, seconds),
            None => {
                out.push(b' ');
                out.extend_from_slice(flag);
            }
        }
    }
    if let Some(seconds) = time {
        put_time(out, seconds);
    }
    out.extend_from_slice(b"\r\n");
    if is_store {
        out.extend_from_slice(request.value);
        out.extend_from_slice(b"\r\n");
    }
}

fn put_time(out: &mut Vec<u8>, seconds: i32) {
    out.extend_from_slice(b" T");
    out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
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
