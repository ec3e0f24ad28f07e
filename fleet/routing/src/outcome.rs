//! Replies, as route handles see them.

use crate::ids::DestinationId;
use crate::request::{Group, Op};
use crate::step::{Flags, Shown};

/// The outcome of a request, by mcrouter's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A hit, the result of a count, or the meta replies HD and VA.
    Found,
    Stored,
    StaleStored,
    Exists,
    Deleted,
    Touched,
    /// Success without data: flush_all.
    Ok,
    /// A lease-get while another client fills the key, with a stale value or without.
    FoundStale,
    NotFoundHot,
    NotFound,
    NotStored,
    Timeout,
    ConnectTimeout,
    ConnectError,
    Busy,
    Shutdown,
    TryAgain,
    /// Not sent, since its server does not answer.
    Tko,
    DeadlineExceeded,
    RemoteError,
    /// Not sent, for a reason of the router's.
    LocalError,
    ClientError,
}

/// Failures by the names that `failover_errors` has for them.
pub(crate) const FAILURES: [(&str, Outcome); 10] = [
    ("busy", Outcome::Busy),
    ("shutdown", Outcome::Shutdown),
    ("tko", Outcome::Tko),
    ("try_again", Outcome::TryAgain),
    ("local_error", Outcome::LocalError),
    ("connect_error", Outcome::ConnectError),
    ("connect_timeout", Outcome::ConnectTimeout),
    ("timeout", Outcome::Timeout),
    ("remote_error", Outcome::RemoteError),
    ("deadline_exceeded", Outcome::DeadlineExceeded),
];

/// mcrouter's other errors. Servers report to this router only that the client or the server is at
/// fault.
const OTHER_FAILURES: [(&str, Outcome); 10] = [
    ("client_error", Outcome::ClientError),
    ("bad_command", Outcome::ClientError),
    ("bad_key", Outcome::ClientError),
    ("bad_flags", Outcome::ClientError),
    ("bad_exptime", Outcome::ClientError),
    ("bad_lease_id", Outcome::ClientError),
    ("bad_cas_id", Outcome::ClientError),
    ("bad_value", Outcome::RemoteError),
    ("aborted", Outcome::RemoteError),
    ("ooo", Outcome::RemoteError),
];

/// The failure with this name of mcrouter's.
pub(crate) fn failure(name: &str) -> Option<Outcome> {
    let known = FAILURES.iter().chain(&OTHER_FAILURES).find(|(known, _)| *known == name);
    known.map(|(_, outcome)| *outcome)
}

impl Outcome {
    pub const ALL: [Outcome; 22] = [
        Outcome::Found,
        Outcome::Stored,
        Outcome::StaleStored,
        Outcome::Exists,
        Outcome::Deleted,
        Outcome::Touched,
        Outcome::Ok,
        Outcome::FoundStale,
        Outcome::NotFoundHot,
        Outcome::NotFound,
        Outcome::NotStored,
        Outcome::Timeout,
        Outcome::ConnectTimeout,
        Outcome::ConnectError,
        Outcome::Busy,
        Outcome::Shutdown,
        Outcome::TryAgain,
        Outcome::Tko,
        Outcome::DeadlineExceeded,
        Outcome::RemoteError,
        Outcome::LocalError,
        Outcome::ClientError,
    ];

    /// A number for a handle's state; none is 0.
    pub(crate) fn number(self) -> u32 {
        self as u32 + 1
    }

    pub(crate) fn numbered(number: u32) -> Option<Self> {
        Self::ALL.get(number.checked_sub(1)? as usize).copied()
    }

    /// How bad it is: of the replies of several servers the worst is the client's. Of equal ones it is the first.
    pub fn severity(self) -> u8 {
        match self {
            Outcome::Found
            | Outcome::Stored
            | Outcome::StaleStored
            | Outcome::Exists
            | Outcome::Deleted
            | Outcome::Touched
            | Outcome::Ok => 1,
            Outcome::FoundStale | Outcome::NotFoundHot => 2,
            Outcome::NotFound | Outcome::NotStored => 4,
            Outcome::Timeout
            | Outcome::ConnectTimeout
            | Outcome::ConnectError
            | Outcome::Busy
            | Outcome::Shutdown
            | Outcome::TryAgain
            | Outcome::Tko
            | Outcome::DeadlineExceeded => 5,
            Outcome::RemoteError => 7,
            Outcome::LocalError => 8,
            Outcome::ClientError => 9,
        }
    }

    /// Whether it is no answer of a cache.
    pub fn is_error(self) -> bool {
        self.severity() >= 5
    }

    /// Whether another server is tried, unless the configuration names other failures.
    pub fn is_failover_error(self) -> bool {
        self.is_error() && self != Outcome::ClientError
    }

    pub fn is_hit(self) -> bool {
        matches!(self, Outcome::Found | Outcome::Deleted | Outcome::Touched)
    }

    pub fn is_miss(self) -> bool {
        self == Outcome::NotFound
    }

    /// Whether a lease-get found that another client fills the key.
    pub fn is_hot_miss(self) -> bool {
        matches!(self, Outcome::FoundStale | Outcome::NotFoundHot)
    }
}

/// A reply of one server about one key.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub outcome: Outcome,
    /// The item, if the reply has flags and value.
    pub item: Option<Item<'a>>,
    /// The cas unique, the lease token, or the number that was counted.
    pub number: u64,
    /// The line of a meta command without its end; the server's text of an error. Empty if the
    /// outcome has it all.
    pub line: &'a [u8],
    /// The reply to a classic get as received, from VALUE on; of a meta command, the value. Empty
    /// if there is none, or it was dropped.
    pub block: &'a [u8],
    /// The server that replied, or to which the router did not send the request because the server is marked as failed. `None` if a route
    /// made the answer.
    pub server: Option<DestinationId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    pub flags: u64,
    pub value: &'a [u8],
}

impl Answer<'static> {
    /// An answer that is only an outcome.
    pub const fn of(outcome: Outcome) -> Self {
        Answer { outcome, item: None, number: 0, line: b"", block: b"", server: None }
    }
}

/// An answer that is kept until others have come.
#[derive(Clone, Debug)]
pub(crate) struct KeptAnswer {
    outcome: Outcome,
    item: Option<(u64, Box<[u8]>)>,
    number: u64,
    line: Box<[u8]>,
    /// The value of a meta command, unless it is the item's. The reply to a classic get is written
    /// again.
    value: Box<[u8]>,
    server: Option<DestinationId>,
}

impl Answer<'_> {
    pub(crate) fn numbered(self, number: u64) -> Self {
        // The reply as it came may have the number in it.
        let block = if self.line.is_empty() { b"" } else { self.block };
        Answer { number, block, ..self }
    }

    /// The bytes that keeping it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.line.len() + self.item.map_or(self.kept_block().len(), |item| item.value.len())
    }

    /// The part of the block that has to be kept in addition to the item.
    fn kept_block(&self) -> &[u8] {
        if self.line.is_empty() || self.item.is_some() { b"" } else { self.block }
    }
}

impl KeptAnswer {
    pub(crate) fn numbered(self, number: u64) -> Self {
        KeptAnswer { number, ..self }
    }

    /// The answer with another value, for an item whose flags change.
    pub(crate) fn joined(self, how: Flags, value: Box<[u8]>) -> Self {
        let flags = self.item.as_ref().map_or(0, |(flags, _)| flags & !how.without);
        let line = line_of_value(&self.line, flags, how.shown, value.len());
        KeptAnswer { item: Some((flags, value)), value: Box::default(), line, ..self }
    }

    pub(crate) fn of(answer: &Answer<'_>) -> Self {
        KeptAnswer {
            outcome: answer.outcome,
            item: answer.item.map(|item| (item.flags, item.value.into())),
            number: answer.number,
            line: answer.line.into(),
            value: answer.kept_block().into(),
            server: answer.server,
        }
    }

    pub(crate) fn answer(&self) -> Answer<'_> {
        let item = self.item.as_ref().map(|(flags, value)| Item { flags: *flags, value });
        let block = item.filter(|_| !self.line.is_empty()).map_or(&*self.value, |item| item.value);
        let KeptAnswer { outcome, number, line, server, .. } = self;
        Answer { outcome: *outcome, item, number: *number, line, block, server: *server }
    }
}

/// The line of a meta command whose value is another one: it has a length, the flags and perhaps the length again.
fn line_of_value(line: &[u8], flags: u64, shown: Shown, length: usize) -> Box<[u8]> {
    let mut written = Vec::with_capacity(line.len() + 8);
    for (number, token) in line.split(|byte| *byte == b' ').enumerate() {
        let token = match (number, token.first()) {
            (1, _) => length.to_string().into_bytes(),
            (2.., Some(b'f')) if shown == Shown::No => continue,
            (2.., Some(b'f')) => format!("f{flags}").into_bytes(),
            (2.., Some(b's')) => format!("s{length}").into_bytes(),
            _ => token.to_vec(),
        };
        written.extend_from_slice(if number == 0 { b"" } else { b" " });
        written.extend_from_slice(&token);
    }
    written.into()
}

/// The answer of a cache without items.
pub(crate) fn without_items(op: Op) -> Outcome {
    match op.group() {
        Group::Update => Outcome::NotStored,
        Group::Flush => Outcome::Ok,
        Group::Get | Group::Delete | Group::Arithmetic | Group::Touch => Outcome::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_meta_command_tells_of_the_value_behind_it() {
        for (line, shown, expected) in [
            ("VA 6 f32773 s6 c7 Oabc", Shown::AsReceived, "VA 13 f5 s13 c7 Oabc"),
            ("VA 6 ksome f32773", Shown::No, "VA 13 ksome"),
            ("VA 6", Shown::No, "VA 13"),
            ("", Shown::No, ""),
        ] {
            let item = Some(Item { flags: 0x8005, value: b"1-3-99" });
            let answer = Answer { item, line: line.as_bytes(), ..Answer::of(Outcome::Found) };
            let kept =
                KeptAnswer::of(&answer).joined(Flags { without: 0x8000, shown }, b"one,two,three"[..].into());
            let joined = kept.answer();
            assert_eq!((joined.line, joined.item.unwrap().flags), (expected.as_bytes(), 5));
            assert_eq!(joined.block, if line.is_empty() { b"".as_slice() } else { b"one,two,three" });
        }
    }

    #[test]
    fn outcomes_are_found_by_their_numbers() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::numbered(outcome.number()), Some(outcome));
        }
        assert_eq!((Outcome::numbered(0), Outcome::numbered(23)), (None, None));
    }

    #[test]
    fn every_failure_that_can_be_named_makes_another_server_be_asked_and_no_other_outcome_does() {
        assert!(FAILURES.iter().all(|(_, outcome)| outcome.is_failover_error()));
        for outcome in [Outcome::NotFound, Outcome::Exists, Outcome::NotStored, Outcome::ClientError] {
            assert!(!outcome.is_failover_error(), "{outcome:?}");
        }
    }
}
