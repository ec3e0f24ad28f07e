//! Formats of which each line stands by itself.

use super::error::REPEATS_MAX;
use super::{Action, Burst, Key, Request, TraceErrorKind, checked_key};

/// Bytes of a block that a request to a disk is counted in.
const BLOCK: u64 = 4096;

/// Whether a line says nothing.
pub(super) fn is_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty() || line.starts_with(b"*") || line.starts_with(b"#")
}

/// The fields of a line that are kept apart by blanks.
pub(super) fn blank_fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

pub(super) fn text(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    Ok(Request::get(Key::Text(checked_key(line)?)).into())
}

/// `start count ignored request-number`: a get of each of `count` keys from `start` on.
pub(super) fn lis(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    let [start, count, _, _] = exactly(blank_fields(line), "the four of start count ignored request-number")?;
    let request = Request::number(number("start", start)?);
    Burst::run(request, number("count", count)?)
}

/// `time key size`.
pub(super) fn sized(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    let [time, key, size] = exactly(blank_fields(line), "the three of time key size")?;
    let request =
        Request { value_len: Some(number("size", size)?), time: seconds("time", time)?, ..keyed(key)? };
    Ok(request.into())
}

/// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: times are tenths of a microsecond, and a request is
/// one for each block of 4 KiB that it touches, as a cache in front of the disk sees it.
pub(super) fn msr(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    const FIELDS: &str = "the seven of Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    let [time, _, disk, kind, offset, size, _] = exactly(line.split(|&byte| byte == b','), FIELDS)?;
    let (offset, size): (u64, u64) = (number("offset", offset)?, number("size", size)?);
    let (first, last) = (offset / BLOCK, offset.saturating_add(size.max(1) - 1) / BLOCK);
    let disk: u64 = number("disk number", disk)?;
    let request = Request {
        action: action(kind)?,
        value_len: Some(BLOCK as u32),
        time: number::<u64>("timestamp", time)? / 10_000_000,
        // No disk has 2^48 blocks, so blocks of several disks do not meet.
        ..Request::number(disk << 48 | first)
    };
    Burst::run(request, last - first + 1)
}

/// `timestamp operation object [size [first byte] [last byte]]`: times are milliseconds. The whole object is asked for,
/// whatever part of it was.
pub(super) fn ibm(line: &[u8]) -> Result<Burst, TraceErrorKind> {
    let fields: Vec<&[u8]> =
        line.split(|byte| b", \t".contains(byte)).filter(|field| !field.is_empty()).collect();
    let &[time, operation, key, ref rest @ ..] = fields.as_slice() else {
        return Err(wrong_fields(fields.len(), "timestamp operation object [size ...]"));
    };
    let size = rest.first().map(|size| number("size", size)).transpose()?;
    let verb = operation.strip_prefix(b"REST.").unwrap_or(operation);
    let request = Request {
        action: action(verb)?,
        value_len: size.map(|size: u64| u32::try_from(size).unwrap_or(u32::MAX)),
        time: number::<u64>("timestamp", time)? / 1000,
        ..keyed(key)?
    };
    Ok(request.into())
}

/// A get of a key that is text.
pub(super) fn keyed(key: &[u8]) -> Result<Request, TraceErrorKind> {
    Ok(Request::get(Key::Text(checked_key(key)?)))
}

/// What a word for an operation means: of caches, block devices (SCSI's codes among them) and object stores. What
/// follows a point or an underscore only tells it more closely.
pub(super) fn action(word: &[u8]) -> Result<Action, TraceErrorKind> {
    let verb = word.split(|byte| b"._".contains(byte)).next().unwrap_or_default().to_ascii_lowercase();
    match verb.as_slice() {
        b"get" | b"gets" | b"getchunkdata" | b"read" | b"r" | b"head" | b"08" | b"28" | b"88" => {
            Ok(Action::Get)
        }
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" | b"put"
        | b"putchunk" | b"copy" | b"write" | b"w" | b"0a" | b"2a" | b"8a" => Ok(Action::Set),
        b"delete" | b"del" => Ok(Action::Delete),
        _ => Err(TraceErrorKind::Operation(String::from_utf8_lossy(word).into_owned())),
    }
}

pub(super) fn number<T: std::str::FromStr>(field: &'static str, text: &[u8]) -> Result<T, TraceErrorKind> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    parsed.ok_or_else(|| TraceErrorKind::Number { field, text: String::from_utf8_lossy(text).into_owned() })
}

/// A time in whole seconds, of a number that may have a fraction.
pub(super) fn seconds(field: &'static str, text: &[u8]) -> Result<u64, TraceErrorKind> {
    let with_fraction = || number::<f64>(field, text).ok().filter(|seconds| *seconds >= 0.0);
    number(field, text).or_else(|error| with_fraction().map(|seconds| seconds as u64).ok_or(error))
}

fn exactly<'a, const COUNT: usize>(
    fields: impl Iterator<Item = &'a [u8]>,
    expected: &str,
) -> Result<[&'a [u8]; COUNT], TraceErrorKind> {
    let mut exact = [&b""[..]; COUNT];
    let mut found = 0;
    for field in fields {
        if let Some(slot) = exact.get_mut(found) {
            *slot = field;
        }
        found += 1;
    }
    if found == COUNT { Ok(exact) } else { Err(wrong_fields(found, expected)) }
}

pub(super) fn wrong_fields(found: usize, expected: impl Into<String>) -> TraceErrorKind {
    TraceErrorKind::Fields { found, expected: expected.into() }
}

impl Burst {
    /// A request for each of `count` keys that follow each other.
    fn run(request: Request, count: u64) -> Result<Self, TraceErrorKind> {
        Ok(Self { stride: 1, ..Self::repeated(request, count)? })
    }

    /// The same request, `count` times.
    pub(super) fn repeated(request: Request, count: u64) -> Result<Self, TraceErrorKind> {
        if count > REPEATS_MAX {
            return Err(TraceErrorKind::Repeats(count));
        }
        Ok(Self { request, left: count, stride: 0 })
    }
}
