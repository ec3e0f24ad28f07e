//! The meta protocol.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Answer, Hit, Request, Seen, SeenAll, Verb, error_line};
use crate::client::Wire;

/// The key as it is written, and the flag that goes with it: every third in base64.
fn written(name: &[u8]) -> (String, &'static str) {
    let sum = name.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    if sum % 3 == 0 && name.len() < 100 {
        (STANDARD.encode(name), " b")
    } else {
        (String::from_utf8_lossy(name).into_owned(), "")
    }
}

pub(crate) fn write(request: &Request, out: &mut Vec<u8>) {
    let Request { verb, name, value, flags, ttl } = request;
    let (name, base64) = written(name);
    let length = value.len();
    let mut store = |mode: &str| {
        let _ = write!(out, "ms {name} {length}{base64} F{flags} T{ttl}{mode}\r\n");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    let line = match verb {
        Verb::Set => return store(""),
        Verb::Add => return store(" ME"),
        Verb::Replace => return store(" MR"),
        Verb::Append => return store(" MA"),
        Verb::Prepend => return store(" MP"),
        Verb::Cas(unique) => return store(&format!(" C{unique}")),
        Verb::Delete => format!("md {name}{base64}"),
        Verb::Touch => format!("mg {name}{base64} T{ttl}"),
        Verb::Gets => format!("mg {name}{base64} v f c"),
        Verb::Gat => format!("mg {name}{base64} v f c T{ttl}"),
        Verb::Increment(by) => format!("ma {name}{base64} D{by} v"),
        Verb::Decrement(by) => format!("ma {name}{base64} MD D{by} v"),
    };
    let _ = write!(out, "{line}\r\n");
}

pub(crate) fn read(request: &Request, wire: &mut Wire) -> io::Result<Answer> {
    let line = wire.line()?;
    if line.starts_with("VA ") {
        let hit = match value(&line, wire)? {
            Ok(hit) => hit,
            Err(what) => return Ok(Answer::Strange(what)),
        };
        if !matches!(request.verb, Verb::Increment(_) | Verb::Decrement(_)) {
            return Ok(Answer::Hit(hit));
        }
        let number = String::from_utf8_lossy(&hit.value).trim_end().parse();
        return Ok(number.map_or(Answer::Strange(line), Answer::Number));
    }
    let code = line.split(' ').next().unwrap_or_default();
    Ok(match code {
        // Without echoed flags nothing may follow but those that mark an item.
        "HD" => Answer::Done,
        "NS" => Answer::NotStored,
        "EX" => Answer::Exists,
        "NF" | "EN" => Answer::NotFound,
        _ => error_line(&line),
    })
}

/// The value that follows this line; or the line, if it is wrong.
pub(crate) fn value(line: &str, wire: &mut Wire) -> io::Result<Result<Hit, String>> {
    let mut words = line.split(' ').skip(1);
    let Some(Ok(length)) = words.next().map(str::parse::<usize>) else { return Ok(Err(line.to_owned())) };
    let (mut flags, mut cas) = (0, 0);
    for word in words {
        match word.split_at_checked(1) {
            Some(("f", number)) => flags = number.parse().unwrap_or(0),
            Some(("c", number)) => cas = number.parse().unwrap_or(0),
            _ => {}
        }
    }
    let mut value = wire.bytes(length + 2)?;
    if !value.ends_with(b"\r\n") {
        return Ok(Err(format!("{line}: no end of line after the value")));
    }
    value.truncate(length);
    Ok(Ok(Hit { value, flags, cas }))
}

/// Writes a request for many keys: quiet ones, numbered by their opaque, and an end.
pub(crate) fn write_many(names: &[Vec<u8>], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        let (name, base64) = written(name);
        let _ = write!(out, "mg {name}{base64} v f k c O{index} q\r\n");
    }
    out.extend_from_slice(b"mn\r\n");
}

pub(crate) fn read_many(names: &[Vec<u8>], wire: &mut Wire) -> io::Result<SeenAll> {
    let mut seen = vec![Seen::Nothing; names.len()];
    let mut refused = false;
    loop {
        let line = wire.line()?;
        if line == "MN" {
            if refused {
                seen.iter_mut().filter(|seen| **seen == Seen::Nothing).for_each(|seen| *seen = Seen::Refused);
            }
            return Ok(Ok(seen));
        }
        if matches!(error_line(&line), Answer::Refused(_)) {
            // It does not say which key.
            refused = true;
            continue;
        }
        let opaque = line.split(' ').find_map(|word| word.strip_prefix('O'));
        let index = opaque.and_then(|opaque| opaque.parse::<usize>().ok());
        let Some(index) = index.filter(|index| *index < names.len() && line.starts_with("VA ")) else {
            return Ok(Err(line));
        };
        // The key comes back as it was when it was stored, whatever form it was asked for in.
        let forms = [String::from_utf8_lossy(&names[index]).into_owned(), STANDARD.encode(&names[index])];
        let mut keys = line.split(' ').filter_map(|word| word.strip_prefix('k'));
        if !keys.any(|key| forms.iter().any(|form| form == key)) {
            return Ok(Err(format!("{line}: not the key that was asked for: {forms:?}")));
        }
        match value(&line, wire)? {
            Ok(hit) => seen[index] = Seen::Hit(hit),
            Err(what) => return Ok(Err(what)),
        }
    }
}
