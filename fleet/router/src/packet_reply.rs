//! Writes replies in the binary protocol.

use crate::render;
use guira_protocol::binary::{Kind, Packet, Quiet, Response, Shown, Status};
use guira_protocol::{Verb, number_from};
use guira_routing::{Answer, Group, Outcome};

/// The fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) opcode: u8,
    pub(crate) opaque: [u8; 4],
}

/// The group of a request whose failure may be answered as a miss.
pub(crate) fn missing(echo: Echo) -> Option<Group> {
    match Packet::echo(echo.opcode, echo.opaque).kind()? {
        Kind::Get(_) => Some(Group::Get),
        Kind::Touch(shown) if shown != Shown::Nothing => Some(Group::Get),
        Kind::Arithmetic(_) => Some(Group::Arithmetic),
        _ => None,
    }
}

/// Appends the reply to a request for one key, unless the command is quiet and omits it.
pub(crate) fn write(echo: Echo, key: &[u8], answer: &Answer<'_>, out: &mut Vec<u8>) {
    let packet = Packet::echo(echo.opcode, echo.opaque);
    let Some(kind) = packet.kind() else { return };
    let status = status(kind, answer);
    if packet.quiet() == Quiet::Yes && is_left_out(kind, status) {
        return;
    }
    let cas = if status == Status::Success { unique(answer) } else { 0 };
    let response = Response { cas, ..Response::plain(packet, status) };
    match kind {
        Kind::Get(shown) | Kind::Touch(shown) if status == Status::Success => {
            match u32::try_from(flags(answer)) {
                Ok(flags) => item(response, (flags, shown), key, answer, out),
                Err(_) => failure(Response::plain(packet, Status::InternalError), &LONG_FLAGS, out),
            }
        }
        Kind::Get(Shown::KeyAndValue) | Kind::Touch(Shown::KeyAndValue) if status == Status::KeyNotFound => {
            put(Response { key_len: key.len() as u8, ..response }, &[key], out);
        }
        Kind::Arithmetic(_) if status == Status::Success => {
            let number = number_from(answer.block).unwrap_or(answer.number);
            put(Response { value_len: 8, ..response }, &[&number.to_be_bytes()], out);
        }
        _ if status == Status::Success => put(response, &[], out),
        _ => failure(response, answer, out),
    }
}

fn put(response: Response, body: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(&response.header());
    body.iter().for_each(|part| out.extend_from_slice(part));
}

const LONG_FLAGS: Answer<'static> = Answer {
    line: b"SERVER_ERROR the item's flags have more than 32 bits",
    ..Answer::of(Outcome::LocalError)
};

fn flags(answer: &Answer<'_>) -> u64 {
    let flags = answer.item.map(|item| item.flags);
    flags.or_else(|| token(answer.line, b'f')).unwrap_or(0)
}

/// Appends the flags, and the key and value if the request wants them.
fn item(
    response: Response,
    (flags, shown): (u32, Shown),
    key: &[u8],
    answer: &Answer<'_>,
    out: &mut Vec<u8>,
) {
    let key = if shown == Shown::KeyAndValue { key } else { b"" };
    let value = answer.item.filter(|_| shown != Shown::Nothing).map_or(b"".as_slice(), |item| item.value);
    let (extras_len, key_len, value_len) = (4, key.len() as u8, value.len() as u32);
    let response = Response { extras_len, key_len, value_len, ..response };
    put(response, &[&flags.to_be_bytes(), key, value], out);
}

/// Appends a failure with memcached's text.
fn failure(response: Response, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let mut line = Vec::new();
    let text = match response.status {
        Status::TemporaryFailure | Status::Busy | Status::InternalError => {
            render::failure(answer, &mut line);
            line.trim_ascii().strip_prefix(b"SERVER_ERROR ").unwrap_or(line.trim_ascii())
        }
        status => status.text().as_bytes(),
    };
    put(Response { value_len: text.len() as u32, ..response }, &[text], out);
}

/// Whether a quiet command of this kind omits a reply with this status.
fn is_left_out(kind: Kind, status: Status) -> bool {
    match kind {
        Kind::Get(_) | Kind::Touch(_) => status == Status::KeyNotFound,
        _ => status == Status::Success,
    }
}

fn status(kind: Kind, answer: &Answer<'_>) -> Status {
    match answer.outcome {
        Outcome::Found | Outcome::Stored | Outcome::Deleted | Outcome::Touched | Outcome::Ok => {
            Status::Success
        }
        Outcome::Exists => Status::KeyExists,
        Outcome::NotFound | Outcome::NotFoundHot | Outcome::FoundStale => Status::KeyNotFound,
        Outcome::NotStored | Outcome::StaleStored => match kind {
            Kind::Store(Verb::Add) => Status::KeyExists,
            Kind::Store(Verb::Replace) => Status::KeyNotFound,
            _ => Status::NotStored,
        },
        Outcome::Busy => Status::Busy,
        Outcome::Timeout
        | Outcome::ConnectTimeout
        | Outcome::ConnectError
        | Outcome::Shutdown
        | Outcome::TryAgain
        | Outcome::Tko
        | Outcome::DeadlineExceeded => Status::TemporaryFailure,
        Outcome::LocalError => Status::InternalError,
        Outcome::RemoteError if says(answer, b"out of memory") => Status::OutOfMemory,
        Outcome::RemoteError | Outcome::ClientError if says(answer, b"too large") => Status::TooLarge,
        Outcome::RemoteError => Status::InternalError,
        Outcome::ClientError if says(answer, b"non-numeric") => Status::NotANumber,
        Outcome::ClientError => Status::InvalidArguments,
    }
}

/// Whether the server's reply has these words.
fn says(answer: &Answer<'_>, words: &[u8]) -> bool {
    memchr::memmem::find(answer.line, words).is_some()
}

/// The cas unique of the item that was found or stored.
fn unique(answer: &Answer<'_>) -> u64 {
    if answer.line.is_empty() { answer.number } else { token(answer.line, b'c').unwrap_or(0) }
}

/// The number behind a letter in the reply to a meta command.
fn token(line: &[u8], letter: u8) -> Option<u64> {
    let mut tokens = line.split(|byte| *byte == b' ').skip(1);
    tokens.find_map(|token| number_from(token.strip_prefix(&[letter])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_routing::Item;

    const GETK: u8 = 0x0c;
    const GETKQ: u8 = 0x0d;
    const ADDQ: u8 = 0x12;
    const INCREMENT: u8 = 0x05;
    const TOUCH: u8 = 0x1c;

    fn reply(opcode: u8, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write(Echo { opcode, opaque: *b"opaq" }, b"key", answer, &mut out);
        out
    }

    fn header(opcode: u8, key: u8, extras: u8, status: u8, body: u8, cas: u8) -> Vec<u8> {
        let mut bytes = vec![0x81, opcode, 0, key, extras, 0, 0, status, 0, 0, 0, body];
        bytes.extend(b"opaq");
        bytes.extend([0, 0, 0, 0, 0, 0, 0, cas]);
        bytes
    }

    #[test]
    fn a_hit_has_flags_and_key_and_value_whichever_way_it_was_asked_for() {
        let item = Some(Item { flags: 0x0102, value: b"value" });
        let expected = [&header(GETK, 3, 4, 0, 12, 9), [0, 0, 1, 2].as_slice(), b"key", b"value"].concat();
        let classic = Answer { item, number: 9, ..Answer::of(Outcome::Found) };
        assert_eq!(reply(GETK, &classic), expected);
        let meta = Answer { item, line: b"VA 5 f258 c9", block: b"value", ..Answer::of(Outcome::Found) };
        assert_eq!(reply(GETK, &meta), expected);
        let touched = Answer { line: b"HD f258 c9", ..Answer::of(Outcome::Found) };
        let expected = [&header(TOUCH, 0, 4, 0, 4, 9), [0, 0, 1, 2].as_slice()].concat();
        assert_eq!(reply(TOUCH, &touched), expected);
        let text = b"the item's flags have more than 32 bits";
        let expected = [&header(GETK, 0, 0, 0x84, 39, 0), text.as_slice()].concat();
        let item = Some(Item { flags: 1 << 32, value: b"value" });
        assert_eq!(reply(GETK, &Answer { item, ..classic }), expected);
    }

    #[test]
    fn quiet_commands_keep_to_themselves_what_is_expected() {
        let missed = Answer::of(Outcome::NotFound);
        assert_eq!(reply(GETKQ, &missed), b"");
        assert_eq!(reply(GETK, &missed), [&header(GETK, 3, 0, 1, 3, 0), b"key".as_slice()].concat());
        assert_eq!(reply(ADDQ, &Answer { line: b"HD c7", ..Answer::of(Outcome::Found) }), b"");
        let exists = [&header(ADDQ, 0, 0, 2, 20, 0), b"Data exists for key.".as_slice()].concat();
        assert_eq!(reply(ADDQ, &Answer { line: b"NS", ..Answer::of(Outcome::NotStored) }), exists);
        let failed = [&header(GETKQ, 0, 0, 0x86, 18, 0), b"Server unavailable".as_slice()].concat();
        assert_eq!(reply(GETKQ, &Answer::of(Outcome::Tko)), failed);
    }

    #[test]
    fn numbers_are_eight_bytes_and_what_is_none_is_told() {
        let counted = Answer { line: b"VA 2 c3", block: b"12", ..Answer::of(Outcome::Found) };
        let expected = [&header(INCREMENT, 0, 0, 0, 8, 3), [0, 0, 0, 0, 0, 0, 0, 12].as_slice()].concat();
        assert_eq!(reply(INCREMENT, &counted), expected);
        let line = b"CLIENT_ERROR cannot increment or decrement non-numeric value";
        let wrong = reply(INCREMENT, &Answer { line, ..Answer::of(Outcome::ClientError) });
        assert_eq!(wrong[..24], header(INCREMENT, 0, 0, 6, 46, 0));
    }
}
