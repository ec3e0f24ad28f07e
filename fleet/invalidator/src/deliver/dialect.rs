//! How a target is asked to delete keys, and what its answers mean.

use guira_client::text::{Connection, TextError};
use serde::Deserialize;

/// A protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dialect {
    /// `md KEY` for each key, and `mn` at the end.
    #[default]
    Meta,
    /// `delete KEY`.
    Classic,
}

/// What is written around a key, before the next, and what answers to it: something was deleted, or there was nothing; and what ends the requests of a batch, and
/// its answer.
struct Words {
    before: &'static [u8],
    hit: &'static [u8],
    miss: &'static [u8],
    end: &'static [u8],
    ended: Option<&'static [u8]>,
}

const META: Words = Words { before: b"md ", hit: b"HD", miss: b"NF", end: b"mn\r\n", ended: Some(b"MN") };
const CLASSIC: Words =
    Words { before: b"delete ", hit: b"DELETED", miss: b"NOT_FOUND", end: b"", ended: None };

/// The request to drop everything, and its answer.
const FLUSH: &[u8] = b"flush_all\r\n";
const FLUSHED: &[u8] = b"OK";

/// A request that the target takes for wrong begins its answer with this: it would do so again.
const REJECTED: &[u8] = b"CLIENT_ERROR";

/// Answers to a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) rejected: u64,
}

/// Why a batch was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    #[error(transparent)]
    Connection(#[from] TextError),
    #[error("it answers '{0}'")]
    Answer(String),
}

impl Dialect {
    const fn words(self) -> &'static Words {
        match self {
            Dialect::Meta => &META,
            Dialect::Classic => &CLASSIC,
        }
    }

    /// Adds the requests for all keys to `requests`.
    pub(super) fn write(self, prefix: &str, keys: &[Box<[u8]>], requests: &mut Vec<u8>) {
        let words = self.words();
        for key in keys {
            for part in [words.before, prefix.as_bytes(), key, b"\r\n"] {
                requests.extend_from_slice(part);
            }
        }
        requests.extend_from_slice(words.end);
    }

    /// Reads an answer for each key.
    ///
    /// # Errors
    /// When one of them says that it failed, or is none at all. The connection is of no use then.
    pub(super) fn read(self, connection: &mut Connection, keys: usize) -> Result<Tally, DeliveryError> {
        let words = self.words();
        let mut tally = Tally::default();
        for _ in 0..keys {
            let line = connection.line()?;
            match line {
                line if line == words.hit => tally.hits += 1,
                line if line == words.miss => tally.misses += 1,
                line if line.starts_with(REJECTED) => tally.rejected += 1,
                line => return Err(answer(line)),
            }
        }
        if let Some(ended) = words.ended {
            let line = connection.line()?;
            if line != ended {
                return Err(answer(line));
            }
        }
        Ok(tally)
    }
}

/// Has a target drop everything.
///
/// # Errors
/// When it does not.
pub(super) fn flush(connection: &mut Connection) -> Result<(), DeliveryError> {
    connection.send(FLUSH)?;
    let line = connection.line()?;
    if line == FLUSHED { Ok(()) } else { Err(answer(line)) }
}

fn answer(line: &[u8]) -> DeliveryError {
    DeliveryError::Answer(line[..line.len().min(200)].escape_ascii().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_prefix_of_the_target() {
        let keys: [Box<[u8]>; 2] = [(*b"a").into(), "ë".as_bytes().into()];
        let mut requests = Vec::new();
        Dialect::Meta.write("/*/*/", &keys, &mut requests);
        assert_eq!(requests, "md /*/*/a\r\nmd /*/*/ë\r\nmn\r\n".as_bytes());
        requests.clear();
        Dialect::Classic.write("", &keys, &mut requests);
        assert_eq!(requests, "delete a\r\ndelete ë\r\n".as_bytes());
    }
}
