//! Readers of recorded request traces: one request at a time, whatever the length of the file.
//!
//! | format | a request is |
//! |---|---|
//! | [`Format::BeU32`], [`Format::BeU64`] | a big-endian number, the key of a get (cache2k, Corda) |
//! | [`Format::TwitterCsv`] | `timestamp,key,key size,value size,client id,operation,TTL` (Twitter's 2020 traces) |
//! | [`Format::Text`] | a line, the key of a get; lines that are empty or begin with `*` or `#` are comments (LIRS) |
//!
//! Input compressed with zstd is recognised and decompressed on the way.

mod csv;
mod zstd;

use std::io::{self, BufRead, BufReader, Read};
use std::str::FromStr;

use crate::keys::KEY_LEN_MAX;
use crate::rng::mix64;

/// Bytes at the start of the input by which the format is guessed.
const PEEK_LEN: usize = 4096;

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Big-endian 32-bit keys.
    BeU32,
    /// Big-endian 64-bit keys.
    BeU64,
    /// Twitter's seven comma-separated fields.
    TwitterCsv,
    /// One key a line.
    Text,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "be-u32" => Ok(Self::BeU32),
            "be-u64" => Ok(Self::BeU64),
            "twitter" => Ok(Self::TwitterCsv),
            "text" => Ok(Self::Text),
            _ => {
                Err(format!("there is no trace format {text:?}; there are be-u32, be-u64, twitter and text"))
            }
        }
    }
}

impl Format {
    /// The format that `start`, the first bytes of a trace, looks like: printable text is Twitter's when its first
    /// line has seven fields, anything else is taken for 32-bit keys.
    #[must_use]
    pub fn guess(start: &[u8]) -> Self {
        if start.is_empty()
            || !start.iter().all(|&byte| byte.is_ascii_graphic() || b" \t\r\n".contains(&byte))
        {
            return Self::BeU32;
        }
        let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if line.iter().filter(|&&byte| byte == b',').count() >= 6 { Self::TwitterCsv } else { Self::Text }
    }
}

/// What a request of a trace did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It read.
    Get,
    /// It wrote: `set`, `add`, `replace`, `cas`, `append`, `prepend`, `incr` or `decr`.
    Set,
    /// It deleted.
    Delete,
}

/// A key of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A number.
    Number(u64),
    /// Text of 1 to 250 bytes without blanks or control characters.
    Text(Vec<u8>),
}

impl Key {
    /// A number that stands for the key: the number itself, or 64 bits made of all of the text. Among 100 million
    /// texts, two have the same bits with a probability of 1 in 3,700.
    #[must_use]
    pub fn id(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.chunks(8).fold(text.len() as u64, |hash, chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                mix64(hash ^ u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            }),
        }
    }
}

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key.
    pub key: Key,
    /// The length of the key in production, where the trace tells it; an anonymised key may be shorter.
    pub key_len: Option<usize>,
    /// What was done.
    pub action: Action,
    /// The length of the value, where the trace tells it.
    pub value_len: Option<u32>,
    /// Seconds until the item expired, 0 for never or unknown.
    pub ttl: u32,
    /// When it came, in whole seconds on the trace's own clock; 0 where the trace does not tell.
    pub time: u64,
}

impl Request {
    /// A get of the key `number`, of which nothing else is known.
    #[must_use]
    pub const fn number(number: u64) -> Self {
        Self::get(Key::Number(number))
    }

    const fn get(key: Key) -> Self {
        Self { key, key_len: None, action: Action::Get, value_len: None, ttl: 0, time: 0 }
    }
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{place} {number}: {kind}")]
pub struct TraceError {
    /// What is counted.
    pub place: Place,
    /// Which one, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub kind: TraceErrorKind,
}

/// What the number in a [`TraceError`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Lines of text.
    Line,
    /// Requests of a binary trace.
    Request,
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Line => "line",
            Self::Request => "request",
        })
    }
}

/// What can be wrong with a request of a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceErrorKind {
    /// The input could not be read or decompressed.
    #[error("{0}")]
    Read(io::Error),
    /// The input ends within a request.
    #[error("the trace ends within a request, {0} bytes into it")]
    Truncated(usize),
    /// A line has too few fields.
    #[error("{0} fields instead of the seven of timestamp,key,key size,value size,client id,operation,TTL")]
    Fields(usize),
    /// A field that must be a number is not.
    #[error("the {field} {text:?} is not a number")]
    Number {
        /// Which field.
        field: &'static str,
        /// Its contents.
        text: String,
    },
    /// An operation that is not known.
    #[error("the operation {0:?} is not known")]
    Operation(String),
    /// A key that the memcached protocol does not allow.
    #[error(
        "the key has {0} bytes, or a blank or control character; 1 to {KEY_LEN_MAX} visible bytes are allowed"
    )]
    Key(usize),
    /// A line that is too long to be a request.
    #[error("the line is longer than {0} bytes")]
    LineTooLong(usize),
}

/// A trace being read: an iterator over its requests, which ends after an error.
pub struct Trace {
    input: Box<dyn BufRead>,
    format: Format,
    /// Lines or requests read so far.
    number: u64,
    line: Vec<u8>,
    failed: bool,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Trace")
            .field("format", &self.format)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Reads requests from `input`, plain or compressed with zstd, written as `format` or as it looks like.
    ///
    /// # Errors
    /// When the first bytes cannot be read or decompressed.
    pub fn new(input: impl Read + 'static, format: Option<Format>) -> Result<Self, TraceError> {
        let fail = |error| TraceError { place: Place::Request, number: 1, kind: TraceErrorKind::Read(error) };
        let mut raw = BufReader::with_capacity(1 << 16, input);
        let is_zstd = raw.fill_buf().map_err(fail)?.starts_with(&zstd::MAGIC);
        let mut input: Box<dyn BufRead> = if is_zstd {
            Box::new(BufReader::with_capacity(1 << 16, zstd::Frames::new(raw)))
        } else {
            Box::new(raw)
        };
        let start = input.fill_buf().map_err(fail)?;
        let format = format.unwrap_or_else(|| Format::guess(&start[..start.len().min(PEEK_LEN)]));
        Ok(Self { input, format, number: 0, line: Vec::new(), failed: false })
    }

    /// The format that is read.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self) -> Result<Option<Request>, TraceErrorKind> {
        match self.format {
            Format::BeU32 => {
                let key = self.read_number::<4>()?;
                Ok(key.map(|bytes| Request::get(Key::Number(u32::from_be_bytes(bytes).into()))))
            }
            Format::BeU64 => {
                let key = self.read_number::<8>()?;
                Ok(key.map(|bytes| Request::get(Key::Number(u64::from_be_bytes(bytes)))))
            }
            Format::TwitterCsv => {
                if self.read_line()? {
                    csv::parse(&self.line).map(Some)
                } else {
                    Ok(None)
                }
            }
            Format::Text => {
                while self.read_line()? {
                    if !self.line.is_empty() && !self.line.starts_with(b"*") && !self.line.starts_with(b"#") {
                        return Ok(Some(Request::get(Key::Text(checked_key(&self.line)?))));
                    }
                }
                Ok(None)
            }
        }
    }

    fn read_number<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, TraceErrorKind> {
        let mut bytes = [0; LEN];
        let mut filled = 0;
        self.number += 1;
        while filled < LEN {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TraceErrorKind::Truncated(filled)),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceErrorKind::Read(error)),
            }
        }
        Ok(Some(bytes))
    }

    /// Reads the next line, without its end and blanks around it; false at the end of the input.
    fn read_line(&mut self) -> Result<bool, TraceErrorKind> {
        const LINE_LEN_MAX: usize = 1 << 16;
        self.line.clear();
        self.number += 1;
        let limit = LINE_LEN_MAX as u64 + 1;
        let mut limited = (&mut self.input).take(limit);
        let count = limited.read_until(b'\n', &mut self.line).map_err(TraceErrorKind::Read)?;
        if count > LINE_LEN_MAX {
            return Err(TraceErrorKind::LineTooLong(LINE_LEN_MAX));
        }
        let kept = self.line.trim_ascii_end().len();
        self.line.truncate(kept);
        let blanks = self.line.len() - self.line.trim_ascii_start().len();
        self.line.drain(..blanks);
        Ok(count > 0)
    }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        self.read().transpose().map(|result| {
            result.map_err(|kind| {
                self.failed = true;
                let place = match self.format {
                    Format::BeU32 | Format::BeU64 => Place::Request,
                    Format::TwitterCsv | Format::Text => Place::Line,
                };
                TraceError { place, number: self.number, kind }
            })
        })
    }
}

/// The key, if the memcached protocol allows it.
fn checked_key(key: &[u8]) -> Result<Vec<u8>, TraceErrorKind> {
    let is_visible = key.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    if key.is_empty() || key.len() > KEY_LEN_MAX || !is_visible {
        return Err(TraceErrorKind::Key(key.len()));
    }
    Ok(key.to_vec())
}

#[cfg(test)]
mod tests;
