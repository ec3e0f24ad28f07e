//! A doorbell between the two ends of a ring: a pair of sockets, one at each end.
//!
//! Not an eventfd: the two ends would share its file flags, and the other end could make ours blocking.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;

#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

/// The other end of a bell is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Rings are read in pieces of this many bytes. Each ring is one byte.
const DRAIN_BYTES: usize = 256;

impl Bell {
    pub(super) fn pair() -> io::Result<(Bell, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Bell(ours), theirs))
    }

    /// The end that the other process passed to us.
    pub(super) fn from_fd(end: OwnedFd) -> Bell {
        Bell(end)
    }

    pub(super) fn ring(&self) {
        // It fails if too many rings are unread, or the other end is closed.
        let _ = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Discards the rings. If there are many, one piece is discarded at a time.
    ///
    /// # Errors
    /// If the other end is closed: this one stays readable.
    pub(super) fn silence(&self) -> Result<(), Closed> {
        match recv(&self.0, &mut [0; DRAIN_BYTES], RecvFlags::DONTWAIT) {
            Ok((_, 1..)) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok((_, 0)) | Err(_) => Err(Closed),
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
