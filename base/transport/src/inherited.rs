//! Sockets passed by a service manager (systemd's socket activation, sd_listen_fds(3)).

use crate::listener::Listener;
use crate::net::UdpSocket;
use guira_sync::lock::OnceLock;
use rustix::fd::{FromRawFd, OwnedFd, RawFd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;

/// The first inherited descriptor; the others follow it.
const FIRST: RawFd = 3;
/// A larger number is a mistake.
const MAX: RawFd = 1024;

#[derive(Debug)]
pub enum Inherited {
    Stream(Listener),
    Datagram(UdpSocket),
}

/// The number of descriptors that these variables (`LISTEN_PID`, `LISTEN_FDS`) announce to process `own`.
fn announced(pid: Option<&str>, fds: Option<&str>, own: u32) -> RawFd {
    let (Some(pid), Some(fds)) = (pid, fds) else {
        return 0;
    };
    if pid.parse() != Ok(own) {
        return 0;
    }
    fds.parse().unwrap_or(0).clamp(0, MAX)
}

/// Takes the sockets that the service manager has passed to this process, if any. Has to be called once, before the
/// process opens descriptors or forks.
///
/// # Errors
/// If a descriptor is not a socket, or not of a supported kind, or does not listen.
pub fn inherited_sockets() -> io::Result<Vec<Inherited>> {
    static TAKEN: OnceLock<()> = OnceLock::new();
    let variable = |name| std::env::var(name).ok();
    let (pid, fds) = (variable("LISTEN_PID"), variable("LISTEN_FDS"));
    let is_first = TAKEN.set(()).is_ok();
    let count = if is_first { announced(pid.as_deref(), fds.as_deref(), std::process::id()) } else { 0 };
    let named =
        |fd| take(fd).map_err(|error| io::Error::other(format!("descriptor {fd} of LISTEN_FDS: {error}")));
    (FIRST..FIRST + count).map(named).collect()
}

fn take(fd: RawFd) -> io::Result<Inherited> {
    // The variables may be wrong; no code has used this descriptor before.
    // SAFETY: the descriptor is only inspected.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    let kind = sockopt::socket_type(borrowed)?;
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: the descriptor is open, as checked above; it was passed to this process, and `inherited_sockets` takes
    // it only once.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    match kind {
        SocketType::STREAM => Listener::adopt(owned).map(Inherited::Stream),
        SocketType::DGRAM => {
            if sockopt::socket_domain(&owned)? == AddressFamily::UNIX {
                return Err(io::Error::other("the socket takes datagrams of UNIX, not of UDP"));
            }
            let socket = UdpSocket::from(owned);
            socket.set_nonblocking(true)?;
            Ok(Inherited::Datagram(socket))
        }
        _ => Err(io::Error::other("the socket is neither of streams nor of datagrams")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_taken_only_if_they_are_meant_for_this_process() {
        assert_eq!(announced(Some("42"), Some("2"), 42), 2);
        assert_eq!(announced(Some("41"), Some("2"), 42), 0);
        assert_eq!(announced(None, Some("2"), 42), 0);
        assert_eq!(announced(Some("42"), None, 42), 0);
        assert_eq!(announced(Some("42"), Some("-1"), 42), 0);
        assert_eq!(announced(Some("42"), Some("99999"), 42), MAX);
        assert_eq!(announced(Some("x"), Some("2"), 42), 0);
    }
}
