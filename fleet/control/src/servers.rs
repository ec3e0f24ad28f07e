//! Commands to the servers of pools, sent directly.

use crate::pool::address;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use guira_client::text::{Connection, Endpoint, EndpointError, StatsReply, Target, TextError};
use guira_protocol::MetaVerb;
use guira_protocol::client;
use guira_protocol::word::reply;
use std::borrow::Cow;
use std::collections::HashMap;

/// The deletes that are sent before their replies are read.
const DELETED_AT_ONCE: usize = 500;

/// The reason that a server does not count as up.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Text(#[from] TextError),
    /// The name of the server does not resolve.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("unexpected reply '{0}'")]
    Answer(String),
}

/// The key of an item, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// In the syntax of meta commands, with the flag for base64 if needed.
    written: Box<[u8]>,
}

impl Key {
    fn of(written: &[u8]) -> Self {
        Key { written: written.into() }
    }

    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let encoded = self.written.strip_suffix(b" b");
        match encoded.and_then(|encoded| STANDARD.decode(encoded).ok()) {
            Some(bytes) => bytes.into(),
            None => Cow::Borrowed(&self.written),
        }
    }
}

/// Servers that share connection settings.
#[derive(Clone, Debug)]
pub struct Servers {
    target: Target,
}

impl Servers {
    /// Servers with the connection settings of `target`.
    pub fn like(target: Target) -> Self {
        Servers { target }
    }

    /// Checks that a server replies, whatever it is.
    ///
    /// # Errors
    /// The reason that it does not.
    pub fn greet(&self, server: &str) -> Result<(), CommandError> {
        self.send_command(server, "version", &["VERSION"])
    }

    /// Removes all items of a server.
    ///
    /// # Errors
    /// It does not reply, or refuses.
    pub fn flush(&self, server: &str) -> Result<(), CommandError> {
        self.send_command(server, "flush_all", &["OK"])
    }

    /// Sends a line to a server; its reply has to begin with one of `expected`.
    ///
    /// # Errors
    /// It does not reply, or replies with another line.
    pub fn send_command(&self, server: &str, line: &str, expected: &[&str]) -> Result<(), CommandError> {
        exchange(self.open(server)?, line, expected)
    }

    /// Sends a line to the server that `target` names.
    pub(crate) fn send_to_target(&self, line: &str, expected: &[&str]) -> Result<(), CommandError> {
        exchange(Connection::open(&self.target)?, line, expected)
    }

    /// The statistics of a server.
    ///
    /// # Errors
    /// It does not reply, or refuses.
    pub fn stats(&self, server: &str) -> Result<HashMap<String, String>, CommandError> {
        let mut all = HashMap::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let reply = self.open(server)?.stats("", |name, value| drop(all.insert(text(name), text(value))))?;
        match reply {
            StatsReply::Sent => Ok(all),
            StatsReply::Refused(line) => Err(CommandError::Answer(text(&line))),
        }
    }

    /// Calls `pass` for all keys of a server; keys that are stored in that time may come twice.
    ///
    /// # Errors
    /// It does not reply, or lists no keys.
    pub fn keys(&self, server: &str, mut pass: impl FnMut(Key)) -> Result<(), CommandError> {
        let mut connection = self.open(server)?;
        connection.send(b"lru_crawler mgdump all\r\n")?;
        loop {
            let line = connection.line()?;
            match line.strip_prefix(b"mg ") {
                Some(key) => pass(Key::of(key)),
                None if line == reply::META_MISS => return Ok(()),
                None if line == reply::OK => {}
                None => return Err(CommandError::Answer(String::from_utf8_lossy(line).into_owned())),
            }
        }
    }

    /// Deletes keys from a server.
    ///
    /// # Errors
    /// It does not reply, or refuses.
    pub fn delete(&self, server: &str, keys: &[Key]) -> Result<(), CommandError> {
        let mut connection = self.open(server)?;
        for keys in keys.chunks(DELETED_AT_ONCE) {
            let mut requests = Vec::new();
            for key in keys {
                client::meta(MetaVerb::Delete, &key.written, &mut requests).flags(b"q").end();
            }
            requests.extend_from_slice(client::META_NOOP);
            connection.send(&requests)?;
            loop {
                let line = connection.reply()?.line();
                if line == reply::META_NOOP {
                    break;
                }
                // A missing key may be reported even for a quiet delete.
                if line != reply::META_NOT_FOUND {
                    return Err(CommandError::Answer(String::from_utf8_lossy(line).into_owned()));
                }
            }
        }
        Ok(())
    }

    fn open(&self, server: &str) -> Result<Connection, CommandError> {
        Ok(Connection::open(&self.target.at(endpoint_of(server)?))?)
    }

    /// Like [`Servers::greet`], but a server whose address is invalid counts as up.
    pub(crate) fn is_there(&self, server: &str) -> bool {
        !matches!(self.greet(server), Err(CommandError::Text(_) | CommandError::Answer(_)))
    }
}

fn exchange(mut connection: Connection, line: &str, expected: &[&str]) -> Result<(), CommandError> {
    connection.send(format!("{line}\r\n").as_bytes())?;
    let line = connection.line()?;
    if expected.iter().any(|expected| line.starts_with(expected.as_bytes())) {
        return Ok(());
    }
    Err(CommandError::Answer(String::from_utf8_lossy(line).into_owned()))
}

fn endpoint_of(server: &str) -> Result<Endpoint, EndpointError> {
    address(server).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_it_stands_for() {
        assert_eq!(&*Key::of(b"key").bytes(), b"key");
        assert_eq!(&*Key::of(b"YSBi b").bytes(), b"a b");
    }

    #[test]
    fn a_server_is_found_as_a_configuration_writes_it() {
        for (written, expected) in [
            ("10.0.0.1:11211", "10.0.0.1:11211"),
            ("10.0.0.1:11211:ascii:ssl", "10.0.0.1:11211"),
            ("[::1]:11211", "[::1]:11211"),
            ("[::1]:11211:ascii", "[::1]:11211"),
            ("unix:/run/a", "unix:/run/a"),
        ] {
            assert_eq!(endpoint_of(written).map(|endpoint| endpoint.to_string()), Ok(expected.to_owned()));
        }
        assert!(endpoint_of("nonsense").is_err());
    }
}
