//! Requests and replies as text: meta commands, each with an opaque of its own.
//!
//! The opaque is why these and not the classic ones: a reply says which request it answers, so that one that comes late, twice or out of order is
//! known by itself. It also keeps the keys of a batch apart, of which a classic get has one failure for all.

use guira_protocol::client::{self, MetaReply, MetaRequest};
use guira_protocol::{MetaVerb, number_from};
use guira_routing::{Answer, Dialect, Item, Op, Outcome, Request};
use guira_upstream::{answers, wire};

/// Appends a request. False if this client does not send such requests.
pub(super) fn write(request: &Request<'_>, opaque: u32, out: &mut Vec<u8>) -> bool {
    if request.dialect == Dialect::Meta {
        let meta = [request.meta, format!(" O{opaque}").as_bytes()].concat();
        wire::write(&Request { meta: &meta, ..*request }, out);
        return true;
    }
    let Request { key, exptime, number, .. } = *request;
    let line = match request.op {
        Op::Get => client::meta(MetaVerb::Get, key, out).flags(b"v f"),
        Op::Gets => client::meta(MetaVerb::Get, key, out).flags(b"v f c"),
        Op::Gat => client::meta(MetaVerb::Get, key, out).flags(b"v f").number(b'T', exptime),
        Op::Gats => client::meta(MetaVerb::Get, key, out).flags(b"v f c").number(b'T', exptime),
        Op::Touch => client::meta(MetaVerb::Get, key, out).number(b'T', exptime),
        Op::Delete => client::meta(MetaVerb::Delete, key, out),
        Op::Incr => client::meta(MetaVerb::Arithmetic, key, out).flags(b"v").number(b'D', number),
        Op::Decr => client::meta(MetaVerb::Arithmetic, key, out).flags(b"v MD").number(b'D', number),
        Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas => {
            store(request, out).number(b'O', opaque).end_with(request.value);
            return true;
        }
        Op::FlushAll => {
            wire::write(request, out);
            return true;
        }
        Op::LeaseGet | Op::LeaseSet | Op::MetaGet => return false,
    };
    line.number(b'O', opaque).end();
    true
}

/// Appends a store up to its opaque.
fn store<'o>(request: &Request<'_>, out: &'o mut Vec<u8>) -> MetaRequest<'o> {
    let line = client::meta_store(request.key, request.value.len(), out);
    let line = match request.op {
        Op::Add => line.flags(b"ME"),
        Op::Replace => line.flags(b"MR"),
        // An append keeps the flags and the expiration time of the item.
        Op::Append => return line.flags(b"MA"),
        Op::Prepend => return line.flags(b"MP"),
        Op::Cas => line.number(b'C', request.number),
        _ => line,
    };
    let line = line.number(b'F', request.flags);
    if request.exptime == 0 { line } else { line.number(b'T', request.exptime) }
}

/// A parsed reply, and the request that it names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'i> {
    pub(super) answer: Answer<'i>,
    /// Errors name none, nor do misses of earlier versions of memcached.
    pub(super) opaque: Option<u32>,
}

/// Parses a line, with the value behind it, as the reply to a request of this kind; `None` if it is
/// no such reply.
#[inline]
pub(super) fn read<'i>(
    op: Op,
    dialect: Dialect,
    line: &'i [u8],
    value: Option<&'i [u8]>,
) -> Option<Said<'i>> {
    if op == Op::FlushAll {
        let answer = answers::of_line(op, line).filter(|_| value.is_none())?;
        return Some(Said { answer, opaque: None });
    }
    let mut said = Said { answer: answers::of_meta(op, line, value)?, opaque: None };
    if said.answer.outcome.is_error() {
        return Some(said);
    }
    let mut number = None;
    for (letter, token) in MetaReply::of(line).flags() {
        match letter {
            b'O' => said.opaque = Some(u32::try_from(number_from(token)?).ok()?),
            b'c' => number = number_from(token),
            _ => {}
        }
    }
    if dialect == Dialect::Meta {
        return Some(said);
    }
    let item = said.answer.item;
    let (outcome, item, number) = match (said.answer.outcome, op) {
        (Outcome::Found, Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas) => {
            (Outcome::Stored, None, 0)
        }
        (Outcome::Found, Op::Delete) => (Outcome::Deleted, None, 0),
        (Outcome::Found, Op::Touch) => (Outcome::Touched, None, 0),
        (Outcome::Found, Op::Incr | Op::Decr) => {
            (Outcome::Found, None, number_from(value?.trim_ascii_end())?)
        }
        // The reply to a get lacks the flags or the value that the get requested.
        (Outcome::Found, _) => (Outcome::Found, Some(item?), number.unwrap_or(0)),
        (outcome, _) => (outcome, None, 0),
    };
    said.answer = Answer { item: item.map(|item: Item<'i>| item), number, ..Answer::of(outcome) };
    Some(said)
}

/// A hit of a get in front of `input`, with how long it is, if it has arrived altogether and looks as it mostly does: what most replies are is read
/// faster so. Anything else is left to [`read`].
#[inline]
pub(super) fn hit(input: &[u8]) -> Option<(Said<'_>, usize)> {
    let (hit, taken) = client::meta_hit(input)?;
    let item = Some(Item { flags: hit.flags, value: hit.value });
    let answer = Answer { item, number: hit.unique.unwrap_or(0), ..Answer::of(Outcome::Found) };
    Some((Said { answer, opaque: Some(hit.opaque) }, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_meta_commands_with_their_opaque() {
        let text = |op| {
            let mut out = Vec::new();
            let it = Request::classic(op, b"key");
            let request = Request { flags: 7, exptime: 60, number: 9, value: b"abc", ..it };
            assert!(write(&request, 5, &mut out));
            String::from_utf8(out).unwrap()
        };
        for (op, expected) in [
            (Op::Get, "mg key v f O5\r\n"),
            (Op::Gets, "mg key v f c O5\r\n"),
            (Op::Gat, "mg key v f T60 O5\r\n"),
            (Op::Touch, "mg key T60 O5\r\n"),
            (Op::Set, "ms key 3 F7 T60 O5\r\nabc\r\n"),
            (Op::Add, "ms key 3 ME F7 T60 O5\r\nabc\r\n"),
            (Op::Replace, "ms key 3 MR F7 T60 O5\r\nabc\r\n"),
            (Op::Append, "ms key 3 MA O5\r\nabc\r\n"),
            (Op::Prepend, "ms key 3 MP O5\r\nabc\r\n"),
            (Op::Cas, "ms key 3 C9 F7 T60 O5\r\nabc\r\n"),
            (Op::Delete, "md key O5\r\n"),
            (Op::Incr, "ma key v D9 O5\r\n"),
            (Op::Decr, "ma key v MD D9 O5\r\n"),
            (Op::FlushAll, "flush_all 60\r\n"),
        ] {
            assert_eq!(text(op), expected);
        }
        assert!(!write(&Request::classic(Op::LeaseGet, b"key"), 5, &mut Vec::new()));
    }

    #[test]
    fn a_hit_is_read_alike_in_both_ways_and_not_before_it_is_whole() {
        for (line, value) in
            [("VA 3 f7 O5", "abc"), ("VA 3 f7 c18446744073709551 O5", "abc"), ("VA 0 f0 O0", "")]
        {
            let whole = format!("{line}\r\n{value}\r\nrest");
            let (said, taken) = hit(whole.as_bytes()).unwrap();
            let other = read(Op::Gets, Dialect::Classic, line.as_bytes(), Some(value.as_bytes())).unwrap();
            let of = |said: &Said<'_>| {
                (
                    said.answer.item.map(|item| (item.flags, item.value.to_vec())),
                    said.answer.number,
                    said.opaque,
                )
            };
            assert_eq!((of(&said), taken), (of(&other), whole.len() - 4));
            assert!((0..taken).all(|length| hit(&whole.as_bytes()[..length]).is_none()));
        }
    }

    #[test]
    fn replies_are_read_as_those_to_classic_commands() {
        let of = |op, line: &'static str, value: Option<&'static str>| {
            let said = read(op, Dialect::Classic, line.as_bytes(), value.map(str::as_bytes))?;
            let item = said.answer.item.map(|item| (item.flags, item.value));
            Some((said.answer.outcome, item, said.answer.number, said.opaque))
        };
        let item = Some((3, b"abc".as_slice()));
        for (op, line, value, expected) in [
            (Op::Get, "VA 3 f3 O5", Some("abc"), (Outcome::Found, item, 0, Some(5))),
            (Op::Gets, "VA 3 f3 c77 O5", Some("abc"), (Outcome::Found, item, 77, Some(5))),
            (Op::Get, "EN O5", None, (Outcome::NotFound, None, 0, Some(5))),
            (Op::Get, "EN", None, (Outcome::NotFound, None, 0, None)),
            (Op::Set, "HD O5", None, (Outcome::Stored, None, 0, Some(5))),
            (Op::Add, "NS O5", None, (Outcome::NotStored, None, 0, Some(5))),
            (Op::Cas, "EX O5", None, (Outcome::Exists, None, 0, Some(5))),
            (Op::Cas, "NF O5", None, (Outcome::NotFound, None, 0, Some(5))),
            (Op::Delete, "HD O5", None, (Outcome::Deleted, None, 0, Some(5))),
            (Op::Touch, "HD O5", None, (Outcome::Touched, None, 0, Some(5))),
            (Op::Incr, "VA 3 O5", Some("10 "), (Outcome::Found, None, 10, Some(5))),
            (Op::FlushAll, "OK", None, (Outcome::Ok, None, 0, None)),
        ] {
            assert_eq!(of(op, line, value), Some(expected), "{op:?} {line}");
        }
        for (op, line, value) in [
            (Op::Get, "HD O5", None),
            (Op::Get, "VA 3 O5", Some("abc")),
            (Op::Get, "VA 3 f3 Ox", Some("abc")),
            (Op::Get, "VA 3 f3 O99999999999", Some("abc")),
            (Op::Set, "EN O5", None),
            (Op::Incr, "VA 1 O5", Some("x")),
            (Op::Get, "", None),
            (Op::FlushAll, "HD", None),
        ] {
            assert_eq!(of(op, line, value), None, "{op:?} {line}");
        }
    }
}
