//! Lines of Twitter's traces: `timestamp,key,key size,value size,client id,operation,TTL`.

use super::lines::{action, number, wrong_fields};
use super::{Burst, Key, Request, TraceErrorKind, checked_key};

/// Reads one line. The key is whatever lies between the first and the last five fields, so it may hold commas.
pub(super) fn parse(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    let fields = || -> Option<[&[u8]; 7]> {
        let comma = line.iter().position(|&byte| byte == b',')?;
        let (time, mut rest) = (&line[..comma], &line[comma + 1..]);
        let mut last = [&b""[..]; 5];
        for slot in last.iter_mut().rev() {
            let at = rest.iter().rposition(|&byte| byte == b',')?;
            *slot = &rest[at + 1..];
            rest = &rest[..at];
        }
        let [key_len, value_len, client, operation, ttl] = last;
        Some([time, rest, key_len, value_len, client, operation, ttl])
    };
    let [time, key, key_len, value_len, _client, operation, ttl] = fields().ok_or_else(|| {
        let found = line.iter().filter(|&&byte| byte == b',').count() + 1;
        wrong_fields(found, "the seven of timestamp,key,key size,value size,client id,operation,TTL")
    })?;
    let key_len: u32 = number("key size", key_len)?;
    let request = Request {
        key: Key::Text(checked_key(key)?),
        key_len: Some(key_len as usize),
        action: action(operation)?,
        // A get that missed has no size.
        value_len: Some(number("value size", value_len)?).filter(|&len| len > 0),
        ttl: number("TTL", ttl)?,
        time: number("timestamp", time)?,
    };
    Ok(request.into())
}
