//! Errors of a client.

use guira_protocol::mica::Status;
use std::io;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request does not fit into a datagram.
    #[error("key and value ({bytes} bytes) do not fit into a datagram: use TCP")]
    TooLong {
        /// Length of key and value together, in bytes.
        bytes: usize,
    },
    /// The key is empty or too long; its length in bytes.
    #[error("a key has 1 to 250 bytes, not {0}")]
    Key(usize),
    /// No reply arrived. The server may or may not have executed the request.
    #[error("no reply")]
    Lost,
    /// The server rejected the request.
    #[error("{}", .0.text())]
    Refused(Status),
    /// The server does not send its directory.
    #[error("no MICA server replies at this address")]
    Silent,
    /// The system reported an error.
    #[error("network error")]
    System(#[from] io::Error),
}
