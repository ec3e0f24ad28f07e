//! Messages between two servers: kinds of messages, tags of their fields, and versions.

use super::TakeoverError;
use super::channel::Message;
use guira_serving::{FieldError, FieldWriter, Fields};

/// The version that this build speaks, and the oldest that it understands.
pub(super) const VERSION: u64 = 1;
pub(super) const LEAST: u64 = 1;

const MAGIC: &[u8] = b"guira takeover";

/// Kinds of messages, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Kind {
    Hello = 1,
    Sockets = 2,
    Offer = 3,
    Ready = 4,
    Connections = 5,
    Region = 6,
    Opened = 7,
    Commit = 8,
    Serving = 9,
    Refused = 10,
}

impl Kind {
    pub(super) fn of(number: u16) -> Option<Self> {
        use Kind::{Commit, Connections, Hello, Offer, Opened, Ready, Refused, Region, Serving, Sockets};
        let all = [Hello, Sockets, Offer, Ready, Connections, Region, Opened, Commit, Serving, Refused];
        all.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// Tags of fields. A number is used once, and never again for something else.
pub(super) mod tag {
    pub(in super::super) const MAGIC: u16 = 1;
    pub(in super::super) const VERSION: u16 = 2;
    pub(in super::super) const LEAST: u16 = 3;
    pub(in super::super) const BUILD: u16 = 4;
    pub(in super::super) const REASON: u16 = 5;
    /// Sockets and connections: one field for each descriptor, in their order.
    pub(in super::super) const EACH: u16 = 6;
    pub(in super::super) const REGION: u16 = 7;
    pub(in super::super) const DEVICE: u16 = 8;
    pub(in super::super) const INODE: u16 = 9;
    pub(in super::super) const STATE: u16 = 10;
    pub(in super::super) const BYTES: u16 = 11;
    pub(in super::super) const NOTES: u16 = 12;
    pub(in super::super) const CONNECTIONS: u16 = 13;
    /// What the server's clock shows, in milliseconds since 1970, …
    pub(in super::super) const UNIX_MS: u16 = 14;
    /// … and the system's monotonic clock.
    pub(in super::super) const MONOTONIC_MS: u16 = 15;
    pub(in super::super) const ROLE: u16 = 20;
    pub(in super::super) const ORIGIN: u16 = 21;
    pub(in super::super) const FILE: u16 = 22;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) version: u64,
    pub(super) least: u64,
    pub(super) build: String,
}

impl Hello {
    pub(super) fn ours() -> Self {
        Hello { version: VERSION, least: LEAST, build: crate::VERSION.to_owned() }
    }

    pub(super) fn write(&self) -> FieldWriter {
        let mut fields = FieldWriter::default();
        fields.put(tag::MAGIC, MAGIC).put_number(tag::VERSION, self.version);
        fields.put_number(tag::LEAST, self.least).put(tag::BUILD, self.build.as_bytes());
        fields
    }

    /// # Errors
    /// If the message is no hello.
    pub(super) fn read(fields: Fields<'_>) -> Result<Self, TakeoverError> {
        let (mut hello, mut is_ours) = (Hello { version: 0, least: 0, build: String::new() }, false);
        for field in fields {
            let field = field?;
            match field.tag {
                tag::MAGIC => is_ours = field.bytes == MAGIC,
                tag::VERSION => hello.version = field.number()?,
                tag::LEAST => hello.least = field.number()?,
                tag::BUILD => hello.build = field.text(),
                _ => {}
            }
        }
        if is_ours {
            Ok(hello)
        } else {
            Err(TakeoverError::Unknown("the other process sent another greeting"))
        }
    }

    /// The newest version that both servers support.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn common(&self) -> Result<u64, TakeoverError> {
        let common = self.version.min(VERSION);
        if common >= self.least.max(LEAST) {
            return Ok(common);
        }
        let (theirs, build) = (self.version, &self.build);
        Err(TakeoverError::Refused(format!(
            "the other server has version {theirs} of the takeover protocol ({build}), this one {LEAST} to {VERSION}"
        )))
    }
}

impl From<FieldError> for TakeoverError {
    fn from(_: FieldError) -> Self {
        TakeoverError::Unknown("a field is cut off")
    }
}

pub(super) fn refused(reason: &str) -> FieldWriter {
    let mut fields = FieldWriter::default();
    fields.put(tag::REASON, reason.as_bytes());
    fields
}

pub(super) fn refusal(message: &Message) -> TakeoverError {
    let reason = message.fields().flatten().find(|field| field.tag == tag::REASON);
    TakeoverError::Refused(reason.map_or_else(String::new, |field| field.text()))
}

/// The message has to be of this kind.
///
/// # Errors
/// If it is not.
pub(super) fn expect(message: Message, kind: Kind) -> Result<Message, TakeoverError> {
    if message.kind == kind { Ok(message) } else { Err(TakeoverError::Unknown("unexpected message")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_a_later_version_is_understood_and_one_without_a_common_version_refused() {
        let later = Hello { version: 9, least: 1, build: "9.9".to_owned() };
        let mut bytes = later.write().put(77, b"news").finish();
        let read = Hello::read(Fields::of(&bytes)).unwrap();
        assert_eq!((&read, read.common().unwrap()), (&later, VERSION));
        let newer = Hello { least: VERSION + 1, ..later };
        assert!(newer.common().unwrap_err().to_string().contains("has version 9"));
        let before = Hello { version: LEAST - 1, least: 0, build: String::new() };
        assert!(before.common().is_err());
        bytes.truncate(bytes.len() - 1);
        assert!(Hello::read(Fields::of(&bytes)).is_err());
        assert!(Hello::read(Fields::of(b"")).is_err());
    }

    #[test]
    fn kinds_have_numbers_and_a_number_has_one_kind() {
        let known: Vec<_> = (0..100).filter_map(Kind::of).map(|kind| kind as u16).collect();
        assert_eq!(known, (1..=10).collect::<Vec<_>>());
    }
}
