//! Requests that fail: what their clients receive, in mcrouter's words.

use guira_routing::{Answer, Group, Outcome};
use guira_upstream::Tko;

/// The replies to requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    pub gets: Failed,
    pub arithmetic: Failed,
    pub detail: Detail,
    pub syntax: Syntax,
}

/// The reply to a line that is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// memcached's: the line has an error, and the connection stays.
    Memcached,
    /// mcrouter's: `CLIENT_ERROR malformed request`, and the connection ends.
    Mcrouter,
}

/// The reply to a failed request of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The key was not found: the client queries the database, as it would do anyway.
    AreMisses,
    AreErrors,
}

/// Whether an error has its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Cause,
    /// All are `remote error`.
    Grouped,
}

/// A key whose routing prefix leads nowhere.
const NO_ROUTE: &[u8] = b"SERVER_ERROR RootRoute: No rh found";
/// A key that is too long, or empty.
pub(crate) const BAD_KEY: &str = "CLIENT_ERROR bad key";
/// flush_all without `--enable-flush-cmd`.
macro_rules! command_disabled {
    () => {
        "Command disabled"
    };
}
pub(crate) use command_disabled;

const MISS: Answer<'static> = Answer::of(Outcome::NotFound);

impl Failures {
    /// The reply to a request that has failed, of a group that may be a miss. `out` is why a server was last found out of service.
    #[cold]
    pub(crate) fn reply<'a>(self, group: Option<Group>, answer: &Answer<'a>, out: Tko) -> Answer<'a> {
        let policy = match group {
            Some(Group::Get) => self.gets,
            Some(Group::Arithmetic) => self.arithmetic,
            _ => Failed::AreErrors,
        };
        if policy == Failed::AreMisses {
            return MISS;
        }
        match answer.outcome {
            _ if self.detail == Detail::Grouped => Answer::of(Outcome::RemoteError),
            Outcome::Tko if answer.line.is_empty() => Answer { line: unavailable(out), ..*answer },
            _ => *answer,
        }
    }

    /// The reply to a request whose key leads nowhere.
    pub(crate) fn no_route(self, why: Outcome) -> Answer<'static> {
        match (self.detail, why) {
            (Detail::Grouped, _) => Answer::of(Outcome::RemoteError),
            (_, Outcome::ClientError) => Answer { line: BAD_KEY.as_bytes(), ..Answer::of(why) },
            _ => Answer { line: NO_ROUTE, ..Answer::of(why) },
        }
    }
}

/// The replies to the failed requests of one worker.
#[derive(Debug)]
pub(crate) struct FailureReplies {
    failures: Failures,
    /// Why a server was last found out of service.
    last_tko: Tko,
}

impl FailureReplies {
    pub(crate) fn new(failures: Failures) -> Self {
        FailureReplies { failures, last_tko: Tko::Hard }
    }

    /// A request was not sent because its server is out of service.
    pub(crate) fn note_tko(&mut self, why: Tko) {
        self.last_tko = why;
    }

    /// As [`Failures::reply`].
    #[cold]
    pub(crate) fn reply<'a>(&self, group: Option<Group>, answer: &Answer<'a>) -> Answer<'a> {
        self.failures.reply(group, answer, self.last_tko)
    }

    pub(crate) fn no_route(&self, why: Outcome) -> Answer<'static> {
        self.failures.no_route(why)
    }
}

fn unavailable(why: Tko) -> &'static [u8] {
    match why {
        Tko::Soft => b"SERVER_ERROR Server unavailable. Reason: mc_res_timeout",
        Tko::Hard => b"SERVER_ERROR Server unavailable. Reason: mc_res_connect_error",
    }
}

/// The line of a failure that comes without one.
pub(crate) fn text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Timeout => "SERVER_ERROR Reply timeout",
        Outcome::ConnectTimeout => "SERVER_ERROR connection timeout",
        Outcome::ConnectError => "SERVER_ERROR connection error",
        Outcome::Busy => "SERVER_ERROR 307 busy",
        Outcome::TryAgain => "SERVER_ERROR 302 try again",
        Outcome::Shutdown => "SERVER_ERROR 301 shutdown",
        Outcome::Tko => "SERVER_ERROR Server unavailable",
        Outcome::DeadlineExceeded => "SERVER_ERROR request deadline exceeded",
        Outcome::LocalError => "SERVER_ERROR local error",
        Outcome::ClientError => "CLIENT_ERROR malformed request",
        _ => "SERVER_ERROR remote error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Option<Group> = Some(Group::Get);
    const INCR: Option<Group> = Some(Group::Arithmetic);
    const SET: Option<Group> = Some(Group::Update);

    fn failures(gets: Failed, arithmetic: Failed) -> Failures {
        Failures { gets, arithmetic, detail: Detail::Cause, syntax: Syntax::Memcached }
    }

    #[test]
    fn gets_and_arithmetic_may_be_misses() {
        let failed = Answer::of(Outcome::Timeout);
        let outcome = |failures: Failures, group| failures.reply(group, &failed, Tko::Hard).outcome;
        let mcrouter = failures(Failed::AreErrors, Failed::AreMisses);
        let guira = failures(Failed::AreMisses, Failed::AreErrors);
        assert_eq!(
            [GET, INCR, SET].map(|group| outcome(mcrouter, group)),
            [Outcome::Timeout, Outcome::NotFound, Outcome::Timeout]
        );
        assert_eq!(
            [GET, INCR, SET].map(|group| outcome(guira, group)),
            [Outcome::NotFound, Outcome::Timeout, Outcome::Timeout]
        );
    }

    #[test]
    fn an_unavailable_server_has_its_reason_and_groups_have_none() {
        let with_causes = failures(Failed::AreErrors, Failed::AreErrors);
        let failed = Answer::of(Outcome::Tko);
        let line = |failures: Failures, why| failures.reply(SET, &failed, why).line;
        assert_eq!(line(with_causes, Tko::Soft), b"SERVER_ERROR Server unavailable. Reason: mc_res_timeout");
        assert_eq!(
            line(with_causes, Tko::Hard),
            b"SERVER_ERROR Server unavailable. Reason: mc_res_connect_error"
        );
        let grouped = Failures { detail: Detail::Grouped, ..with_causes };
        for reply in [grouped.reply(SET, &failed, Tko::Soft), grouped.no_route(Outcome::LocalError)] {
            assert_eq!((reply.outcome, reply.line), (Outcome::RemoteError, &b""[..]));
        }
    }
}
