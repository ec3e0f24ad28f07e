//! What replies of servers mean.
//!
//! A reply that no server gives to what was asked says that requests and replies do not belong together any more. It is no answer, and the
//! connection is of no use.

use super::reply::{Reply, Value};
use crate::words::words;
use guira_protocol::{encode_key, number_from};
use guira_routing::{Answer, Item, Op, Outcome};

/// The token of a lease that somebody else has.
const HOT: u64 = 1;

/// What was found, or what a miss of a lease-get tells.
#[inline]
pub fn found<'i>(value: &Value<'i>) -> Answer<'i> {
    hit(Outcome::Found, value)
}

/// What a lease-get is told about a key that is missing.
pub fn lease<'i>(value: &Value<'i>) -> Answer<'i> {
    let outcome = match value.number {
        Some(HOT) if value.value.is_empty() => Outcome::NotFoundHot,
        Some(HOT) => Outcome::FoundStale,
        _ => Outcome::NotFound,
    };
    hit(outcome, value)
}

#[inline]
fn hit<'i>(outcome: Outcome, found: &Value<'i>) -> Answer<'i> {
    let item = Some(Item { flags: found.flags, value: found.value });
    // A unique was asked for by another client: the item is written anew without it.
    let block = if found.number.is_some() { b"" } else { found.block };
    Answer { item, number: found.number.unwrap_or(0), block, ..Answer::of(outcome) }
}

/// What a line says that is no answer.
fn failure(line: &[u8]) -> Option<Outcome> {
    let rest = match line {
        b"ERROR" => return Some(Outcome::RemoteError),
        _ if line.starts_with(b"CLIENT_ERROR") => return Some(Outcome::ClientError),
        _ => line.strip_prefix(b"SERVER_ERROR")?,
    };
    Some(match rest.trim_ascii() {
        text if text.starts_with(b"307") => Outcome::Busy,
        text if text.starts_with(b"302") => Outcome::TryAgain,
        text if text.starts_with(b"301") => Outcome::Shutdown,
        // The texts of another router.
        text if text.starts_with(b"Server unavailable") => Outcome::Tko,
        b"Reply timeout" => Outcome::Timeout,
        b"unavailable" => Outcome::Tko,
        b"timeout" => Outcome::Timeout,
        b"connection timeout" => Outcome::ConnectTimeout,
        b"connection error" => Outcome::ConnectError,
        _ => Outcome::RemoteError,
    })
}

/// The failure that a line tells; `None` if it is no failure.
pub fn failed(line: &[u8]) -> Option<Answer<'_>> {
    failure(line).map(|outcome| Answer { line, ..Answer::of(outcome) })
}

/// Whether a server that says this to a store has dealt with its value, and not taken it for requests: it has understood the line in front of it.
pub fn has_passed_over_value(line: &[u8]) -> bool {
    line != b"ERROR" && !line.starts_with(b"CLIENT_ERROR")
}

/// The same of a store in a meta command. When memcached looks at the flags it knows how long the value is.
pub fn has_passed_over_meta_value(line: &[u8]) -> bool {
    line == b"CLIENT_ERROR invalid flag" || has_passed_over_value(line)
}

/// What the line of a classic command says; `None` if none of this kind is answered so.
pub fn of_line(op: Op, line: &[u8]) -> Option<Answer<'_>> {
    let outcome = match (line, op) {
        (b"STORED", Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet) => {
            Outcome::Stored
        }
        (b"STALE_STORED", Op::LeaseSet) => Outcome::StaleStored,
        (
            b"NOT_STORED",
            Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet,
        ) => Outcome::NotStored,
        (b"EXISTS", Op::Cas | Op::LeaseSet) => Outcome::Exists,
        (b"NOT_FOUND", Op::Cas | Op::LeaseSet | Op::Delete | Op::Touch | Op::Incr | Op::Decr) => {
            Outcome::NotFound
        }
        (b"DELETED", Op::Delete) => Outcome::Deleted,
        (b"TOUCHED", Op::Touch) => Outcome::Touched,
        (b"OK", Op::FlushAll) => Outcome::Ok,
        (line, Op::Incr | Op::Decr) if line.first().is_some_and(u8::is_ascii_digit) => {
            // Blanks are behind a number that has become shorter.
            let number = number_from(line.trim_ascii_end())?;
            return Some(Answer { number, line, ..Answer::of(Outcome::Found) });
        }
        _ => return failed(line),
    };
    Some(Answer::of(outcome))
}

/// What the line of a meta command says, and the value behind it; `None` if none of this kind is answered so.
pub fn of_meta<'i>(op: Op, line: &'i [u8], value: Option<&'i [u8]>) -> Option<Answer<'i>> {
    use guira_routing::Group::{Arithmetic, Delete, Get, Touch, Update};
    let code = words(line).next().unwrap_or_default();
    let outcome = match (code, op.group()) {
        (b"VA", Get | Arithmetic) if value.is_some() => Outcome::Found,
        (b"ME", Get) if op == Op::MetaGet => Outcome::Found,
        (b"HD", Get | Arithmetic | Delete | Update | Touch) => Outcome::Found,
        (b"EN", Get | Touch) | (b"NF", Arithmetic | Delete | Update | Get) => Outcome::NotFound,
        (b"NS", Arithmetic | Update) => Outcome::NotStored,
        (b"EX", Arithmetic | Delete | Update) => Outcome::Exists,
        _ if value.is_none() => return failed(line),
        _ => return None,
    };
    let flags = words(line).skip(2).find_map(|flag| flag.strip_prefix(b"f"));
    let flags = flags.and_then(number_from).map(|flags| flags as u32);
    let item = flags.zip(value).map(|(flags, value)| Item { flags, value });
    // A value that is not accompanied by flags is still the client's.
    let block = value.unwrap_or_default();
    Some(Answer { item, line, block, ..Answer::of(outcome) })
}

/// Whether the reply to a meta command can be that to this request: it has the key and the opaque that it was asked for, and a value if
/// that was wanted. A miss may leave out what it would repeat, as earlier versions of memcached do.
pub fn belongs(request: &[u8], line: &[u8], has_value: bool) -> bool {
    let mut asked = words(request);
    let (Some(verb), Some(key)) = (asked.next(), asked.next()) else { return false };
    let flag = |letter: u8| words(request).skip(2).find(|flag| flag[0] == letter);
    let mut told = words(line);
    let is_miss = matches!(told.next(), Some(b"EN" | b"NF" | b"NS" | b"EX"));
    if verb == b"me" {
        return is_miss || told.next().is_some_and(|told| is_key(told, key));
    }
    let told = |letter: u8| words(line).skip(1 + usize::from(has_value)).find(|flag| flag[0] == letter);
    let is_same = |letter: u8| match (flag(letter), told(letter)) {
        (Some(_), None) => is_miss,
        (None, Some(_)) => false,
        (Some(_), Some(told)) if letter == b'k' => is_key(&told[1..], key),
        (asked, told) => asked == told,
    };
    // A store has its length in front of its flags, and no value is wanted of it.
    let wants_value = verb != b"ms" && flag(b'v').is_some();
    is_same(b'k') && is_same(b'O') && (is_miss || wants_value == has_value)
}

/// Whether two texts are the same key: either may be in base64.
fn is_key(told: &[u8], asked: &[u8]) -> bool {
    let (mut one, mut other) = ([0; 336], [0; 336]);
    told == asked || encode_key(told, &mut one) == asked || told == encode_key(asked, &mut other)
}

/// Whether a server that was asked for its version is there.
pub fn is_of_probe(reply: &Reply<'_>) -> bool {
    matches!(reply, Reply::Line(line) if line.starts_with(b"VERSION") || failure(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_does_not_answer_what_was_asked_is_no_answer() {
        for (op, line) in [
            (Op::Set, b"DELETED".as_slice()),
            (Op::Set, b"VERSION 1.6.45"),
            (Op::Set, b"7"),
            (Op::Touch, b"STORED"),
            (Op::Delete, b"TOUCHED"),
            (Op::Delete, b"OK"),
            (Op::Incr, b"DELETED"),
            (Op::Incr, b"7x"),
            (Op::Get, b"HD"),
            (Op::Add, b""),
        ] {
            assert!(of_line(op, line).is_none(), "{op:?} {:?}", line.escape_ascii());
        }
        for (op, line, value) in [
            (Op::Set, b"VA 1 f0".as_slice(), Some(b"x".as_slice())),
            (Op::Set, b"EN", None),
            (Op::Get, b"NS", None),
            (Op::Get, b"VA 1", None),
            (Op::Get, b"MN", None),
            (Op::Get, b"ME key", None),
            (Op::Get, b"HDx", None),
            (Op::Delete, b"STORED", None),
            (Op::MetaGet, b"", None),
        ] {
            assert!(of_meta(op, line, value).is_none(), "{op:?} {:?}", line.escape_ascii());
        }
    }

    #[test]
    fn the_reply_to_a_meta_command_has_what_it_was_asked_for() {
        for (request, line, has_value, does) in [
            (b"mg a v k O1".as_slice(), b"VA 3 ka O1".as_slice(), true, true),
            (b"mg a v k O1", b"VA 3 kb O1", true, false),
            (b"mg a v k O1", b"VA 3 ka O2", true, false),
            (b"mg a v k O1", b"VA 3 ka", true, false),
            (b"mg a v k O1", b"EN", false, true),
            (b"mg a v k O1", b"EN kb O1", false, false),
            (b"mg a v", b"HD", false, false),
            (b"mg a v", b"VA 1 O7", true, false),
            (b"mg a s", b"VA 1 s1", true, false),
            (b"mg a s", b"HD s1", false, true),
            (b"mg YQ== b k v", b"VA 1 ka", true, true),
            (b"mg a k v", b"VA 1 kYQ== b", true, true),
            (b"ms a 1 k O1", b"HD ka O1", false, true),
            (b"ms a 1 O1", b"HD O2", false, false),
            (b"ms a 1 MR", b"NS", false, true),
            (b"md a O1", b"NF O2", false, false),
            (b"ma a v", b"VA 1", true, true),
            (b"ma a", b"HD", false, true),
            (b"me a", b"ME a exp=-1", false, true),
            (b"me a", b"ME b exp=-1", false, false),
            (b"me a", b"EN", false, true),
        ] {
            let both = (request.escape_ascii(), line.escape_ascii());
            assert_eq!(belongs(request, line, has_value), does, "{} {}", both.0, both.1);
        }
    }

    #[test]
    fn failures_are_told_of_every_operation() {
        for line in [b"ERROR".as_slice(), b"CLIENT_ERROR bad data chunk", b"SERVER_ERROR out of memory"] {
            for op in [Op::Set, Op::Delete, Op::Incr, Op::Touch, Op::Get] {
                let answers = [of_line(op, line), of_meta(op, line, None)].map(Option::unwrap);
                assert!(answers.iter().all(|answer| answer.outcome.is_error() && answer.line == line));
            }
        }
        assert_eq!(of_line(Op::Incr, b"7  ").map(|answer| answer.number), Some(7));
    }
}
