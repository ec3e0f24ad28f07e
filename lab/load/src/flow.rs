//! The result of a read or write on a link, and the limit of requests in flight.

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
    /// A waiting request could not be sent.
    Request(LoadError),
}

/// The most requests in flight of an open loop that keeps each of them until its reply. Further
/// ones are sent later, and their latency counts from the time at which they were due.
pub(crate) const OPEN_MAX: usize = 16 << 10;
