//! The server whose items are copied.

use std::time::Duration;

use guira_client::text::{Connection, Target, TextError};
use guira_protocol::client::{self, KeyList, KeyWalk, Listed, MetaReply, Reply, failure};
use guira_protocol::word::reply;
use guira_protocol::{KeyBuffer, MetaVerb, encode_key};
use guira_sync::thread;

use crate::error::CopyError;
use crate::keys::{Key, KeyForm, Keys};

/// Longest pause in a list of keys: a node on a busy machine lists them at a low priority.
const LIST_PAUSE_MAX: Duration = Duration::from_secs(120);

/// Attempts to list keys while the server does so for another client, a second apart.
const BUSY_MAX: u32 = 60;
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The longest line that the text protocol has for a key, in bytes.
const KEY_WORD_MAX: usize = 250;

/// How servers begin to say that they list keys for another client.
const BUSY: [&[u8]; 2] = [b"BUSY", b"LOCKED"];
/// What memcached replies to a word for which it has no class.
const BAD_CLASS: &[u8] = b"BADCLASS";
/// memcached without items.
const NOT_STARTED: &[u8] = b"NOTSTARTED";

/// Flags of a read: the item, without making it more recent.
const FLAGS: &[u8] = b"f t u v";

/// What the source has under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Item(Item),
    /// It expired or was deleted after it was listed.
    Gone,
    Stale,
    /// Why it cannot be copied.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    /// Seconds until it expires; never if there are none.
    pub(crate) left: Option<u64>,
}

/// The source, and a connection for reads.
#[derive(Debug)]
pub(crate) struct Source {
    target: Target,
    connection: Connection,
    server: String,
}

/// How an attempt to list keys ended.
enum Attempt {
    Listed(Keys),
    Busy,
    Refused(String),
    Stopped,
}

/// A command that lists all keys.
type List = (KeyList, KeyWalk);

/// The next command to try, after a server did not understand one.
fn next(list: List, refusal: &[u8]) -> Option<List> {
    match list {
        (KeyList::MetaGets, walk) if refusal == reply::ERROR => Some((KeyList::Facts, walk)),
        (list, KeyWalk::Index) if refusal.starts_with(BAD_CLASS) => Some((list, KeyWalk::Classes)),
        _ => None,
    }
}

impl Source {
    /// Connects, and checks that the server replies.
    pub(crate) fn connect(target: &Target) -> Result<Self, CopyError> {
        let server = target.endpoint().to_string();
        match greeted(target) {
            Ok(connection) => Ok(Source { target: target.clone(), connection, server }),
            Err(error) => Err(CopyError::List { server, error }),
        }
    }

    /// All keys that begin with `prefix`. `listed` is called with the number of keys from time to time, and stops the
    /// copy by returning true.
    pub(crate) fn keys(
        &mut self,
        prefix: &[u8],
        mut listed: impl FnMut(u64) -> bool,
    ) -> Result<Keys, CopyError> {
        let mut list = (KeyList::MetaGets, KeyWalk::Index);
        let mut attempts = 0;
        loop {
            let attempt = self.attempt(list, prefix, &mut listed);
            let server = self.server.clone();
            match attempt.map_err(|error| CopyError::List { server: server.clone(), error })? {
                Attempt::Listed(keys) => {
                    // The source may have closed the other one, which was idle.
                    self.connection = Connection::open(&self.target)
                        .map_err(|error| CopyError::Source { server, error })?;
                    return Ok(keys);
                }
                Attempt::Stopped => return Err(CopyError::Stopped),
                Attempt::Refused(line) => match next(list, line.as_bytes()) {
                    Some(other) => list = other,
                    None => return Err(CopyError::Refused { server, line }),
                },
                Attempt::Busy if attempts == BUSY_MAX => return Err(CopyError::Busy { server }),
                Attempt::Busy => {
                    attempts += 1;
                    if listed(0) {
                        return Err(CopyError::Stopped);
                    }
                    thread::sleep(BUSY_PAUSE);
                }
            }
        }
    }

    fn attempt(
        &self,
        (list, walk): List,
        prefix: &[u8],
        listed: &mut impl FnMut(u64) -> bool,
    ) -> Result<Attempt, TextError> {
        const OFTEN: u64 = 1024;
        let mut request = Vec::new();
        client::list_keys(list, walk, &mut request);
        let mut connection = Connection::open(&self.target.with_timeout(LIST_PAUSE_MAX))?;
        connection.send(&request)?;
        let (mut keys, mut buffer): (Keys, KeyBuffer) = (Keys::default(), [0; 336]);
        let mut lines = 0u64;
        loop {
            // Counted by lines: few keys may have the prefix.
            lines += 1;
            if lines.is_multiple_of(OFTEN) && listed(keys.count()) {
                return Ok(Attempt::Stopped);
            }
            let line = connection.line()?;
            match client::listed(list, line) {
                Listed::Begin => {}
                Listed::End => return Ok(Attempt::Listed(keys)),
                Listed::Key(key) => {
                    let bytes = key.bytes(&mut buffer);
                    if bytes.is_empty() {
                        return Err(TextError::Malformed(line.escape_ascii().to_string()));
                    }
                    if bytes.starts_with(prefix) {
                        keys.push(Key { bytes, form: KeyForm::of(bytes, key.is_binary()) });
                    }
                }
                Listed::Other(line) if line.starts_with(NOT_STARTED) => return Ok(Attempt::Listed(keys)),
                Listed::Other(line) if BUSY.iter().any(|busy| line.starts_with(busy)) => {
                    return Ok(Attempt::Busy);
                }
                Listed::Other(line) => return Ok(Attempt::Refused(line.escape_ascii().to_string())),
            }
        }
    }

    /// Reads items, in the order of the keys.
    pub(crate) fn read(&mut self, keys: &[Key<'_>]) -> Result<Vec<Found>, CopyError> {
        self.exchange(keys).map_err(|error| CopyError::Source { server: self.server.clone(), error })
    }

    fn exchange(&mut self, keys: &[Key<'_>]) -> Result<Vec<Found>, TextError> {
        let mut request = Vec::new();
        let sent: Vec<Option<String>> =
            (0..).zip(keys).map(|(number, key)| write(*key, number, &mut request).err()).collect();
        self.connection.send(&request)?;
        let mut all = Vec::new();
        for (number, problem) in (0..).zip(sent) {
            all.push(match problem {
                Some(problem) => Found::Refused(problem),
                None => found(&self.connection.reply()?, number)?,
            });
        }
        Ok(all)
    }
}

/// A connection over which the server replies.
fn greeted(target: &Target) -> Result<Connection, TextError> {
    let mut connection = Connection::open(target)?;
    connection.send(client::META_NOOP)?;
    let line = connection.line()?;
    if line == reply::META_NOOP {
        return Ok(connection);
    }
    Err(TextError::Malformed(line.escape_ascii().to_string()))
}

/// Appends the read of a key.
fn write(key: Key<'_>, opaque: u64, out: &mut Vec<u8>) -> Result<(), String> {
    let mut buffer: KeyBuffer = [0; 336];
    let (word, flags) = match key.form {
        KeyForm::Word => (key.bytes, FLAGS),
        KeyForm::Base64 => (encode_key(key.bytes, &mut buffer), &b"b f t u v"[..]),
    };
    if word.is_empty() || word.len() > KEY_WORD_MAX {
        return Err("the binary key is too long for the text protocol".to_owned());
    }
    client::meta(MetaVerb::Get, word, out).flags(flags).number(b'O', opaque).end();
    Ok(())
}

/// What a reply to [`write`] means.
fn found(reply: &Reply<'_>, opaque: u64) -> Result<Found, TextError> {
    let malformed = || TextError::Malformed(reply.line().escape_ascii().to_string());
    let (line, value) = match *reply {
        Reply::MetaValue { line, value } => (line, value),
        Reply::Line(line) if MetaReply::of(line).code == reply::META_MISS => return Ok(Found::Gone),
        Reply::Line(line) if failure(line).is_some() => {
            return Ok(Found::Refused(format!("the source replied: {}", line.escape_ascii())));
        }
        _ => return Err(malformed()),
    };
    let meta = MetaReply::of(line);
    if meta.number(b'O') != Some(opaque) {
        return Err(malformed());
    }
    if [b'W', b'X', b'Z'].into_iter().any(|letter| meta.has(letter)) {
        return Ok(Found::Stale);
    }
    let left = match meta.flag(b't') {
        Some(b"-1") => None,
        _ => Some(meta.number(b't').ok_or_else(malformed)?),
    };
    let flags = meta.number(b'f').ok_or_else(malformed)?;
    let Ok(flags) = u32::try_from(flags) else {
        return Ok(Found::Refused(format!("the item's flags, {flags}, have more than 32 bits")));
    };
    Ok(Found::Item(Item { value: value.to_vec(), flags, left }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_of_memcached_list_keys_by_other_commands() {
        let first = (KeyList::MetaGets, KeyWalk::Index);
        assert_eq!(next(first, b"ERROR"), Some((KeyList::Facts, KeyWalk::Index)));
        let bad_class = b"BADCLASS invalid class id";
        let last = (KeyList::Facts, KeyWalk::Classes);
        assert_eq!(next((KeyList::Facts, KeyWalk::Index), bad_class), Some(last));
        for refusal in [&b"ERROR"[..], bad_class, b"ERROR metadump not allowed"] {
            assert_eq!(next(last, refusal), None);
        }
        assert_eq!(next(first, b"ERROR key dump not allowed"), None);
    }

    #[test]
    fn keys_are_read_as_words_or_in_base64() {
        let text = |bytes: &[u8], form| {
            let mut out = Vec::new();
            write(Key { bytes, form }, 7, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(text(b"one", KeyForm::Word).as_deref(), Ok("mg one f t u v O7\r\n"));
        assert_eq!(text(b"a b", KeyForm::Base64).as_deref(), Ok("mg YSBi b f t u v O7\r\n"));
        assert!(text(&[0; 186], KeyForm::Base64).is_ok());
        assert!(text(&[0; 189], KeyForm::Base64).is_err_and(|why| why.contains("too long")));
    }

    #[test]
    fn replies_are_items_misses_or_reasons() {
        let of = |line: &'static [u8], value: Option<&'static [u8]>| {
            let reply = match value {
                Some(value) => Reply::MetaValue { line, value },
                None => Reply::Line(line),
            };
            found(&reply, 5).ok()
        };
        let item = |flags, left| Some(Found::Item(Item { value: b"v".to_vec(), flags, left }));
        assert_eq!(of(b"VA 1 f7 t-1 O5", Some(b"v")), item(7, None));
        assert_eq!(of(b"VA 1 f4294967295 t60 O5", Some(b"v")), item(u32::MAX, Some(60)));
        assert_eq!(of(b"EN", None), Some(Found::Gone));
        assert_eq!(of(b"EN O5", None), Some(Found::Gone));
        for line in [&b"VA 1 f7 t9 O5 X W"[..], b"VA 1 f7 t9 O5 Z X"] {
            assert_eq!(of(line, Some(b"v")), Some(Found::Stale));
        }
        let reason = |found| match found {
            Some(Found::Refused(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(of(b"SERVER_ERROR out of memory", None)).contains("out of memory"));
        assert!(reason(of(b"VA 1 f4294967296 t9 O5", Some(b"v"))).contains("32 bits"));
        for (line, value) in [
            (&b"VA 1 f7 t9 O6"[..], Some(&b"v"[..])),
            (b"VA 1 t9 O5", Some(b"v")),
            (b"VA 1 f7 O5", Some(b"v")),
            (b"HD f7 t9 O5", None),
        ] {
            assert_eq!(of(line, value), None, "{}", line.escape_ascii());
        }
    }
}
