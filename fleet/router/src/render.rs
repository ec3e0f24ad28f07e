//! Writes replies for clients.

use crate::failures;
use crate::packet_reply::{self, Echo};
use guira_protocol::client::{has_flag, words};
use guira_protocol::{KeyBuffer, Noreply, encode_key, number_from};
use guira_routing::{Answer, Group, Item, Op, Outcome};
use guira_sync::clock::wall_clock;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// VALUE, and END; with cas uniques or without.
    Get(Uniques),
    LeaseGet,
    /// META, and END.
    Metaget,
    Line(Op, Noreply),
    /// The line of a meta command; a quiet command omits some of them.
    Meta(Op, Quiet),
    Packet(Echo),
    /// No bytes, but the slot in the outbox is freed.
    Nothing,
}

/// The part of a request that its reply refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKey<'a> {
    /// The decoded key, as it is hashed.
    pub(crate) key: &'a [u8],
    /// The flags of a meta command that a reply repeats: O, k and b.
    pub(crate) repeated: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniques {
    Omitted,
    Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    No,
    Yes,
}

impl Form {
    /// The group of a request whose failure may be answered as a miss, as in mcrouter. A meta
    /// command fails instead, as with memcached's proxy: an EN would mean that there is no item, by
    /// which readers of remote markers choose their database.
    pub(crate) fn missing(self) -> Option<Group> {
        match self {
            Form::Get(_) | Form::LeaseGet | Form::Metaget | Form::Meta(Op::MetaGet, _) => Some(Group::Get),
            Form::Line(op, _) => Some(op.group()),
            Form::Packet(echo) => packet_reply::missing(echo),
            Form::Meta(..) | Form::Nothing => None,
        }
    }
}

/// The complete reply to a request for one key.
#[inline]
pub(crate) fn whole(form: Form, request_key: RequestKey<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let key = request_key.key;
    match form {
        Form::Get(_) | Form::LeaseGet | Form::Metaget if answer.outcome.is_error() => failure(answer, out),
        Form::Get(uniques) => {
            value(uniques, key, answer, out);
            out.extend_from_slice(b"END\r\n");
        }
        Form::LeaseGet => {
            lease(key, answer, out);
            out.extend_from_slice(b"END\r\n");
        }
        Form::Metaget => {
            metaget(key, answer, wall_clock(), out);
            out.extend_from_slice(b"END\r\n");
        }
        Form::Line(_, Noreply::Yes) | Form::Nothing => {}
        Form::Line(op, Noreply::No) => line(op, answer, out),
        Form::Meta(op, quiet) => meta(op, quiet, request_key, answer, out),
        Form::Packet(echo) => packet_reply::write(echo, key, answer, out),
    }
}

/// The reply for one of several keys, which are in `out` already.
#[inline]
pub(crate) fn part(form: Form, key: Range<usize>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    match form {
        Form::Get(Uniques::Omitted) if is_plain(answer.block, &out[key.clone()], answer) => {
            out.extend_from_slice(answer.block);
        }
        Form::Get(uniques) => {
            if let Some(item) = answer.item.filter(|_| answer.outcome == Outcome::Found) {
                out.extend_from_slice(VALUE);
                out.extend_from_within(key);
                rest_of_value(uniques, &item, answer.number, out);
            }
        }
        Form::LeaseGet => {
            let key = out[key].to_vec();
            lease(&key, answer, out);
        }
        Form::Metaget => {
            let key = out[key].to_vec();
            metaget(&key, answer, wall_clock(), out);
        }
        Form::Line(..) | Form::Meta(..) | Form::Packet(_) | Form::Nothing => {}
    }
}

/// mcrouter's line for an item that `me` has found. memcached does not know its age.
fn metaget(key: &[u8], answer: &Answer<'_>, now_s: u64, out: &mut Vec<u8>) {
    if answer.outcome != Outcome::Found {
        return;
    }
    // Behind ME and the key, which may look like it.
    let left = words(answer.line).skip(2).find_map(|word| number_from(word.strip_prefix(b"exp=")?));
    let exptime = left.map_or(0, |left| now_s.saturating_add(left));
    out.extend_from_slice(b"META ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" age: unknown; exptime: ");
    out.extend_from_slice(itoa::Buffer::new().format(exptime).as_bytes());
    out.extend_from_slice(b"; from: unknown; is_transient: 0\r\n");
}

const VALUE: &[u8] = b"VALUE ";

/// Whether a server's reply can be forwarded unchanged: it has the client's key, and no cas unique.
#[inline]
fn is_plain(block: &[u8], key: &[u8], answer: &Answer<'_>) -> bool {
    let after = block.get(VALUE.len()..).and_then(|text| text.strip_prefix(key));
    answer.outcome == Outcome::Found
        && answer.number == 0
        && after.is_some_and(|text| text.first() == Some(&b' '))
}

#[inline]
fn value(uniques: Uniques, key: &[u8], answer: &Answer<'_>, out: &mut Vec<u8>) {
    if uniques == Uniques::Omitted && is_plain(answer.block, key, answer) {
        return out.extend_from_slice(answer.block);
    }
    if let Some(item) = answer.item.filter(|_| answer.outcome == Outcome::Found) {
        out.extend_from_slice(VALUE);
        out.extend_from_slice(key);
        rest_of_value(uniques, &item, answer.number, out);
    }
}

/// The rest of a value line from the flags on.
fn rest_of_value(uniques: Uniques, item: &Item<'_>, unique: u64, out: &mut Vec<u8>) {
    number(out, item.flags);
    number(out, item.value.len() as u64);
    if uniques == Uniques::Shown {
        number(out, unique);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(item.value);
    out.extend_from_slice(b"\r\n");
}

fn lease(key: &[u8], answer: &Answer<'_>, out: &mut Vec<u8>) {
    if answer.outcome == Outcome::Found {
        return value(Uniques::Omitted, key, answer, out);
    }
    let token = if answer.outcome.is_hot_miss() { 1 } else { answer.number };
    let (flags, stale) = answer.item.map_or((0, b"".as_slice()), |item| (item.flags, item.value));
    out.extend_from_slice(b"LVALUE ");
    out.extend_from_slice(key);
    number(out, token);
    number(out, flags);
    number(out, stale.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(stale);
    out.extend_from_slice(b"\r\n");
}

fn line(op: Op, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let text: &[u8] = match answer.outcome {
        Outcome::Stored => b"STORED\r\n",
        Outcome::StaleStored => b"STALE_STORED\r\n",
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::Deleted => b"DELETED\r\n",
        Outcome::Touched => b"TOUCHED\r\n",
        Outcome::Ok => b"OK\r\n",
        Outcome::NotFound if matches!(op, Op::Set | Op::Add) => b"NOT_STORED\r\n",
        Outcome::NotFound | Outcome::NotFoundHot | Outcome::FoundStale => b"NOT_FOUND\r\n",
        Outcome::Found if !answer.line.is_empty() => {
            out.extend_from_slice(answer.line);
            b"\r\n"
        }
        Outcome::Found => {
            out.extend_from_slice(itoa::Buffer::new().format(answer.number).as_bytes());
            b"\r\n"
        }
        _ => return failure(answer, out),
    };
    out.extend_from_slice(text);
}

fn meta(op: Op, quiet: Quiet, request_key: RequestKey<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    if answer.outcome.is_error() {
        return failure(answer, out);
    }
    let made: &[u8] = match answer.outcome {
        Outcome::NotFound if op.group() == Group::Get => b"EN",
        Outcome::NotFound => b"NF",
        Outcome::NotStored => b"NS",
        Outcome::Exists => b"EX",
        _ => b"HD",
    };
    let line = if answer.line.is_empty() { made } else { answer.line };
    if quiet == Quiet::Yes && is_left_out(op, line) {
        return;
    }
    if answer.line.is_empty() {
        out.extend_from_slice(made);
        let form = key_form(words(request_key.repeated));
        words(request_key.repeated).for_each(|flag| repeat(flag, (request_key.key, form), out));
    } else if has_flag(request_key.repeated, b'k') {
        // A server repeats the requested key, in the form in which it was stored.
        let parts = || line.split(|byte| *byte == b' ');
        out.extend_from_slice(parts().next().unwrap_or_default());
        for part in parts().skip(1) {
            let is_key = part.first() == Some(&b'k');
            repeat(if is_key { b"k" } else { part }, (request_key.key, key_form(parts())), out);
        }
        if tears_lines(request_key.key) {
            repeat(b"k", (request_key.key, KeyForm::Base64), out);
            out.extend_from_slice(if key_form(parts()) == KeyForm::Base64 { b"" } else { b" b" });
        }
    } else {
        out.extend_from_slice(line);
    }
    out.extend_from_slice(b"\r\n");
    if line.starts_with(b"VA ") {
        out.extend_from_slice(answer.block);
        out.extend_from_slice(b"\r\n");
    }
}

/// Whether a line with this key would be parsed differently. For an item that was created on a
/// miss, memcached (1.6.18) shows the decoded key even if the request had it in base64: servers are
/// not sent such a key.
pub(crate) fn tears_lines(key: &[u8]) -> bool {
    memchr::memchr2(b' ', b'\n', key).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    Plain,
    Base64,
}

/// The form of a key with these flags.
fn key_form<'a>(mut flags: impl Iterator<Item = &'a [u8]>) -> KeyForm {
    if flags.any(|flag| flag == b"b") { KeyForm::Base64 } else { KeyForm::Plain }
}

/// Repeats a flag in a reply; `k` is followed by the key.
fn repeat(flag: &[u8], (key, form): (&[u8], KeyForm), out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(flag);
    match (flag, form) {
        (b"k", KeyForm::Base64) => {
            let mut buffer: KeyBuffer = [0; 336];
            out.extend_from_slice(encode_key(key, &mut buffer));
        }
        (b"k", KeyForm::Plain) => out.extend_from_slice(key),
        _ => {}
    }
}

/// Whether a quiet command of this kind omits this reply.
fn is_left_out(op: Op, line: &[u8]) -> bool {
    let nominal: &[&[u8]] = match op {
        _ if op.group() == Group::Get => &[b"EN"],
        Op::Incr | Op::Decr => &[b"HD", b"VA"],
        _ => &[b"HD"],
    };
    line.get(..2).is_some_and(|code| nominal.contains(&code))
}

/// The reply to a failed request.
pub(crate) fn failure(answer: &Answer<'_>, out: &mut Vec<u8>) {
    let error_words = [b"SERVER_ERROR".as_slice(), b"CLIENT_ERROR", b"ERROR"];
    if error_words.iter().any(|word| answer.line.starts_with(word)) {
        out.extend_from_slice(answer.line);
    } else {
        out.extend_from_slice(failures::text(answer.outcome).as_bytes());
        if !answer.line.is_empty() {
            out.extend_from_slice(b": ");
            out.extend_from_slice(answer.line);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn number(out: &mut Vec<u8>, number: u64) {
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_of_metaget_is_none_of_a_keys() {
        for (line, exptime) in [
            (b"ME exp=5 exp=7 la=0".as_slice(), "107"),
            (b"ME exp=5 exp=-1", "0"),
            (b"ME k exp=18446744073709551615", "18446744073709551615"),
        ] {
            let mut out = Vec::new();
            metaget(b"k", &Answer { line, ..Answer::of(Outcome::Found) }, 100, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(&format!("; exptime: {exptime}; ")), "{text}");
        }
    }
}
