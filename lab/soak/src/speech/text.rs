//! The classic text protocol.

use std::io;

use guira_protocol as classic;
use guira_protocol::client::{self, Reply};
use guira_protocol::word::reply;
use guira_protocol::{Direction, Exptime, GetForm, Unique};

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let item = client::Item { flags: (*flags).into(), exptime: (*ttl).into(), value };
    let store = |verb, out| client::store(verb, name, item, out);
    match *verb {
        Verb::Set => store(classic::Verb::Set, out),
        Verb::Add => store(classic::Verb::Add, out),
        Verb::Replace => store(classic::Verb::Replace, out),
        Verb::Append => store(classic::Verb::Append, out),
        Verb::Prepend => store(classic::Verb::Prepend, out),
        Verb::Cas(unique) => store(classic::Verb::Cas(unique), out),
        Verb::Delete => client::delete(name, 0, out),
        Verb::Touch => client::touch(name, (*ttl).into(), out),
        Verb::Gets => client::get(GetForm::Plain(Unique::Shown), [&name[..]], out),
        Verb::Gat => {
            let time = Exptime(i32::try_from(*ttl).unwrap_or(i32::MAX));
            client::get(GetForm::Touch(Unique::Shown, time), [&name[..]], out);
        }
        Verb::Increment(by) => client::arithmetic(Direction::Up, name, by, out),
        Verb::Decrement(by) => client::arithmetic(Direction::Down, name, by, out),
    }
}

pub(crate) fn read(request: &Request, wire: &mut Wire) -> io::Result<Answer> {
    if matches!(request.verb, Verb::Gets | Verb::Gat) {
        let found = read_many(std::slice::from_ref(&request.name), wire)?;
        return Ok(match found {
            Ok(mut seen) => match seen.pop() {
                Some(Seen::Hit(hit)) => Answer::Hit(hit),
                Some(Seen::Refused) => error_line("SERVER_ERROR out of memory"),
                Some(Seen::Nothing) | None => Answer::NotFound,
            },
            Err(what) => error_line(&what),
        });
    }
    let line = match wire.reply()? {
        Ok(reply) => reply.line(),
        Err(what) => return Ok(Answer::Strange(what)),
    };
    Ok(match line {
        reply::STORED | reply::DELETED | reply::TOUCHED => Answer::Done,
        reply::NOT_STORED => Answer::NotStored,
        reply::EXISTS => Answer::Exists,
        reply::NOT_FOUND => Answer::NotFound,
        other => {
            let line = String::from_utf8_lossy(other);
            line.trim_end().parse().map_or_else(|_| error_line(&line), Answer::Number)
        }
    })
}

/// Writes a request for many keys.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    client::get(GetForm::Plain(Unique::Shown), names.iter().map(Vec::as_slice), out);
}

/// Reads its answer. Values come in the order of their keys.
pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    let mut next = 0;
    loop {
        let value = match wire.reply()? {
            Ok(Reply::Value(value)) => value,
            Ok(Reply::End) => return Ok(Ok(seen)),
            Ok(other) => {
                let line = String::from_utf8_lossy(other.line());
                if !matches!(error_line(&line), Answer::Refused(_)) {
                    return Ok(Err(line.into_owned()));
                }
                // It ends the answer.
                seen[next..].fill(Seen::Refused);
                return Ok(Ok(seen));
            }
            Err(what) => return Ok(Err(what)),
        };
        let place = names[next..].iter().position(|requested| requested == value.key);
        let (Some(at), Some(cas)) = (place, value.number) else {
            return Ok(Err(format!("{}: not asked for here", Reply::Value(value).line().escape_ascii())));
        };
        let Ok(flags) = u32::try_from(value.flags) else {
            return Ok(Err(format!("{}: no item has such flags", Reply::Value(value).line().escape_ascii())));
        };
        seen[next + at] = Seen::Hit(Hit { value: value.value.to_vec(), flags, cas });
        next += at + 1;
    }
}
