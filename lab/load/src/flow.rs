//! How a read or a write of a link ends, and how many requests may be open.

use std::io;

use crate::error::LoadError;
use crate::reply_error::ReplyError;

/// How a read or a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// There is nothing more to do now.
    Done,
    /// The socket takes no more: wait for room.
    Full,
    Closed,
}

#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// The bytes were no reply.
    Reply(ReplyError),
    /// What waited to be asked could not be.
    Request(LoadError),
}

/// Requests of an open loop that may be open where each is kept until it is answered. What is due beyond that is made later, and its latency
/// counts all the same.
pub(crate) const OPEN_MAX: usize = 16 << 10;
