//! Twitter's lines: `timestamp,key,key size,value size,client id,operation,TTL`.

use super::{Action, Key, Request, TraceErrorKind, checked_key};

/// Reads one line. The key is whatever lies between the first and the last five fields, so it may hold commas.
pub(super) fn parse(line: &[u8]) -> Result<Request, TraceErrorKind> {
    let count = line.iter().filter(|&&byte| byte == b',').count() + 1;
    let fields = || -> Option<[&[u8]; 7]> {
        let (time, mut rest) = split_first(line)?;
        let mut last = [&b""[..]; 5];
        for slot in last.iter_mut().rev() {
            let at = rest.iter().rposition(|&byte| byte == b',')?;
            *slot = &rest[at + 1..];
            rest = &rest[..at];
        }
        let [key_len, value_len, client, operation, ttl] = last;
        Some([time, rest, key_len, value_len, client, operation, ttl])
    };
    let [time, key, key_len, value_len, _client, operation, ttl] =
        fields().ok_or(TraceErrorKind::Fields(count))?;
    let key_len = number("key size", key_len)? as usize;
    Ok(Request {
        key: Key::Text(checked_key(key)?),
        key_len: (key_len > 0).then_some(key_len),
        action: action(operation)?,
        // A get that missed has no size.
        value_len: Some(number("value size", value_len)?).filter(|&len| len > 0),
        ttl: number("TTL", ttl)?,
        time: number("timestamp", time)?.into(),
    })
}

fn split_first(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|&byte| byte == b',')?;
    Some((&line[..at], &line[at + 1..]))
}

fn action(operation: &[u8]) -> Result<Action, TraceErrorKind> {
    match operation.trim_ascii() {
        b"get" | b"gets" => Ok(Action::Get),
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => Ok(Action::Set),
        b"delete" => Ok(Action::Delete),
        other => Err(TraceErrorKind::Operation(String::from_utf8_lossy(other).into_owned())),
    }
}

fn number(field: &'static str, text: &[u8]) -> Result<u32, TraceErrorKind> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| TraceErrorKind::Number { field, text: String::from_utf8_lossy(text).into_owned() })
}
