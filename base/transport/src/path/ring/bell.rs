//! What wakes the other end of a ring: a pair of sockets, one at each end.
//!
//! Not an eventfd: whoever shares one shares its flags too, and could have the other end block in it for ever.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;

/// One end.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

/// What has rung is heard in pieces of so many bytes. Each ringing is one.
const HEARD: usize = 256;

impl Bell {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Bell, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Bell(ours), theirs))
    }

    /// The end that was given by the other.
    pub(super) fn given(end: OwnedFd) -> Bell {
        Bell(end)
    }

    /// Wakes the other end.
    pub(super) fn ring(&self) {
        // It fails if it has been ringing for long, or nobody is there.
        let _ = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// This end is awake.
    pub(super) fn silence(&self) {
        // It fails if it did not ring, which is as well. Of one that rings all the time a part is heard each time.
        let _ = recv(&self.0, &mut [0; HEARD], RecvFlags::DONTWAIT);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
