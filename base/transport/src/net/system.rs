//! Sockets of the system.

use guira_sync::lock::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

pub use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
pub use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Begins to connect; the packets have this in the field of their service (DSCP), unless it is 0.
pub(crate) fn begin_tcp(address: SocketAddr, service: u8) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    if service != 0 && address.is_ipv4() {
        sockopt::set_ip_tos(&socket, service)?;
    } else if service != 0 {
        sockopt::set_ipv6_tclass(&socket, service.into())?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    begun(connect(&socket, &address))?;
    Ok(socket.into())
}

pub(crate) fn begin_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    begun(connect(&socket, &SocketAddrUnix::new(path)?))?;
    Ok(socket.into())
}

fn begun(connected: rustix::io::Result<()>) -> io::Result<()> {
    match connected {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The error of a socket since the previous call.
pub(crate) fn take_error(stream: impl AsFd) -> io::Result<()> {
    sockopt::socket_error(stream)?.map_err(io::Error::from)
}

pub(crate) fn listen_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, backlog.min(i32::MAX as u32) as i32)?;
    Ok(TcpListener::from(socket))
}

pub(crate) fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if is_left_over(path) {
        std::fs::remove_file(path)?;
    }
    // The permissions must be right from the start, or another user could connect in between. The umask is that of all threads.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let socket = UnixListener::bind(path);
    rustix::process::umask(before);
    let socket = socket?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether the socket file is stale: no process listens on it. Other errors, such as missing permissions, do not
/// count.
fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).err().is_some_and(refused)
}

/// Whether a socket listens: another process that holds it may have shut it down.
///
/// # Errors
/// If it is no socket.
pub fn is_listening(socket: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::socket_acceptconn(socket.as_fd())?)
}

/// Whether a process that shares a listener has shut it down.
pub(crate) fn is_shut_down(socket: &UnixListener) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Silence after which the system probes a connection, and the interval and number of its probes.
const ASK_AFTER: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 3;
/// The longest time without an acknowledgement of sent bytes, in milliseconds.
const UNACKNOWLEDGED_MAX_MS: u32 = 20_000;

/// Makes a connection fail within about 20 s if the peer's host is gone, even while nothing is sent: a host that has lost
/// its power sends no FIN.
///
/// # Errors
/// An error of the system.
pub fn notice_lost_peer(socket: &TcpStream) -> io::Result<()> {
    let set = |socket: BorrowedFd<'_>| -> rustix::io::Result<()> {
        sockopt::set_tcp_keepidle(socket, ASK_AFTER)?;
        sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
        sockopt::set_tcp_keepcnt(socket, ASK_TIMES)?;
        sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MAX_MS)?;
        sockopt::set_socket_keepalive(socket, true)
    };
    Ok(set(socket.as_fd())?)
}

/// Connects to a socket in the file system.
///
/// # Errors
/// An error of the system; `WouldBlock` if the server's queue of connections is full, for which the system would wait
/// without a limit.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Wakes a poller: readable once it was rung, until it is reset.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // It fails only if the counter is full, and then the owner is woken anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn reset(&self) {
        // It fails if the descriptor was not readable, which does no harm.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn a_tcp_connection_notices_that_its_peer_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_lost_peer(&socket).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), ASK_AFTER);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), UNACKNOWLEDGED_MAX_MS);
    }

    #[test]
    fn a_server_that_accepts_nobody_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("guira-peer-{}", std::process::id()));
        let server =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 0).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match connect_unix(&path) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).unwrap();
        assert!(!waiting.is_empty() && error.kind() == io::ErrorKind::WouldBlock, "{error}");
    }
}
