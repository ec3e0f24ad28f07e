//! Replies, as route handles see them.

use crate::request::{Group, Op};

/// What came of a request. The names are those of mcrouter's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A hit, a number that was counted, or what a meta command answers with HD or VA.
    Found,
    Stored,
    StaleStored,
    Exists,
    Deleted,
    Touched,
    /// Nothing more to tell: flush_all.
    Ok,
    /// A lease-get whose key somebody else fills, with a stale value or without.
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

impl Outcome {
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

    /// Whether another server is asked, unless the configuration names other failures.
    pub fn is_failover_error(self) -> bool {
        self.is_error() && self != Outcome::ClientError
    }

    pub fn is_hit(self) -> bool {
        matches!(self, Outcome::Found | Outcome::Deleted | Outcome::Touched)
    }

    pub fn is_miss(self) -> bool {
        self == Outcome::NotFound
    }

    /// Of a lease-get: somebody else fills the key.
    pub fn is_hot_miss(self) -> bool {
        matches!(self, Outcome::FoundStale | Outcome::NotFoundHot)
    }
}

/// A reply of one server about one key.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub outcome: Outcome,
    /// What was found, if the reply has both.
    pub item: Option<Item<'a>>,
    /// The cas unique, the lease token, or the number that was counted.
    pub number: u64,
    /// Of a meta command, the line without its end; of an error, what the server has said. Empty if the outcome says it all.
    pub line: &'a [u8],
    /// The reply to a classic get as it came, from VALUE on; of a meta command, the value. Empty if there is none, or it is not known any more.
    pub block: &'a [u8],
}

/// An item in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The client's.
    pub flags: u32,
    pub value: &'a [u8],
}

impl Answer<'static> {
    /// An answer that is only an outcome.
    pub const fn of(outcome: Outcome) -> Self {
        Answer { outcome, item: None, number: 0, line: b"", block: b"" }
    }
}

/// An answer that is kept until others have come.
#[derive(Clone, Debug)]
pub(crate) struct KeptAnswer {
    outcome: Outcome,
    item: Option<(u32, Box<[u8]>)>,
    number: u64,
    line: Box<[u8]>,
    /// Of a meta command. That of a classic get is made again.
    value: Box<[u8]>,
}

impl KeptAnswer {
    pub(crate) fn of(answer: &Answer<'_>) -> Self {
        KeptAnswer {
            outcome: answer.outcome,
            item: answer.item.map(|item| (item.flags, item.value.into())),
            number: answer.number,
            line: answer.line.into(),
            value: if answer.line.is_empty() { Box::default() } else { answer.block.into() },
        }
    }

    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer {
            outcome: self.outcome,
            item: self.item.as_ref().map(|(flags, value)| Item { flags: *flags, value }),
            number: self.number,
            line: &self.line,
            block: &self.value,
        }
    }
}

/// What a cache without items answers.
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
    fn every_failure_that_can_be_named_makes_another_server_be_asked_and_no_other_outcome_does() {
        assert!(FAILURES.iter().all(|(_, outcome)| outcome.is_failover_error()));
        for outcome in [Outcome::NotFound, Outcome::Exists, Outcome::NotStored, Outcome::ClientError] {
            assert!(!outcome.is_failover_error(), "{outcome:?}");
        }
    }
}
