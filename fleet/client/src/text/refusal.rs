//! Replies to requests that a server refuses.

use guira_protocol::client::{Failure, failure};

/// Whether a reply refuses the request as it stands (`ERROR`, `CLIENT_ERROR …`), so that the same
/// request would be refused again. A temporary failure is no refusal.
///
/// A server that requires a login, or that is another service, refuses every request in the same
/// words. Before a refused request is dropped, send one that is certainly valid: if that is refused
/// too, the request has failed and has to be kept.
#[must_use]
pub fn is_refusal(reply: &[u8]) -> bool {
    failure(reply).is_some_and(Failure::is_refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_pass_are_no_refusals() {
        let refusals: [&[u8]; 3] =
            [b"ERROR", b"CLIENT_ERROR bad command line format", b"CLIENT_ERROR unauthenticated"];
        assert!(refusals.into_iter().all(is_refusal));
        let others: [&[u8]; 5] = [b"SERVER_ERROR busy", b"NOT_FOUND", b"NF", b"", b"ERRORS"];
        assert!(!others.into_iter().any(is_refusal));
    }
}
