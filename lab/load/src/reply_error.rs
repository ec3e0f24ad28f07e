//! Why a reply cannot be read.

use crate::protocol::Command;

/// The longest line that a reply can have: `VALUE`, a key of 250 bytes, three numbers, or an error message.
pub(crate) const LINE_LEN_MAX: usize = 2048;

/// Why reading cannot go on: the rest cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Bytes came although nothing was asked.
    #[error("{0:?} received without a request")]
    Unasked(String),
    /// A line that does not answer the request.
    #[error("{line:?} is not a reply to {command:?}")]
    Unexpected {
        /// The line.
        line: String,
        /// What had been asked.
        command: Command,
    },
    /// A line that does not end.
    #[error("a line of more than {LINE_LEN_MAX} bytes: {0:?}…")]
    LineTooLong(String),
    /// A value that is not followed by a line end.
    #[error("the value of {0:?} is not followed by a line end")]
    ValueEnd(String),
    /// A datagram that is no part of a reply.
    #[error("a datagram for request {id} {problem}")]
    Datagram {
        /// What is wrong with it.
        problem: &'static str,
        /// The number of its request.
        id: u16,
    },
    /// Bytes that are no packet of the binary protocol, or none that answers the request.
    #[error("a packet {problem}: {header}")]
    Packet {
        /// What is wrong with it.
        problem: &'static str,
        /// Its header in hexadecimal digits.
        header: String,
    },
}
