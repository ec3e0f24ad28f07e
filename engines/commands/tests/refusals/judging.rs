//! Checks of replies, and of what a refused command may leave behind.

use super::items::{Seen, UNIQUE};
use super::requests::{AsksFor, HasReply, Request};
use guira_contract::suite::FIRST_UNIQUE;
use guira_contract::{ItemState, Lossiness};
use guira_protocol::binary::{HEADER_BYTES, RESPONSE_MAGIC, Status};

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) reply: Vec<u8>,
    pub(crate) after: Option<Seen>,
}

/// Stands for a cas unique that the server chose, in replies that are compared.
const CHOSEN: &[u8] = b"chosen";

/// A reply with the chosen cas uniques replaced, and those.
pub(crate) fn without_uniques(reply: &[u8]) -> (Vec<u8>, Vec<u64>) {
    if reply.first() == Some(&RESPONSE_MAGIC) && reply.len() >= HEADER_BYTES {
        let unique = reply[16..HEADER_BYTES].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        if unique >= FIRST_UNIQUE {
            return ([&reply[..16], &reply[HEADER_BYTES..]].concat(), vec![unique]);
        }
        return (reply.to_vec(), Vec::new());
    }
    let (mut rest, mut uniques) = (Vec::with_capacity(reply.len()), Vec::new());
    for run in reply.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
        let digits = run[0].is_ascii_digit().then(|| std::str::from_utf8(run).expect("digits are text"));
        let number = digits.and_then(|digits| digits.parse().ok());
        match number.filter(|number| *number >= FIRST_UNIQUE) {
            Some(unique) => {
                uniques.push(unique);
                rest.extend_from_slice(CHOSEN);
            }
            None => rest.extend_from_slice(run),
        }
    }
    (rest, uniques)
}

/// Whether a reply reports that memory is exhausted, and nothing else.
fn reports_refusal(reply: &[u8]) -> bool {
    let lines = reply.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    let is_line = reply.starts_with(b"SERVER_ERROR ") && lines == 1;
    let status = (Status::OutOfMemory as u16).to_be_bytes();
    let is_packet = reply.first() == Some(&RESPONSE_MAGIC) && reply[6..8] == status;
    let is_record = reply.len() == 8 && reply[0] == guira_protocol::mica::Status::OutOfMemory as u8;
    is_line || is_packet || is_record
}

/// Whether two items differ at most in the cas unique that the server chose.
fn alike(one: Option<&Seen>, other: Option<&Seen>) -> bool {
    let plain = |seen: &Seen| Seen { cas: seen.cas.map(|cas| cas.min(FIRST_UNIQUE)), ..seen.clone() };
    one.map(plain) == other.map(plain)
}

/// Whether two items differ at most in whether the server chose a cas unique, and which.
pub(crate) fn alike_but_for_uniques(one: Option<&Seen>, other: Option<&Seen>) -> bool {
    let plain = |seen: &Seen| Seen { cas: seen.cas.filter(|cas| *cas < FIRST_UNIQUE), ..seen.clone() };
    one.map(plain) == other.map(plain)
}

/// Whether `after` equals `before`, except for a cas unique that it may have got.
fn unchanged(before: Option<&Seen>, after: Option<&Seen>) -> bool {
    match (before, after) {
        (None, None) => true,
        (Some(before), Some(after)) => {
            let given = before.cas.or(after.cas);
            Seen { cas: given, ..before.clone() } == *after
        }
        _ => false,
    }
}

/// Whether the reply reports less, as allowed for an item that could not be updated.
fn is_less(request: &Request, reply: &[u8], wanted: &[u8]) -> bool {
    if request.bytes.starts_with(b"mg ") {
        // No client wins for now, and a hidden item has the cas unique that it had.
        let as_it_was = format!(" c{UNIQUE}");
        let reply = replaced(reply, as_it_was.as_bytes(), &[b" c", CHOSEN].concat());
        let wanted = replaced(wanted, as_it_was.as_bytes(), &[b" c", CHOSEN].concat());
        // Of a hidden item whose interval is over it then says that another client has won.
        return replaced(&wanted, b" W", b"") == replaced(&reply, b" Z", b"");
    }
    // There is no cas unique to show.
    let shown =
        |text: &[u8]| text.windows(5).position(|window| window == b" cas=").map(|at| text[..at].to_vec());
    let without = shown(reply).map(|before| [&before[..], b" cas=0 "].concat());
    request.bytes.starts_with(b"me ")
        && shown(reply) == shown(wanted)
        && without.is_some_and(|without| reply.starts_with(&without))
}

/// `text` with the first `old` replaced.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    match text.windows(old.len()).position(|window| window == old) {
        Some(at) => [&text[..at], new, &text[at + old.len()..]].concat(),
        None => text.to_vec(),
    }
}

/// Checks an outcome against the item before, and against the outcome of the same request with enough memory.
///
/// # Errors
/// A description of the failure.
pub(crate) fn judge(
    request: &Request,
    losses: Lossiness,
    before: Option<&Seen>,
    found: &Outcome,
    wanted: &Outcome,
) -> Result<(), &'static str> {
    let after = found.after.as_ref();
    let (reply, uniques) = without_uniques(&found.reply);
    let (wanted_reply, _) = without_uniques(&wanted.reply);
    let done = alike(after, wanted.after.as_ref());
    let nothing_done = unchanged(before, after);
    let may_remove = match request.asks_for {
        AsksFor::Set => losses == Lossiness::Cache,
        AsksFor::Removal => !before.is_some_and(|before| before.state.is_tombstone()),
        AsksFor::Invalidation | AsksFor::Other => false,
    };
    let gave_up = may_remove && after.is_none();
    let is_true = after.is_none_or(|item| uniques.iter().all(|unique| item.cas == Some(*unique)));
    // Without memory, a lease-get gives a token that nothing can be stored with; and a delete removes what it would have kept as stale.
    let without_lease = request.bytes.starts_with(b"lease-get ") && nothing_done;
    let hidden = |item: &Seen| item.state.has(ItemState::HIDDEN);
    let without_stale = after.is_none() && wanted.after.as_ref().is_some_and(hidden);
    if reply == wanted_reply && (without_lease || without_stale) {
        return Ok(());
    }
    if request.asks_for == AsksFor::Invalidation {
        let is_invalid = done || after.is_none();
        return if reply == wanted_reply && is_invalid { Ok(()) } else { Err("the value is still valid") };
    }
    if request.has_reply == HasReply::Never {
        let fits = found.reply.is_empty() && (done || nothing_done || gave_up);
        return if fits { Ok(()) } else { Err("it is neither done nor left") };
    }
    if reply == wanted_reply {
        return match (done, is_true) {
            (true, true) => Ok(()),
            (true, false) => Err("the reply has another cas unique"),
            (false, _) => Err("the reply reports a change that was not made"),
        };
    }
    if reports_refusal(&found.reply) {
        let fits = nothing_done || gave_up;
        return if fits { Ok(()) } else { Err("it is refused, and something has changed") };
    }
    match (is_less(request, &reply, &wanted_reply), nothing_done && is_true) {
        (true, true) => Ok(()),
        (true, false) => Err("the reply reports less, but the item has changed"),
        (false, _) => Err("the reply is neither that of success nor an error"),
    }
}

#[test]
fn uniques_that_the_server_chose_are_found_in_replies() {
    let text = format!("VALUE k 3 2 {FIRST_UNIQUE}\r\n12\r\nEND\r\n");
    let (rest, uniques) = without_uniques(text.as_bytes());
    assert_eq!((&rest[..], &uniques[..]), (&b"VALUE k 3 2 chosen\r\n12\r\nEND\r\n"[..], &[FIRST_UNIQUE][..]));
    let others = format!("HD c{UNIQUE} t-1 {}9", u64::MAX);
    assert_eq!(without_uniques(others.as_bytes()), (others.clone().into_bytes(), Vec::new()));
    assert_eq!(without_uniques(b""), (Vec::new(), Vec::new()));
}
