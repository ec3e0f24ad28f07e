//! The classic text protocol.

use std::io::{self, Write};

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let name = String::from_utf8_lossy(name);
    let length = value.len();
    // Nothing fails that is written to memory, here and below.
    let _ = match verb {
        Verb::Cas(unique) => write!(out, "cas {name} {flags} {ttl} {length} {unique}\r\n"),
        Verb::Delete => write!(out, "delete {name}\r\n"),
        Verb::Touch => write!(out, "touch {name} {ttl}\r\n"),
        Verb::Gets => write!(out, "gets {name}\r\n"),
        Verb::Gat => write!(out, "gats {ttl} {name}\r\n"),
        Verb::Increment(by) => write!(out, "incr {name} {by}\r\n"),
        Verb::Decrement(by) => write!(out, "decr {name} {by}\r\n"),
        stores => write!(out, "{} {name} {flags} {ttl} {length}\r\n", stores.name()),
    };
    let stores = [Verb::Set, Verb::Add, Verb::Replace, Verb::Append, Verb::Prepend].contains(verb);
    if stores || matches!(verb, Verb::Cas(_)) {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
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
    let line = wire.line()?;
    Ok(match line.as_str() {
        "STORED" | "DELETED" | "TOUCHED" => Answer::Done,
        "NOT_STORED" => Answer::NotStored,
        "EXISTS" => Answer::Exists,
        "NOT_FOUND" => Answer::NotFound,
        other => other.trim_end().parse().map_or_else(|_| error_line(other), Answer::Number),
    })
}

/// Writes a request for many keys.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(b"gets");
    for name in names {
        out.push(b' ');
        out.extend_from_slice(name);
    }
    out.extend_from_slice(b"\r\n");
}

/// Reads its answer. Values come in the order of their keys.
pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    let mut next = 0;
    loop {
        let line = wire.line()?;
        if line == "END" {
            return Ok(Ok(seen));
        }
        if matches!(error_line(&line), Answer::Refused(_)) {
            // It ends the answer.
            seen[next..].fill(Seen::Refused);
            return Ok(Ok(seen));
        }
        let words = line.split(' ').collect::<Vec<_>>();
        let ["VALUE", name, flags, length, cas] = words[..] else { return Ok(Err(line)) };
        let (Ok(flags), Ok(length), Ok(cas)) = (flags.parse(), length.parse::<usize>(), cas.parse()) else {
            return Ok(Err(line));
        };
        let mut value = wire.bytes(length + 2)?;
        if !value.ends_with(b"\r\n") {
            return Ok(Err(format!("{line}: no end of line after the value")));
        }
        value.truncate(length);
        let Some(at) = names[next..].iter().position(|asked| asked == name.as_bytes()) else {
            return Ok(Err(format!("{line}: not asked for here")));
        };
        seen[next + at] = Seen::Hit(Hit { value, flags, cas });
        next += at + 1;
    }
}
