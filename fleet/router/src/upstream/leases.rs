//! Leases of servers that know memcached's meta commands and no lease-get: requests and replies in these.
//!
//! `mg` with N makes an empty item on a miss and lets one client win. The token is the item's cas unique, which a store with C has to match: there is
//! another one, or none, once the key was deleted or stored in between.

use guira_protocol::number_from;
use guira_routing::{Answer, Dialect, Item, Outcome, Request};
use guira_upstream::words;

/// Seconds until another client may fill a key: mcrouter's, and the node's unless it is told otherwise.
macro_rules! interval {
    () => {
        "10"
    };
}
pub(super) use interval;

/// Lower tokens mean something else: 1 that somebody else fills the key.
const OFFSET: u64 = 100;
/// A token that nothing can be stored with.
const VOID: u64 = OFFSET;
/// A cas unique that no item has.
const NO_UNIQUE: u64 = u64::MAX;

/// What clients are told of a server that knows no lease commands.
pub(super) const NO_LEASES: &[u8] =
    b"SERVER_ERROR the server knows no leases: \"leases\": \"meta\" of its pool makes them of meta commands";
/// What they are told of one that knows no meta commands, in a pool that has leases by these.
pub(super) const NO_META: &[u8] =
    b"SERVER_ERROR the server knows no meta commands, of which the leases of its pool are made";
/// What they are told when it has failed to say whether it knows leases.
pub(super) const UNCLEAR: &[u8] = b"SERVER_ERROR the server has not said whether it knows leases";
const NO_UNIQUES: &[u8] = b"SERVER_ERROR leases need cas uniques, which are disabled";

/// A lease-get.
pub(super) fn get<'a>(request: &Request<'a>) -> Request<'a> {
    let meta = concat!("k v f c N", interval!()).as_bytes();
    Request { dialect: Dialect::Meta, meta, ..*request }
}

/// The flags of a lease-set.
pub(super) fn flags_of_set(request: &Request<'_>) -> Vec<u8> {
    let unique = request.number.checked_sub(OFFSET).filter(|unique| *unique != 0).unwrap_or(NO_UNIQUE);
    format!("k F{} C{unique}", request.flags).into_bytes()
}

/// What a reply with these flags says about a lease.
#[derive(Debug, Default)]
struct Signs {
    unique: Option<u64>,
    /// W, Z and X.
    wins: bool,
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

/// What the answer to [`get`] is as one to a lease-get.
pub(super) fn of_get<'i>(answer: Answer<'i>) -> Answer<'i> {
    let told = |outcome, item, number| Answer { item, number, ..Answer::of(outcome) };
    if answer.outcome == Outcome::NotFound {
        // No memory for the item that would say who fills the key.
        return told(Outcome::NotFound, Some(Item { flags: 0, value: b"" }), VOID);
    }
    let Some(item) = answer.item.filter(|_| answer.outcome == Outcome::Found) else { return answer };
    let signs = Signs::of(&answer);
    let is_empty = item.value.is_empty();
    match (signs.wins, signs.is_taken, signs.unique) {
        (true, _, None | Some(0)) => Answer { line: NO_UNIQUES, ..Answer::of(Outcome::RemoteError) },
        (true, _, Some(unique)) => {
            told(Outcome::NotFound, Some(item), unique.checked_add(OFFSET).unwrap_or(VOID))
        }
        (_, true, _) if is_empty => told(Outcome::NotFoundHot, Some(item), 1),
        (_, true, _) if signs.is_stale => told(Outcome::FoundStale, Some(item), 1),
        // Somebody renews it before it expires.
        _ => told(Outcome::Found, Some(item), 0),
    }
}

/// What the answer to a store with [`flags_of_set`] is as one to a lease-set.
pub(super) fn of_set(answer: Answer<'_>) -> Answer<'_> {
    match answer.outcome {
        Outcome::Found => Answer::of(Outcome::Stored),
        outcome if outcome.is_error() => answer,
        _ => Answer::of(Outcome::NotStored),
    }
}

/// What a get finds whose value was empty, by the answer to the same in meta commands. The second says whether its key is to be filled.
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

/// Whether a key has the value that it is to have.
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
    fn what_memcached_says_is_what_lease_get_says() {
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
            let told = of_get(answer(line, value));
            assert_eq!((told.outcome, told.number), (outcome, number), "{line}");
            assert_eq!(
                told.item.map(|item| item.value),
                value
                    .map(str::as_bytes)
                    .filter(|_| !told.outcome.is_error())
                    .or_else(|| (line == "EN").then_some(b"")),
                "{line}"
            );
        }
    }

    #[test]
    fn a_token_that_no_item_has_given_names_none() {
        for (token, unique) in
            [(0, NO_UNIQUE), (1, NO_UNIQUE), (VOID, NO_UNIQUE), (101, 1), (u64::MAX, u64::MAX - 100)]
        {
            let request = Request { number: token, flags: 7, ..Request::classic(Op::LeaseSet, b"k") };
            assert_eq!(flags_of_set(&request), format!("k F7 C{unique}").as_bytes(), "{token}");
        }
    }

    #[test]
    fn an_empty_value_that_somebody_is_to_fill_is_a_miss() {
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
