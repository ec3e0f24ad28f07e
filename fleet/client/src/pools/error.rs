//! Why a request has failed.

use guira_routing::{Answer, Outcome};

/// Why there is no answer about a key. A failed get is to be treated as a miss that is not filled: the application asks its database, and does not
/// store what that says, so that a server or a network in trouble has no more to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is empty, has more than 250 bytes, or has blanks or control bytes. Nothing was sent.
    #[error("the key is empty, longer than 250 bytes, or has blanks or control bytes")]
    BadKey,
    /// The value is longer than the server takes, or than 64 MiB.
    #[error("the value is too large")]
    TooLarge,
    /// The server has not answered in time. It may have carried the request out.
    #[error("timeout: no reply from the server")]
    Timeout,
    /// The server cannot be connected to.
    #[error("cannot connect to the server")]
    Unreachable,
    /// The server has failed several times in a row, and is not asked until it was seen to be back.
    #[error("the server is down")]
    Down,
    /// The connection broke, or brought what makes no sense. The server may have carried the request out.
    #[error("the connection was lost")]
    Broken,
    /// Too much is under way: of the client, or of the server.
    #[error("too many requests are in flight")]
    Busy,
    /// The server has refused the request, with these words.
    #[error("the server refused the request: {0}")]
    Refused(String),
    /// The configuration sends the key nowhere.
    #[error("the configuration has no route for the key: {0}")]
    NoRoute(String),
    /// The value that was found says that it is compressed, and is not.
    #[error("the value is corrupt: it cannot be decompressed")]
    Damaged,
}

/// How servers call a value that is too long.
const TOO_LARGE: [&[u8]; 3] = [b"object too large", b"value is too long", b"too large for cache"];

impl Error {
    /// The error that an answer is, if it is one.
    pub(super) fn of(answer: &Answer<'_>) -> Option<Self> {
        if !answer.outcome.is_error() {
            return None;
        }
        let is_too_large =
            |line: &[u8]| TOO_LARGE.iter().any(|words| memchr::memmem::find(line, words).is_some());
        let said = || answer.line.escape_ascii().to_string();
        Some(match answer.outcome {
            Outcome::Timeout | Outcome::DeadlineExceeded => Self::Timeout,
            Outcome::ConnectTimeout | Outcome::ConnectError => Self::Unreachable,
            Outcome::Tko | Outcome::Shutdown => Self::Down,
            Outcome::Busy | Outcome::TryAgain => Self::Busy,
            Outcome::LocalError => Self::NoRoute(said()),
            _ if is_too_large(answer.line) => Self::TooLarge,
            _ if answer.line.is_empty() => Self::Broken,
            _ => Self::Refused(said()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_told_by_what_can_be_done_about_it() {
        let of =
            |outcome, line: &'static str| Error::of(&Answer { line: line.as_bytes(), ..Answer::of(outcome) });
        assert_eq!(of(Outcome::NotFound, ""), None);
        assert_eq!(of(Outcome::Timeout, ""), Some(Error::Timeout));
        assert_eq!(of(Outcome::Tko, ""), Some(Error::Down));
        assert_eq!(of(Outcome::RemoteError, ""), Some(Error::Broken));
        assert_eq!(
            of(Outcome::RemoteError, "SERVER_ERROR object too large for cache"),
            Some(Error::TooLarge)
        );
        let refused = "CLIENT_ERROR cannot increment or decrement non-numeric value";
        assert_eq!(of(Outcome::ClientError, refused), Some(Error::Refused(refused.to_owned())));
    }
}
