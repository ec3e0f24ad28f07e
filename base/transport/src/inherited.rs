//! Sockets that a service manager has opened for us (systemd's socket activation, sd_listen_fds(3)).

use crate::listener::Listener;
use rustix::fd::{FromRawFd, OwnedFd, RawFd};
use rustix::net::{SocketType, sockopt};
use std::io;
use std::net::UdpSocket;

/// The first descriptor that is handed over; the others follow it.
const FIRST: RawFd = 3;
/// More than this is a mistake.
const MAX: RawFd = 1024;

/// A socket that was handed over.
#[derive(Debug)]
pub enum Inherited {
    /// Connections come from it.
    Stream(Listener),
    /// Datagrams come from it.
    Datagram(UdpSocket),
}

/// How many descriptors these variables (`LISTEN_PID`, `LISTEN_FDS`) say are handed over to process `own`.
fn announced(pid: Option<&str>, fds: Option<&str>, own: u32) -> RawFd {
    let (Some(pid), Some(fds)) = (pid, fds) else {
        return 0;
    };
    if pid.parse() != Ok(own) {
        return 0;
    }
    fds.parse().unwrap_or(0).clamp(0, MAX)
}

/// Takes the sockets that the service manager has handed over to this process, if any. To be called once, before the process
/// opens anything and before it forks.
///
/// # Errors
/// If one of them is no socket, or not of a kind that can be served.
pub fn inherited_sockets() -> io::Result<Vec<Inherited>> {
    static TAKEN: std::sync::Once = std::sync::Once::new();
    let mut count = 0;
    TAKEN.call_once(|| {
        let variable = |name| std::env::var(name).ok();
        let (pid, fds) = (variable("LISTEN_PID"), variable("LISTEN_FDS"));
        count = announced(pid.as_deref(), fds.as_deref(), std::process::id());
    });
    (FIRST..FIRST + count).map(take).collect()
}

fn take(fd: RawFd) -> io::Result<Inherited> {
    // Who sets the variables may be wrong; nobody has used this number before us.
    // SAFETY: the descriptor is only asked about, and not kept.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    let kind = sockopt::socket_type(borrowed)?;
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open, as was just seen; it was handed over to this process, and `inherited_sockets` takes it once only.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    match kind {
        SocketType::STREAM => Listener::adopt(owned).map(Inherited::Stream),
        SocketType::DGRAM => {
            let socket = UdpSocket::from(owned);
            socket.set_nonblocking(true)?;
            Ok(Inherited::Datagram(socket))
        }
        _ => Err(io::Error::other("an inherited socket is neither of streams nor of datagrams")),
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
