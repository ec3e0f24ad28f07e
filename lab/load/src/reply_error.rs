//! Why a reply cannot be read.

use crate::protocol::Command;

/// Why reading cannot continue: the rest cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Bytes arrived although no request was in flight.
    #[error("{0:?} received without a request")]
    Unasked(String),
    /// A line that does not answer the request.
    #[error("{line:?} is not a reply to {command:?}")]
    Unexpected { line: String, command: Command },
    /// Bytes that are no reply of the text protocol: a line that does not end, or a value that does not end where it
    /// should.
    #[error("{0:?} is not a reply")]
    Malformed(String),
    /// A datagram that is no part of a reply.
    #[error("a datagram for request {id} {problem}")]
    Datagram { problem: &'static str, id: u16 },
    /// Bytes that are no packet of the binary protocol, or none that answers the request.
    #[error("a packet {problem}: {header}")]
    Packet { problem: &'static str, header: String },
}
