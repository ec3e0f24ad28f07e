//! What goes wrong for a client.

use guira_protocol::mica::Status;
use std::io;

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request does not fit into a datagram.
    #[error("key and value of {bytes} bytes do not fit into a datagram: use TCP")]
    TooLong {
        /// How long they are.
        bytes: usize,
    },
    /// The key is empty or too long.
    #[error("a key has 1 to 250 bytes, not {0}")]
    Key(usize),
    /// No answer came. What was to be changed may have been changed, or not.
    #[error("no answer came")]
    Lost,
    /// The server says why not.
    #[error("{}", .0.text())]
    Refused(Status),
    /// The server does not say how it divides keys.
    #[error("nobody answers there who speaks of MICA")]
    Silent,
    /// The system refuses.
    #[error("the network fails")]
    System(#[from] io::Error),
}
