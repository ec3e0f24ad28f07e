//! How a target is asked to delete keys, and what its answers mean.

use guira_client::text::{Connection, TextError, is_refusal};
use guira_databases::WayError;
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
    /// What is before the seconds of a hold-off, behind the key.
    hold_off: &'static str,
    hit: &'static [u8],
    miss: &'static [u8],
    end: &'static [u8],
    ended: Option<&'static [u8]>,
}

const META: Words =
    Words { before: b"md ", hold_off: " H", hit: b"HD", miss: b"NF", end: b"mn\r\n", ended: Some(b"MN") };
const CLASSIC: Words =
    Words { before: b"delete ", hold_off: " ", hit: b"DELETED", miss: b"NOT_FOUND", end: b"", ended: None };

/// The request to drop everything, and its answer.
const FLUSH: &[u8] = b"flush_all\r\n";
const FLUSHED: &[u8] = b"OK";

/// A key that is asked for when others were refused: whether the target refuses all.
pub(super) const PROBE: &[u8] = b"guira-invalidator";
/// A target has to take keys of so many bytes behind its prefix.
pub(crate) const KEY_LEAST: usize = PROBE.len();

/// The longest key of a cache, and of a target with its prefix, in bytes.
pub(crate) const KEY_MAX: usize = 250;

/// What all deletes of a target have.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// What is put before each key.
    pub(crate) prefix: String,
    /// For how long nothing may be added under a key, in seconds.
    pub(crate) hold_off_s: Option<u32>,
}

impl How {
    /// Whether the target can be sent this key.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        self.prefix.len() + key.len() <= KEY_MAX
    }
}

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
    #[error(transparent)]
    Way(#[from] WayError),
    #[error("unexpected reply '{0}'")]
    Answer(String),
    #[error("the target rejects every delete: check its login, or whether it supports hold-off")]
    AllRejected,
}

impl DeliveryError {
    /// Whether the target has not answered at all, so that nobody knows whether it is there.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            DeliveryError::Connection(error) | DeliveryError::Way(WayError::Connection(error)) => {
                !matches!(error, TextError::Login(_) | TextError::TooLong)
            }
            // A login is not to be tried more often than it has to be.
            DeliveryError::Way(WayError::Login(_))
            | DeliveryError::Answer(_)
            | DeliveryError::AllRejected => false,
        }
    }
}

impl Dialect {
    const fn words(self) -> &'static Words {
        match self {
            Dialect::Meta => &META,
            Dialect::Classic => &CLASSIC,
        }
    }

    /// Adds the requests for these keys to `requests`; returns how many there are.
    pub(super) fn write<'a>(
        self,
        how: &How,
        keys: impl Iterator<Item = &'a Box<[u8]>>,
        requests: &mut Vec<u8>,
    ) -> usize {
        let words = self.words();
        let hold_off =
            how.hold_off_s.map_or_else(String::new, |seconds| format!("{}{seconds}", words.hold_off));
        let mut count = 0;
        for key in keys {
            for part in [words.before, how.prefix.as_bytes(), key, hold_off.as_bytes(), b"\r\n"] {
                requests.extend_from_slice(part);
            }
            count += 1;
        }
        requests.extend_from_slice(words.end);
        count
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
                line if is_refusal(line) => tally.rejected += 1,
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
    fn requests_have_the_prefix_and_the_hold_off_of_the_target() {
        let keys: [Box<[u8]>; 2] = [(*b"a").into(), "ë".as_bytes().into()];
        let requests = |dialect: Dialect, prefix: &str, hold_off_s| {
            let how = How { prefix: prefix.to_owned(), hold_off_s };
            let mut requests = Vec::new();
            assert_eq!(dialect.write(&how, keys.iter(), &mut requests), 2);
            String::from_utf8(requests).unwrap()
        };
        assert_eq!(requests(Dialect::Meta, "/*/*/", None), "md /*/*/a\r\nmd /*/*/ë\r\nmn\r\n");
        assert_eq!(requests(Dialect::Classic, "", None), "delete a\r\ndelete ë\r\n");
        assert_eq!(requests(Dialect::Meta, "", Some(2)), "md a H2\r\nmd ë H2\r\nmn\r\n");
        assert_eq!(requests(Dialect::Classic, "", Some(2)), "delete a 2\r\ndelete ë 2\r\n");
    }
}
