//! Turns replies of servers into answers.
//!
//! A reply that does not fit its request shows that requests and replies are out of step. It is no
//! answer, and the connection has to be closed.

use guira_protocol::client::{Failure, MetaReply, Reply, Value, failure};
use guira_protocol::number_from;
use guira_protocol::word::reply;
use guira_routing::{Answer, Item, Op, Outcome};

/// The token in a reply while another client has the lease.
const HOT: u64 = 1;

/// The answer for a hit, or for a miss of a lease-get.
#[inline]
pub fn found<'i>(value: &Value<'i>) -> Answer<'i> {
    hit(Outcome::Found, value)
}

/// The answer to a lease-get for a missing key.
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
    // The unique was requested by another client: the item is encoded again without it.
    let block = if found.number.is_some() { b"" } else { found.block };
    Answer { item, number: found.number.unwrap_or(0), block, ..Answer::of(outcome) }
}

/// The failure in a line; `None` if it is no failure.
pub fn failed(line: &[u8]) -> Option<Answer<'_>> {
    let outcome = match failure(line)? {
        Failure::Unknown => Outcome::RemoteError,
        Failure::Client(_) => Outcome::ClientError,
        Failure::Server(text) => match text {
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
        },
    };
    Some(Answer { line, ..Answer::of(outcome) })
}

/// Whether a server that says this to a store has dealt with its value, and not taken it for requests: it has understood the line in front of it.
pub fn has_passed_over_value(line: &[u8]) -> bool {
    !failure(line).is_some_and(Failure::is_refusal)
}

/// The same of a store in a meta command. When memcached looks at the flags it knows how long the value is.
pub fn has_passed_over_meta_value(line: &[u8]) -> bool {
    let of_flags = [b"CLIENT_ERROR invalid flag".as_slice(), b"CLIENT_ERROR incorrect length for M token"];
    of_flags.contains(&line) || has_passed_over_value(line)
}

/// What the line of a classic command says; `None` if none of this kind is answered so.
pub fn of_line(op: Op, line: &[u8]) -> Option<Answer<'_>> {
    let outcome = match (line, op) {
        (
            reply::STORED,
            Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet,
        ) => Outcome::Stored,
        (reply::STALE_STORED, Op::LeaseSet) => Outcome::StaleStored,
        (
            reply::NOT_STORED,
            Op::Set | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas | Op::LeaseSet,
        ) => Outcome::NotStored,
        (reply::EXISTS, Op::Cas | Op::LeaseSet) => Outcome::Exists,
        (reply::NOT_FOUND, Op::Cas | Op::LeaseSet | Op::Delete | Op::Touch | Op::Incr | Op::Decr) => {
            Outcome::NotFound
        }
        (reply::DELETED, Op::Delete) => Outcome::Deleted,
        (reply::TOUCHED, Op::Touch) => Outcome::Touched,
        (reply::OK, Op::FlushAll) => Outcome::Ok,
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
    let said = MetaReply::of(line);
    let outcome = match (said.code, op.group()) {
        (reply::META_VALUE, Get | Arithmetic) if value.is_some() => Outcome::Found,
        (reply::META_DEBUG, Get) if op == Op::MetaGet => Outcome::Found,
        (reply::META_DONE, Get | Arithmetic | Delete | Update | Touch) => Outcome::Found,
        (reply::META_MISS, Get | Touch) => Outcome::NotFound,
        (reply::META_NOT_FOUND, Arithmetic | Delete | Update | Get) => Outcome::NotFound,
        (reply::META_NOT_STORED, Arithmetic | Update) => Outcome::NotStored,
        (reply::META_EXISTS, Arithmetic | Delete | Update) => Outcome::Exists,
        _ if value.is_none() => return failed(line),
        _ => return None,
    };
    let item = value.and_then(|value| Some(Item { flags: said.number(b'f')?, value }));
    // A value that is not accompanied by flags is still the client's.
    let block = value.unwrap_or_default();
    Some(Answer { item, line, block, ..Answer::of(outcome) })
}

/// Whether the reply to a probe shows that the server is up.
pub fn is_of_probe(said: &Reply<'_>) -> bool {
    matches!(said, Reply::Line(line) if line.starts_with(reply::VERSION) || failure(line).is_some())
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
    fn failures_are_told_of_every_operation() {
        for line in [b"ERROR".as_slice(), b"CLIENT_ERROR bad data chunk", b"SERVER_ERROR out of memory"] {
            for op in [Op::Set, Op::Delete, Op::Incr, Op::Touch, Op::Get] {
                let answers = [of_line(op, line), of_meta(op, line, None)].map(Option::unwrap);
                assert!(answers.iter().all(|answer| answer.outcome.is_error() && answer.line == line));
            }
        }
        assert_eq!(of_line(Op::Incr, b"7  ").map(|answer| answer.number), Some(7));
    }

    #[test]
    fn an_error_about_a_flag_costs_no_connection_and_other_refusals_do() {
        for (line, has_passed) in [
            (b"HD".as_slice(), true),
            (b"SERVER_ERROR out of memory", true),
            (b"CLIENT_ERROR invalid flag", true),
            (b"CLIENT_ERROR incorrect length for M token", true),
            (b"CLIENT_ERROR bad data chunk", false),
            (b"CLIENT_ERROR options flags too long", false),
            (b"ERROR", false),
        ] {
            assert_eq!(has_passed_over_meta_value(line), has_passed, "{}", line.escape_ascii());
        }
    }
}
