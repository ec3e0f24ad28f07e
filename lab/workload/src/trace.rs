//! Readers of recorded request traces: one request at a time, whatever the length of the file.
//!
//! [`FORMATS`] lists how traces may be written. Input compressed with zstd is recognised and decompressed on the way.
//! What is wrong with a line is reported with the line's number, and ends the trace or is skipped, as asked.

mod binary;
mod error;
mod format;
mod headed;
mod lines;
mod reader;
mod twitter;
mod zstd;

use crate::keys::KEY_LEN_MAX;
use crate::rng::mix64;

pub use error::{Place, TraceError, TraceErrorKind};
pub use format::{FORMATS, Format};
pub use reader::{Broken, Trace};

/// What a request of a trace did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Get,
    /// It wrote: `set`, `add`, `replace`, `cas`, `append`, `prepend`, `incr` or `decr`.
    Set,
    Delete,
    /// It read a key that exists nowhere, so that no store follows the miss; recorded traces do not say.
    LoneGet,
    LoneDelete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub key: Key,
    /// The length of the key in production, where the trace tells it; an anonymised key may be shorter.
    pub key_len: Option<usize>,
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

/// What one line of a trace stands for: a request, or several.
#[derive(Debug)]
struct Burst {
    request: Request,
    left: u64,
    /// How far the keys of two that follow each other are apart.
    stride: u64,
}

impl From<Request> for Burst {
    fn from(request: Request) -> Self {
        Self { request, left: 1, stride: 0 }
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
