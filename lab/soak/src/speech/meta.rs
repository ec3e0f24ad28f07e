//! The meta protocol.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use guira_protocol::MetaVerb;
use guira_protocol::client::{self, MetaReply, MetaRequest, Reply};
use guira_protocol::word::reply;

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

/// The key in its written form, and whether that is base64, which every third key uses.
fn written(name: &[u8]) -> (Cow<'_, [u8]>, bool) {
    let sum = name.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    if sum.is_multiple_of(3) && name.len() < 100 {
        (STANDARD.encode(name).into_bytes().into(), true)
    } else {
        (name.into(), false)
    }
}

/// The line with `b` if its key is in base64.
fn with_form(line: MetaRequest<'_>, is_base64: bool) -> MetaRequest<'_> {
    if is_base64 { line.flags(b"b") } else { line }
}

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let (name, is_base64) = written(name);
    let begin = |verb, out| with_form(client::meta(verb, &name, out), is_base64);
    match verb {
        Verb::Delete => begin(MetaVerb::Delete, out).end(),
        Verb::Touch => begin(MetaVerb::Get, out).number(b'T', *ttl).end(),
        Verb::Gets => begin(MetaVerb::Get, out).flags(b"v f c").end(),
        Verb::Gat => begin(MetaVerb::Get, out).flags(b"v f c").number(b'T', *ttl).end(),
        Verb::Increment(by) => begin(MetaVerb::Arithmetic, out).number(b'D', *by).flags(b"v").end(),
        Verb::Decrement(by) => {
            begin(MetaVerb::Arithmetic, out).flags(b"MD").number(b'D', *by).flags(b"v").end()
        }
        store => {
            let line = with_form(client::meta_store(&name, value.len(), out), is_base64);
            let line = line.number(b'F', *flags).number(b'T', *ttl);
            let line = match store {
                Verb::Add => line.flags(b"ME"),
                Verb::Replace => line.flags(b"MR"),
                Verb::Append => line.flags(b"MA"),
                Verb::Prepend => line.flags(b"MP"),
                Verb::Cas(unique) => line.number(b'C', *unique),
                _ => line,
            };
            line.end_with(value);
        }
    }
}

pub(crate) fn read(request: &Request, wire: &mut Wire) -> io::Result<Answer> {
    let line = match wire.reply()? {
        Ok(Reply::MetaValue { line, value }) => {
            if !matches!(request.verb, Verb::Increment(_) | Verb::Decrement(_)) {
                return Ok(Answer::Hit(hit(line, value)));
            }
            let number = String::from_utf8_lossy(value).trim_end().parse();
            let strange = || Answer::Strange(line.escape_ascii().to_string());
            return Ok(number.map_or_else(|_| strange(), Answer::Number));
        }
        Ok(other) => other.line(),
        Err(what) => return Ok(Answer::Strange(what)),
    };
    Ok(match MetaReply::of(line).code {
        // Without echoed flags nothing may follow but those that mark an item.
        reply::META_DONE => Answer::Done,
        reply::META_NOT_STORED => Answer::NotStored,
        reply::META_EXISTS => Answer::Exists,
        reply::META_NOT_FOUND | reply::META_MISS => Answer::NotFound,
        _ => error_line(&String::from_utf8_lossy(line)),
    })
}

/// Parses a hit: the line and the value.
pub(crate) fn hit(line: &[u8], value: &[u8]) -> Hit {
    let line = MetaReply::of(line);
    let flags = line.number(b'f').and_then(|flags| u32::try_from(flags).ok());
    Hit { value: value.to_vec(), flags: flags.unwrap_or(0), cas: line.number(b'c').unwrap_or(0) }
}

/// Writes a request for many keys: quiet ones, numbered by their opaque, and an end.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        let (name, is_base64) = written(name);
        let line = with_form(client::meta(MetaVerb::Get, &name, out), is_base64);
        line.flags(b"v f k c").number(b'O', index).flags(b"q").end();
    }
    out.extend_from_slice(client::META_NOOP);
}

pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    let mut refused = false;
    loop {
        let (line, value) = match wire.reply()? {
            Ok(Reply::MetaValue { line, value }) => (line, value),
            Ok(Reply::Line(reply::META_NOOP)) => {
                if refused {
                    let nothing = seen.iter_mut().filter(|seen| **seen == Seen::Nothing);
                    nothing.for_each(|seen| *seen = Seen::Refused);
                }
                return Ok(Ok(seen));
            }
            Ok(other) => {
                let line = String::from_utf8_lossy(other.line());
                if !matches!(error_line(&line), Answer::Refused(_)) {
                    return Ok(Err(line.into_owned()));
                }
                // The reply does not name the key.
                refused = true;
                continue;
            }
            Err(what) => return Ok(Err(what)),
        };
        let said = MetaReply::of(line);
        let index = said.number(b'O').and_then(|index| usize::try_from(index).ok());
        let Some(name) = index.and_then(|index| names.get(index)) else {
            return Ok(Err(line.escape_ascii().to_string()));
        };
        // The key comes back in its stored form, whatever form the request had.
        let forms = [name.clone(), STANDARD.encode(name).into_bytes()];
        if !said.flag(b'k').is_some_and(|key| forms.iter().any(|form| form == key)) {
            let line = line.escape_ascii();
            return Ok(Err(format!("{line}: not the key that was asked for: {forms:?}")));
        }
        seen[index.unwrap_or_default()] = Seen::Hit(hit(line, value));
    }
}
