//! Sockets of those who wait for their peers: blocking, with bounds.

use crate::net::TcpStream;
use crate::net::UnixStream;
use rustix::io::Result;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// A peer is asked whether it is there after so long a silence, and then so often.
const ASK_AFTER: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 3;
/// What was sent and is not acknowledged by the peer's host for so long has failed, in milliseconds.
const UNACKNOWLEDGED_MAX_MS: u32 = 20_000;

/// Has a connection fail within about 20 s if the host of its peer is gone, also while nothing is sent. No FIN comes from a host that has lost its power.
///
/// # Errors
/// What the system says.
pub fn notice_lost_peer(socket: &TcpStream) -> io::Result<()> {
    let set = |socket: std::os::fd::BorrowedFd<'_>| -> Result<()> {
        sockopt::set_tcp_keepidle(socket, ASK_AFTER)?;
        sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
        sockopt::set_tcp_keepcnt(socket, ASK_TIMES)?;
        sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MAX_MS)?;
        sockopt::set_socket_keepalive(socket, true)
    };
    Ok(set(socket.as_fd())?)
}

/// Connects to a socket in the file system. A server that has more to accept than it has room for says `WouldBlock`: the system would wait for that without end.
///
/// # Errors
/// What the system says.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::TcpListener;
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
