//! Leases by memcached's meta commands, for servers without lease-get.
//!
//! `mg` with N creates an empty item on a miss and grants one client the lease. The token is the
//! cas unique of that item, which a store with C has to match: a delete or another store of the key
//! has changed or removed it.

use guira_protocol::client::words;
use guira_protocol::number_from;
use guira_routing::{Answer, Dialect, Item, Outcome, Request};

/// Seconds until another client is granted the lease: the default of mcrouter and of the node.
macro_rules! interval {
    () => {
        "10"
    };
}

/// The flag that sets the remaining time of a key that is to be filled.
pub(super) const INTERVAL_FLAG: &[u8] = concat!("T", interval!()).as_bytes();

/// Lower tokens have other meanings: 1 means that another client fills the key.
const OFFSET: u64 = 100;
/// A token with which no store succeeds.
const VOID: u64 = OFFSET;
/// A cas unique that no item has.
const NO_UNIQUE: u64 = u64::MAX;

/// The error of a server without lease commands.
pub(super) const NO_LEASES: &[u8] =
    b"SERVER_ERROR the server knows no leases: \"leases\": \"meta\" of its pool makes them of meta commands";
/// The error of a server without meta commands, in a pool with leases by meta commands.
pub(super) const NO_META: &[u8] =
    b"SERVER_ERROR the server knows no meta commands, of which the leases of its pool are made";
/// The error of a server that has failed to reply to the check.
pub(super) const UNCLEAR: &[u8] = b"SERVER_ERROR the server has not said whether it knows leases";
const NO_UNIQUES: &[u8] = b"SERVER_ERROR leases need cas uniques, which are disabled";

/// The meta command for a lease-get.
pub(super) fn get<'a>(request: &Request<'a>) -> Request<'a> {
    let meta = concat!("k v f c N", interval!()).as_bytes();
    Request { dialect: Dialect::Meta, meta, ..*request }
}

/// The meta flags for a lease-set.
pub(super) fn flags_of_set(request: &Request<'_>) -> Vec<u8> {
    let unique = request.number.checked_sub(OFFSET).filter(|unique| *unique != 0).unwrap_or(NO_UNIQUE);
    format!("k F{} C{unique}", request.flags).into_bytes()
}

/// The flags of a reply that concern a lease.
#[derive(Debug, Default)]
struct Signs {
    unique: Option<u64>,
    /// W: this client is granted the lease.
    wins: bool,
    /// Z: another client has it.
    is_taken: bool,
    is_stale: bool,
}

impl Signs {
    fn of(answer: &Answer<'_>) -> Self {
        let mut signs = Signs::default();
        for flag in words(answer.line).skip(2) {
            match flag {
                b"W" => signs.wins = true,
                b"Z" => signs.is_taken = true,
                b"X" => signs.is_stale = true,
                [b'c', unique @ ..] => signs.unique = number_from(unique),
                _ => {}
            }
        }
        signs
    }
}

/// Translates the reply to [`get`] into that to a lease-get.
pub(super) fn of_get<'i>(answer: Answer<'i>) -> Answer<'i> {
    let reply = |outcome, item, number| Answer { item, number, ..Answer::of(outcome) };
    if answer.outcome == Outcome::NotFound {
        // The server has no memory for the empty item.
        return reply(Outcome::NotFound, Some(Item { flags: 0, value: b"" }), VOID);
    }
    let Some(item) = answer.item.filter(|_| answer.outcome == Outcome::Found) else { return answer };
    let signs = Signs::of(&answer);
    let is_empty = item.value.is_empty();
    match (signs.wins, signs.is_taken, signs.unique) {
        (true, _, None | Some(0)) => Answer { line: NO_UNIQUES, ..Answer::of(Outcome::RemoteError) },
        (true, _, Some(unique)) => {
            reply(Outcome::NotFound, Some(item), unique.checked_add(OFFSET).unwrap_or(VOID))
        }
        (_, true, _) if is_empty => reply(Outcome::NotFoundHot, Some(item), 1),
        (_, true, _) if signs.is_stale => reply(Outcome::FoundStale, Some(item), 1),
        // Another client renews it before it expires.
        _ => reply(Outcome::Found, Some(item), 0),
    }
}

/// Translates the reply to a store with [`flags_of_set`] into that to a lease-set.
pub(super) fn of_set(answer: Answer<'_>) -> Answer<'_> {
    match answer.outcome {
        Outcome::Found => Answer::of(Outcome::Stored),
        outcome if outcome.is_error() => answer,
        _ => Answer::of(Outcome::NotStored),
    }
}

/// The reply to a get that has found an empty value, by the reply to the same get as a meta
/// command, and whether the key is to be filled.
pub(super) fn of_empty(answer: Answer<'_>) -> (Answer<'_>, Filled) {
    let Some(item) = answer.item.filter(|_| answer.outcome == Outcome::Found) else {
        return (answer, Filled::Yes);
    };
    let signs = Signs::of(&answer);
    if item.value.is_empty() && (signs.wins || signs.is_taken) {
        return (Answer::of(Outcome::NotFound), Filled::NotYet);
    }
    let number = signs.unique.unwrap_or(0);
    (Answer { item: Some(item), number, ..Answer::of(Outcome::Found) }, Filled::Yes)
}

/// Whether a client still has to fill a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Yes,
    NotYet,
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_routing::Op;
    use guira_upstream::answers;

    fn answer<'a>(line: &'a str, value: Option<&'a str>) -> Answer<'a> {
        answers::of_meta(Op::LeaseGet, line.as_bytes(), value.map(str::as_bytes)).unwrap()
    }

    #[test]
    fn replies_of_memcached_mean_the_same_as_those_to_lease_get() {
        for (line, value, outcome, number) in [
            ("VA 1 kk f5 c7", Some("x"), Outcome::Found, 0),
            ("VA 0 kk f5 c7", Some(""), Outcome::Found, 0),
            ("VA 0 kk f0 c1 W", Some(""), Outcome::NotFound, 101),
            ("VA 0 kk f0 c1 Z", Some(""), Outcome::NotFoundHot, 1),
            ("VA 1 kk f0 c9 W X", Some("x"), Outcome::NotFound, 109),
            ("VA 1 kk f0 c9 X W", Some("x"), Outcome::NotFound, 109),
            ("VA 1 kk f0 c9 Z X", Some("x"), Outcome::FoundStale, 1),
            ("VA 1 kk f0 c9 Z", Some("x"), Outcome::Found, 0),
            ("VA 0 kW f0 c9", Some(""), Outcome::Found, 0),
            ("EN", None, Outcome::NotFound, VOID),
            ("VA 0 kk f0 c18446744073709551615 W", Some(""), Outcome::NotFound, VOID),
            ("VA 0 kk f0 c0 W", Some(""), Outcome::RemoteError, 0),
            ("SERVER_ERROR out of memory", None, Outcome::RemoteError, 0),
        ] {
            let reply = of_get(answer(line, value));
            assert_eq!((reply.outcome, reply.number), (outcome, number), "{line}");
            assert_eq!(
                reply.item.map(|item| item.value),
                value
                    .map(str::as_bytes)
                    .filter(|_| !reply.outcome.is_error())
                    .or_else(|| (line == "EN").then_some(b"")),
                "{line}"
            );
        }
    }

    #[test]
    fn a_token_of_no_item_matches_no_item() {
        for (token, unique) in
            [(0, NO_UNIQUE), (1, NO_UNIQUE), (VOID, NO_UNIQUE), (101, 1), (u64::MAX, u64::MAX - 100)]
        {
            let request = Request { number: token, flags: 7, ..Request::classic(Op::LeaseSet, b"k") };
            assert_eq!(flags_of_set(&request), format!("k F7 C{unique}").as_bytes(), "{token}");
        }
    }

    #[test]
    fn an_empty_value_that_a_client_is_to_fill_is_a_miss() {
        for (line, value, outcome) in [
            ("VA 0 kk f0 c1 Z", Some(""), Outcome::NotFound),
            ("VA 0 kk f0 c1 X W", Some(""), Outcome::NotFound),
            ("VA 0 kk f0 c1", Some(""), Outcome::Found),
            ("VA 1 kk f0 c1", Some("x"), Outcome::Found),
            ("EN", None, Outcome::NotFound),
            ("ERROR", None, Outcome::RemoteError),
        ] {
            assert_eq!(of_empty(answer(line, value)).0.outcome, outcome, "{line}");
        }
    }
}
