//! The errors of requests.

use crate::key::KeyProblem;
use guira_routing::{Answer, Outcome};
use guira_upstream::VALUE_MAX;
use std::sync::Arc;
use std::{fmt, io};

/// The error of a request. Treat a failed get as a miss that is not filled: read from the database,
/// and do not store the value, so that a server or a network in trouble gets no extra load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    place: Option<Box<Place>>,
}

/// The server at which a request failed, and the cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    server: Option<Arc<str>>,
    cause: Option<Arc<str>>,
}

/// The kinds of errors, by what an application can do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Servers do not accept such a key. Nothing was sent.
    BadKey(KeyProblem),
    /// The value is longer than the server takes, or than 64 MiB.
    TooLarge,
    /// The server did not reply in time. It may have executed the request.
    Timeout,
    /// The server cannot be connected to.
    Unreachable,
    /// The server is marked as failed: it gets no requests until it answers a probe.
    Down,
    /// The connection broke, or the server sent malformed data. It may have executed the request.
    Broken,
    /// The client or the server has too many requests in progress.
    Busy,
    /// The server refused the request with this text.
    Refused(String),
    /// The configuration has no route for the key.
    NoRoute(String),
    /// The value has the flag of compressed values, but cannot be decompressed.
    Damaged,
}

/// The texts of servers for a value that is too long.
const TOO_LARGE: [&[u8]; 3] = [b"object too large", b"value is too long", b"too large for cache"];

impl Error {
    /// The kind, by which an application decides how to react.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The kind of the error, without the place.
    #[must_use]
    pub fn into_kind(self) -> ErrorKind {
        self.kind
    }

    /// The server at which the request failed, in the configuration's syntax. `None` if the request
    /// reached no server, or if several have failed and the error is not that of the last.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.place.as_deref()?.server.as_deref()
    }

    /// The error text of the operating system or the server.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.place.as_deref()?.cause.as_deref()
    }

    /// The error of a value that is longer than this client accepts.
    pub(super) fn too_large() -> Self {
        Self::from(ErrorKind::TooLarge).because(format!("the client's limit is {} MiB", VALUE_MAX >> 20))
    }

    pub(super) fn at(mut self, server: &Arc<str>) -> Self {
        self.place.get_or_insert_default().server = Some(Arc::clone(server));
        self
    }

    pub(super) fn because(mut self, cause: impl Into<Arc<str>>) -> Self {
        self.place.get_or_insert_default().cause = Some(cause.into());
        self
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, place: None }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server().unwrap_or("the server");
        let is_placed = self.server().is_some();
        match &self.kind {
            ErrorKind::BadKey(problem) => return problem.fmt(formatter),
            ErrorKind::Refused(line) if !is_placed => {
                return write!(formatter, "the request was refused: {line}");
            }
            ErrorKind::Refused(line) => return write!(formatter, "{server} refused the request: {line}"),
            ErrorKind::NoRoute(line) => {
                return write!(formatter, "the configuration has no route for the key: {line}");
            }
            ErrorKind::Damaged => {
                return formatter.write_str("the value is corrupt: it cannot be decompressed");
            }
            ErrorKind::TooLarge if is_placed => write!(formatter, "the value is too large for {server}"),
            ErrorKind::TooLarge => formatter.write_str("the value is too large"),
            ErrorKind::Timeout => write!(formatter, "no reply from {server}"),
            ErrorKind::Unreachable => write!(formatter, "cannot connect to {server}"),
            ErrorKind::Down => write!(formatter, "{server} is marked as failed"),
            ErrorKind::Broken => write!(formatter, "the connection to {server} was lost"),
            // The client or the server lacks a resource, which the cause names.
            ErrorKind::Busy if is_placed => write!(formatter, "no capacity for a request to {server}"),
            ErrorKind::Busy => formatter.write_str("no capacity for the request"),
        }?;
        self.cause().map_or(Ok(()), |cause| write!(formatter, ": {cause}"))
    }
}

/// The operating system's error text, without the error number.
pub(super) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

impl ErrorKind {
    /// The error in an answer, if it is one.
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
        let of = |outcome, line: &'static str| {
            ErrorKind::of(&Answer { line: line.as_bytes(), ..Answer::of(outcome) })
        };
        assert_eq!(of(Outcome::NotFound, ""), None);
        assert_eq!(of(Outcome::Timeout, ""), Some(ErrorKind::Timeout));
        assert_eq!(of(Outcome::Tko, ""), Some(ErrorKind::Down));
        assert_eq!(of(Outcome::RemoteError, ""), Some(ErrorKind::Broken));
        assert_eq!(
            of(Outcome::RemoteError, "SERVER_ERROR object too large for cache"),
            Some(ErrorKind::TooLarge)
        );
        let refused = "CLIENT_ERROR cannot increment or decrement non-numeric value";
        assert_eq!(of(Outcome::ClientError, refused), Some(ErrorKind::Refused(refused.to_owned())));
    }

    #[test]
    fn an_error_names_its_server_and_the_cause() {
        let bare = Error::from(ErrorKind::Unreachable);
        assert_eq!((bare.server(), bare.cause()), (None, None));
        assert_eq!(bare.to_string(), "cannot connect to the server");
        let refused = cause(&io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error()));
        let known = bare.because(refused).at(&"10.0.0.1:1".into());
        assert_eq!((known.server(), known.cause()), (Some("10.0.0.1:1"), Some("Connection refused")));
        assert_eq!(known.to_string(), "cannot connect to 10.0.0.1:1: Connection refused");
        assert_eq!(Error::too_large().to_string(), "the value is too large: the client's limit is 64 MiB");
        let busy = Error::from(ErrorKind::Busy).because("Too many open files").at(&"a:1".into());
        assert_eq!(busy.to_string(), "no capacity for a request to a:1: Too many open files");
    }
}
