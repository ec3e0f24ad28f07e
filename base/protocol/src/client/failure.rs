//! Lines that report a failure.

use crate::word::reply;

/// A failure that a server reports, with the text behind its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// `ERROR`: the server does not know the command.
    Unknown,
    /// `CLIENT_ERROR`: the request is malformed.
    Client(&'a [u8]),
    /// `SERVER_ERROR`: the server cannot execute the request now.
    Server(&'a [u8]),
}

impl Failure<'_> {
    /// Whether the same request would be refused again.
    pub fn is_refusal(self) -> bool {
        matches!(self, Failure::Unknown | Failure::Client(_))
    }
}

/// The failure that a line reports; `None` if it reports none. The line has no end.
#[inline]
pub fn failure(line: &[u8]) -> Option<Failure<'_>> {
    if line == reply::ERROR {
        Some(Failure::Unknown)
    } else if let Some(text) = line.strip_prefix(reply::CLIENT_ERROR) {
        Some(Failure::Client(text.trim_ascii()))
    } else {
        line.strip_prefix(reply::SERVER_ERROR).map(|text| Failure::Server(text.trim_ascii()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_known_by_their_first_word() {
        for (line, expected) in [
            ("ERROR", Some(Failure::Unknown)),
            ("CLIENT_ERROR bad data chunk", Some(Failure::Client(b"bad data chunk"))),
            ("CLIENT_ERROR", Some(Failure::Client(b""))),
            (
                "SERVER_ERROR out of memory storing object",
                Some(Failure::Server(b"out of memory storing object")),
            ),
            ("SERVER_ERROR  timeout ", Some(Failure::Server(b"timeout"))),
            ("ERRORS", None),
            ("ERROR Too many open connections", None),
            ("STORED", None),
            ("", None),
        ] {
            assert_eq!(failure(line.as_bytes()), expected, "{line}");
        }
        assert!(Failure::Unknown.is_refusal() && Failure::Client(b"").is_refusal());
        assert!(!Failure::Server(b"").is_refusal());
    }
}
