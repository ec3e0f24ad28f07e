//! The delete requests of a target, and the meaning of its replies.

use super::patience::Patience;
use guira_client::text::{Connection, TextError, is_refusal};
use guira_protocol::MetaVerb;
use guira_protocol::client;
use guira_protocol::word::reply;
use guira_sync::simulated::is_planted;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dialect {
    /// `md KEY` for each key, and `mn` at the end.
    #[default]
    Meta,
    /// `delete KEY`.
    Classic,
}

/// A key that does not exist: its delete shows whether a target rejects all deletes.
pub(super) const PROBE: &[u8] = b"guira-invalidator";
/// A target has to accept the probe behind its prefix.
pub(crate) const KEY_LEAST: usize = PROBE.len();

/// The longest key of a cache, including the prefix of a target, in bytes.
pub(crate) const KEY_MAX: usize = 250;

/// The settings that all deletes of a target share.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// A prefix of every key.
    pub(crate) prefix: String,
    /// The hold-off in seconds: until then the cache adds nothing under the deleted key.
    pub(crate) hold_off_s: Option<u32>,
}

impl How {
    /// Whether the target can be sent this key.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        self.prefix.len() + key.len() <= KEY_MAX
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// The places of the keys that were rejected.
    pub(super) rejected: Vec<usize>,
}

impl Tally {
    /// The tally, unless keys that were rejected are to be sent again.
    pub(super) fn checked(self, patience: &mut Patience) -> Result<Self, DeliveryError> {
        let is_planted = is_planted("rejected-once-dropped") || is_planted("rejected-by-one-dropped");
        let may_repeat = !self.rejected.is_empty() && !is_planted;
        let is_repeated = may_repeat && patience.is_left();
        if is_repeated { Err(DeliveryError::SomeRejected(self.rejected.len())) } else { Ok(self) }
    }
}

/// Why a batch was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    #[error(transparent)]
    Connection(#[from] TextError),
    #[error("unexpected reply '{0}'")]
    Answer(String),
    #[error("the target rejects every delete: check its login, or whether it supports hold-off")]
    AllRejected,
    #[error("the target rejects {0} deletes and accepts others: check the login of each server behind it")]
    SomeRejected(usize),
}

impl DeliveryError {
    /// Whether the target gave no answer at all, so that it may be down.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            // A failed login is no silence: logins must not be repeated more often than needed.
            DeliveryError::Connection(error) => !matches!(
                error,
                TextError::LoginFile(_) | TextError::Login(_) | TextError::TooLong | TextError::Malformed(_)
            ),
            DeliveryError::Answer(_) | DeliveryError::AllRejected | DeliveryError::SomeRejected(_) => false,
        }
    }
}

impl Dialect {
    /// Adds the requests for these keys to `requests`; returns how many there are.
    pub(super) fn write<'a>(
        self,
        how: &How,
        keys: impl Iterator<Item = &'a Box<[u8]>>,
        requests: &mut Vec<u8>,
    ) -> usize {
        let (mut count, mut name) = (0, Vec::new());
        for key in keys {
            name.clear();
            name.extend_from_slice(how.prefix.as_bytes());
            name.extend_from_slice(key);
            match (self, how.hold_off_s) {
                (Dialect::Meta, None) => client::meta(MetaVerb::Delete, &name, requests).end(),
                (Dialect::Meta, Some(seconds)) => {
                    client::meta(MetaVerb::Delete, &name, requests).number(b'H', seconds).end();
                }
                (Dialect::Classic, hold_off) => {
                    client::delete(&name, hold_off.unwrap_or(0).into(), requests);
                }
            }
            count += 1;
        }
        if self == Dialect::Meta {
            requests.extend_from_slice(client::META_NOOP);
        }
        count
    }

    /// Reads an answer for each key.
    ///
    /// # Errors
    /// When a reply reports a failure or is malformed. The caller then has to drop the connection.
    pub(super) fn read(self, connection: &mut Connection, keys: usize) -> Result<Tally, DeliveryError> {
        let mut tally = Tally::default();
        for place in 0..keys {
            let line = connection.reply()?.line();
            match (self, line) {
                (Dialect::Meta, reply::META_DONE) | (Dialect::Classic, reply::DELETED) => tally.hits += 1,
                (Dialect::Meta, reply::META_NOT_FOUND) | (Dialect::Classic, reply::NOT_FOUND) => {
                    tally.misses += 1;
                }
                (_, line) if is_refusal(line) => tally.rejected.push(place),
                (_, line) => return Err(answer(line)),
            }
        }
        if self == Dialect::Meta {
            let line = connection.reply()?.line();
            if line != reply::META_NOOP {
                return Err(answer(line));
            }
        }
        Ok(tally)
    }
}

/// Flushes all items of a target.
///
/// # Errors
/// If the target does not confirm it.
pub(super) fn flush(connection: &mut Connection) -> Result<(), DeliveryError> {
    let mut request = Vec::new();
    client::flush_all(0, &mut request);
    connection.send(&request)?;
    let line = connection.reply()?.line();
    if line == reply::OK { Ok(()) } else { Err(answer(line)) }
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
